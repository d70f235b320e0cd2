"""Hex compared with games of Pgx and with its rules in plain Python."""

import jax
import numpy as np
import pytest

import jaxenv
from jaxenv.canvas import BLACK, WHITE
from jaxenv.envs.board.hex import Hex
from jaxenv.testing import check_env
from tests.envs.board import hex_rules, reference
from tests.pictures import rendered, shows

ID, SWAP = "Hex-11x11-v0", 121
NAMES = Hex.action_names

reset = jax.jit(lambda env: env.reset(jax.random.key(0)))
step = jax.jit(lambda env, state, action: env.step(state, action))


def play(moves):
    """The last state and all rows of a game of moves such as ``"a1 swap"``."""
    env = jaxenv.make(ID, num_envs=1)
    state, row = reset(env)
    rows = [row]
    for name in moves.split():
        assert not row.is_last()[0]
        state, row = step(env, state, np.array([NAMES.index(name)], np.int32))
        rows.append(jax.device_get(row))
    return state, rows


def stones(row):
    """The names of the cells with own stones and with those of the opponent, as the player to move sees them."""
    cells = row.observation[0].reshape(121, 4)
    return tuple({NAMES[cell] for cell in np.flatnonzero(cells[:, plane])} for plane in (0, 1))


def test_games_equal_those_of_pgx():
    ours = reference.assert_played_as_pgx(ID, reference.recorded(ID))
    assert ((ours.prev_action == SWAP) & ~ours.is_last()).any()


def test_games_follow_the_rules():
    ends = reference.assert_played_by_the_rules(ID, hex_rules.Hex, num_steps=250, lanes=12)
    assert ends.keys() >= {(1, -1), (-1, 1), "illegal"}


def test_the_swap_mirrors_the_first_stone_and_passes_the_turn():
    _, (first, offered, swapped) = play("d2 swap")
    assert not first.env_info["action_mask"][0, SWAP]
    assert offered.env_info["action_mask"][0].sum() == 121
    assert offered.observation[0, ..., 2:].all()  # white is to move and may swap
    assert stones(offered) == (set(), {"d2"})
    assert stones(swapped) == (set(), {"b4"})
    assert swapped.env_info["player"].tolist() == [0]
    assert not swapped.observation[0, ..., 2:].any()
    assert not swapped.env_info["action_mask"][0, SWAP]
    assert swapped.env_info["action_mask"][0].sum() == 120
    _, rows = play("d4 swap")  # on the diagonal
    assert stones(rows[-1]) == (set(), {"d4"})


@pytest.mark.parametrize("moves", ["swap", "a1 b1 swap", "a1 swap swap", "a1 a1", "a1 swap a1"])
def test_a_stone_on_a_stone_and_a_late_swap_lose(moves):
    _, rows = play(moves)
    last = rows[-1]
    loser = int(rows[-2].env_info["player"][0])
    assert last.is_last()[0]
    assert last.env_info["invalid_move"][0]
    assert last.reward[0, loser] == -1
    assert last.reward[0].sum() == 0
    assert last.env_info["action_mask"].all()
    assert stones(last) == stones(rows[-2])[::-1]


@pytest.mark.parametrize("last", ["f6", "e6"])
def test_black_connects_rows_along_six_sides_and_no_others(last):
    # A column of black stones with a gap at row 6; white's stones are spread over two rows, far away.
    black = [f"f{row}" for row in range(7, 12)] + [f"f{row}" for row in range(1, 6)]
    white = [f"a{row}" for row in range(1, 11)]
    moves = " ".join(f"{b} {w}" for b, w in zip(black, white, strict=True))
    _, rows = play(f"{moves} {last}")
    wins = last == "f6"  # e6 touches f5, but not f7
    assert rows[-1].is_last()[0] == wins
    assert rows[-1].reward[0].tolist() == ([1, -1] if wins else [0, 0])


def test_white_connects_columns():
    white = [f"{column}6" for column in "abcdefghijk"]
    black = [f"{column}1" for column in "abcdefghijk"]
    _, rows = play(" ".join(f"{b} {w}" for b, w in zip(black, white, strict=True)))
    assert rows[-1].is_last()[0]
    assert rows[-1].reward[0].tolist() == [-1, 1]
    assert not rows[-2].is_last()[0]  # nor does a row connect the rows


def test_specs_of_the_game():
    env = jaxenv.make(ID, num_envs=2)
    assert env.agent_names == ("black", "white")
    assert env.turns
    assert env.observation_spec() == jaxenv.specs.Bounded((11, 11, 4), np.bool_, False, True)
    assert len(NAMES) == env.action_spec().num_values == 122


def test_the_picture_shows_stones_in_a_slanted_board_whoever_is_to_move():
    env = jaxenv.make(ID, num_envs=1)
    for moves in ("a1 k11 f6", "a1 k11 f6 b1"):
        state, _ = play(moves)
        image = rendered(env, state, 182)[0]  # ten pixels are the distance of two neighbours
        height = (182 / 10 - 11.8) / 2 + 1.6  # of the first row, from the top

        def colour(row, column, image=image, height=height):
            return image[int(10 * (height + row * 0.866)), int(10 * (1.6 + column + row / 2))]

        assert shows(colour(0, 0), BLACK)
        assert shows(colour(10, 10), WHITE)
        assert shows(colour(5, 5), BLACK)
        assert not shows(colour(5, 4), BLACK)
        assert not shows(colour(5, 4), WHITE)
        assert shows(colour(-1, 5), BLACK)
        assert shows(colour(5, -1), WHITE)


@pytest.mark.thorough
def test_the_game_has_the_properties_of_an_environment():
    check_env(jaxenv.make(ID, num_envs=4), raise_on_failure=True)
