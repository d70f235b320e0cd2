"""Go compared with games of Pgx and with its rules in plain Python."""

import jax
import numpy as np
import pytest

import jaxenv
from jaxenv.canvas import BLACK, WHITE
from jaxenv.envs.board.go import Go
from jaxenv.testing import check_env
from tests.envs.board import go_rules, reference
from tests.pictures import rendered, shows

ID, PASS = "Go-9x9-v0", 81
NAMES = Go.action_names

reset = jax.jit(lambda env: env.reset(jax.random.key(0)))
step = jax.jit(lambda env, state, action: env.step(state, action))


def play(moves, **options):
    """The last state and the last row of a game of moves such as ``"A9 pass"``; the row before must not be the end."""
    env = jaxenv.make(ID, num_envs=1, **options)
    state, row = reset(env)
    for name in moves.split():
        assert not row.is_last()[0]
        state, row = step(env, state, np.array([NAMES.index(name)], np.int32))
    return state, jax.device_get(row)


def may_place(row, name):
    return bool(row.env_info["action_mask"][0, NAMES.index(name)])


def stones(row):
    """The names of the points with own stones and with those of the opponent, as the player to move sees them."""
    latest = row.observation[0].reshape(81, 17)
    return tuple({NAMES[point] for point in np.flatnonzero(latest[:, plane])} for plane in (0, 1))


# --- whole games -----------------------------------------------------------------------------------------------------


def test_games_equal_those_of_pgx():
    ours = reference.assert_played_as_pgx(ID, reference.recorded(ID))
    moves, lengths = np.zeros(ours.is_last().shape[1], int), np.zeros(ours.is_last().shape, int)
    for row, first in enumerate(ours.is_first()):
        lengths[row] = moves = np.where(first, 0, moves + 1)
    ends = ours.is_last() & ~ours.env_info["invalid_move"]
    assert (ends & (lengths == 162)).any()
    assert (ends & (lengths < 162) & (ours.prev_action == PASS)).any()
    assert (ends & (lengths < 162) & (ours.prev_action != PASS)).sum() > 3  # a position was repeated


def test_games_follow_the_rules():
    ends = reference.assert_played_by_the_rules(ID, go_rules.Go, num_steps=330, lanes=5)
    assert ends.keys() >= {(1, -1), (-1, 1), "illegal"}


# --- stones ----------------------------------------------------------------------------------------------------------


def test_a_group_without_a_free_point_is_captured():
    _, row = play("A9 A8 B9 B8 J1 C9")  # two black stones in the corner
    assert stones(row) == ({"J1"}, {"A8", "B8", "C9"})
    assert may_place(row, "A9")


def test_a_group_of_its_own_without_a_free_point_is_illegal():
    corner = "A8 J1 B9"
    _, row = play(corner)
    assert not may_place(row, "A9")  # for white
    _, row = play(f"{corner} pass")
    assert may_place(row, "A9")
    _, row = play(f"{corner} A9")
    assert row.is_last()[0]
    assert row.reward[0].tolist() == [1, -1]
    assert row.env_info["invalid_move"][0]
    assert row.env_info["action_mask"].all()
    assert stones(row) == ({"A8", "B9"}, {"J1"})


KO = "C5 F5 D6 E6 D4 E4 J9 D5 E5"


def test_a_single_stone_is_not_taken_back_at_once():
    _, row = play(KO)
    assert "D5" not in stones(row)[0]  # black has captured it
    assert not may_place(row, "D5")
    _, row = play(f"{KO} J1 J2")
    assert may_place(row, "D5")
    _, row = play(f"{KO} J1 J2 D5")
    assert "E5" not in stones(row)[0]
    assert not may_place(row, "E5")
    _, row = play(f"{KO} D5")
    assert row.reward[0].tolist() == [1, -1]
    assert row.env_info["invalid_move"][0]


TWO_FOR_ONE = "B9 A8 C8 B8 D9 J1 A9 C9"  # white has captured two stones, black may capture one


def test_a_position_that_occurred_before_ends_the_game_and_loses():
    _, row = play(TWO_FOR_ONE)
    assert may_place(row, "B9")
    _, row = play(f"{TWO_FOR_ONE} B9")
    assert row.is_last()[0]
    assert row.discount[0] == 0
    assert row.reward[0].tolist() == [-1, 1]
    assert not row.env_info["invalid_move"][0]


def test_a_position_after_a_pass_is_the_same_and_does_not_end_the_game():
    _, row = play("E5 pass D5 pass")
    assert not row.is_last()[0]


# --- the end ---------------------------------------------------------------------------------------------------------


def test_two_passes_in_a_row_end_the_game_by_area():
    wall = "A5 A4 B5 B4 C5 C4 D5 D4 E5 E4 F5 F4 G5 G4 H5 H4 J5 J4"
    _, row = play(f"{wall} pass pass")  # black has five rows and white four: 45 - 36 > 7.5
    assert row.is_last()[0]
    assert row.reward[0].tolist() == [1, -1]
    _, row = play(f"{wall} pass J9 pass pass")  # no free point of the five rows is black's alone: 9 - 37
    assert row.reward[0].tolist() == [-1, 1]


@pytest.mark.parametrize(("komi", "black"), [(7.5, -1), (0, -1), (-0.5, 1)])
def test_on_an_empty_board_white_wins_unless_its_komi_is_negative(komi, black):
    _, row = play("pass pass", komi=komi)
    assert row.reward[0].tolist() == [black, -black]


def test_komi_may_differ_between_lanes():
    env = jaxenv.make(ID, num_envs=2, komi=[-0.5, 0.5])
    state, _ = reset(env)
    for _ in range(2):
        state, row = step(env, state, np.full(2, PASS, np.int32))
    assert row.reward.tolist() == [[1, -1], [-1, 1]]


# --- specs, picture, kit ---------------------------------------------------------------------------------------------


def test_the_first_row_of_a_game_shows_an_empty_board_to_black():
    env = jaxenv.make(ID, num_envs=2)
    _, row = reset(env)
    assert not row.observation.any()
    assert row.env_info["player"].tolist() == [0, 0]
    assert row.env_info["action_mask"].all()
    assert env.agent_names == ("black", "white")
    assert env.turns
    assert env.observation_spec() == jaxenv.specs.Bounded((9, 9, 17), np.bool_, False, True)
    assert len(NAMES) == env.action_spec().num_values == 82


def test_the_picture_shows_stones_whoever_is_to_move():
    env = jaxenv.make(ID, num_envs=1)
    for moves in ("A9 D4 J8", "A9 D4 J8 pass"):
        state, _ = play(moves)
        image = rendered(env, state, 90)[0][5::10, 5::10]
        assert np.argwhere(shows(image, BLACK)).tolist() == [[0, 0], [1, 8]]
        assert np.argwhere(shows(image, WHITE)).tolist() == [[5, 3]]


@pytest.mark.thorough
def test_the_game_has_the_properties_of_an_environment():
    check_env(jaxenv.make(ID, num_envs=4), raise_on_failure=True)
