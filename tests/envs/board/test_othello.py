"""Othello compared with games of Pgx and with its rules in plain Python."""

import jax
import numpy as np
import pytest

import jaxenv
from jaxenv import tree
from jaxenv.canvas import INK, WHITE
from jaxenv.envs.board.othello import Othello
from jaxenv.testing import check_env
from tests.envs.board import reference
from tests.pictures import picture, shows

ID, PASS = "Othello-v0", 64


def test_games_equal_those_of_pgx():
    ours = reference.assert_played_as_pgx(ID, reference.recorded(ID))
    passes = ours.prev_action == PASS
    assert (passes & ~ours.is_last()).sum() > 5
    assert (passes & ours.is_last() & ~ours.env_info["invalid_move"]).any()  # both players passed


def test_games_follow_the_rules():
    ends = reference.assert_played_by_the_rules(ID, reference.Othello, num_steps=140, lanes=12)
    assert ends.keys() >= {(1, -1), (-1, 1), "illegal"}


def given(boards):
    """An environment and its state on these boards, 1 for discs of black, which moves, and -1 for those of white.

    The legal moves are those of the plain rules.
    """
    boards = np.array(boards, np.int8).reshape(-1, 8, 8)
    env = jaxenv.spec(ID).make(len(boards))
    state, _ = jax.jit(env.reset)(jax.random.key(0))

    def words(flags, count):
        flags = np.pad(flags, [(0, 0), (0, 32 * count - flags.shape[1])])
        packed = np.packbits(flags.reshape(len(flags), -1), axis=1, bitorder="little").view(np.uint32)
        return tuple(packed[:, k] for k in range(count))

    games = []
    for board in boards:
        game = reference.Othello()
        game.discs = {(r, c): int(board[r, c] < 0) for r in range(8) for c in range(8) if board[r, c]}
        games.append(game)
    flat, task = boards.reshape(-1, 64), state.task
    sets = {
        "own": words(flat > 0, 2),
        "other": words(flat < 0, 2),
        "moves": words(np.array([g.legal() for g in games]), 3),
    }
    task = tree.rebuild(task, **{name: tree.rebuild(getattr(task, name), words=w) for name, w in sets.items()})
    return env, tree.rebuild(state, task=task), games


def test_every_move_on_random_boards_turns_the_discs_that_the_rules_turn():
    rng = np.random.default_rng(0)
    boards = rng.choice([-1, 0, 1], size=(150, 64), p=[0.4, 0.25, 0.35])
    env, state, games = given(boards)
    moves = [(lane, move) for lane, game in enumerate(games) for move in np.flatnonzero(game.legal())]
    lanes, action = np.array(moves).T
    assert len(moves) > 1000
    many = env.take(lanes)
    state = jax.tree.map(lambda x: x[lanes], state)
    _, row = jax.device_get(jax.jit(many.step)(state, action.astype(np.int32)))
    for number, (lane, move) in enumerate(moves):
        game = reference.Othello()
        game.discs = dict(games[lane].discs)
        rewards, over = game.play(int(move))
        np.testing.assert_array_equal(row.observation[number], game.view())
        assert row.reward[number].tolist() == list(rewards)
        assert row.terminated[number] == over
        assert row.env_info["action_mask"][number].tolist() == ([True] * 65 if over else game.legal())


def test_a_player_without_discs_has_lost_and_equal_numbers_are_a_draw():
    lone = np.zeros((8, 8), np.int8)
    lone[0, :2] = 1, -1  # black turns the last white disc
    full = -np.ones((8, 8), np.int8)
    full[0, 0], full[0, 2], full[1:, 0], full[1, 1] = 0, 1, 1, 1  # the last disc turns the one next to it
    full[4:, 2:][:3] = 1
    full[7, 2:5] = 1
    assert (full == 1).sum() == 30
    env, state, _ = given([lone, full])
    _, row = jax.device_get(jax.jit(env.step)(state, np.array([2, 0], np.int32)))
    assert row.terminated.tolist() == [True, True]
    assert row.reward.tolist() == [[1, -1], [0, 0]]
    assert row.observation[1].sum() == 0


@pytest.mark.parametrize(("action", "reward"), [(PASS, -1), (0, -1), (27, -1), (19, 0)])
def test_a_pass_or_a_disc_is_illegal_where_the_mask_says_so(action, reward):
    env = jaxenv.make(ID, num_envs=1)
    state, first = jax.jit(env.reset)(jax.random.key(0))
    assert np.flatnonzero(first.env_info["action_mask"][0]).tolist() == [19, 26, 37, 44]
    _, row = jax.device_get(jax.jit(env.step)(state, np.array([action], np.int32)))
    assert row.reward[0].tolist() == [reward, -reward]
    assert row.terminated[0] == (reward == -1)
    if reward:
        np.testing.assert_array_equal(row.observation, -np.asarray(first.observation))  # seen by white


def test_the_picture_shows_black_and_white_discs_whoever_is_to_move():
    state, _ = jax.jit(jaxenv.spec(ID).make(2).reset)(jax.random.key(0))
    task = state.task
    turn = tree.rebuild(task, own=task.other, other=task.own, player=1 - task.player)
    for shown in (task, turn):
        image = picture(Othello(), shown, 2, 64)[0][4::8, 4::8]
        assert np.argwhere(shows(image, INK)).tolist() == [[3, 4], [4, 3]]
        assert np.argwhere(shows(image, WHITE)).tolist() == [[3, 3], [4, 4]]


@pytest.mark.thorough
def test_the_game_has_the_properties_of_an_environment():
    check_env(jaxenv.make(ID, num_envs=4), raise_on_failure=True)
