"""2048 compared with games of Pgx and with its rules in plain Python."""

import jax
import numpy as np
import pytest

import jaxenv
from jaxenv import tree
from jaxenv.envs.board.game_2048 import Game2048
from jaxenv.testing import check_env
from tests.draws import chi_square
from tests.envs.board import reference
from tests.pictures import pictures

ID = "2048-v0"


def test_moves_equal_those_of_pgx_with_the_same_new_tiles():
    reference.assert_2048_played_as_pgx(reference.recorded(ID))


def given(boards, **params):
    """An environment and its state on boards int8 ``[N, 4, 4]``."""
    boards = np.array(boards, np.int8)
    env = jaxenv.spec(ID).make(len(boards), **params)
    state, _ = jax.jit(env.reset)(jax.random.key(0))
    moves = (reference.mask_of(boards) << np.arange(4)).sum(axis=1).astype(np.uint32)
    return env, tree.rebuild(state, task=tree.rebuild(state.task, rows=reference.words_of(boards), moves=moves))


def test_every_move_on_random_boards_follows_the_rules():
    rng = np.random.default_rng(1)
    boards = rng.integers(1, rng.integers(2, 17, (3000, 1, 1)), (3000, 4, 4)) * (rng.random((3000, 4, 4)) < 0.7)
    boards = boards[boards.any(axis=(1, 2))].astype(np.int8)
    action = rng.integers(0, 4, len(boards)).astype(np.int32)
    env, state = given(boards)
    _, row = jax.device_get(jax.jit(env.step)(state, action))
    for lane, side in enumerate(action):
        moved, gained = reference.slid(boards[lane], side)
        legal, new = bool((moved != boards[lane]).any()), row.observation[lane] - moved
        assert row.env_info["invalid_move"][lane] == (not legal)
        assert row.reward[lane] == (gained if legal else -1)
        assert np.count_nonzero(new) == legal  # one new tile, in a free cell
        assert not moved[new != 0].any()
        assert set(new.ravel().tolist()) <= {0, 1, 2}
        after = row.observation[lane]
        mask = [bool((reference.slid(after, side)[0] != after).any()) for side in range(4)]
        over = not legal or not any(mask)
        assert row.terminated[lane] == over
        assert row.env_info["action_mask"][lane].tolist() == ([True] * 4 if over else mask)


def test_tiles_merge_once_and_those_nearest_to_the_side_first():
    lines = {(1, 1, 1, 1): (2, 2, 0, 0), (1, 1, 2, 0): (2, 2, 0, 0), (1, 1, 1, 0): (2, 1, 0, 0)}
    lines |= {(2, 0, 0, 2): (3, 0, 0, 0), (16, 16, 0, 0): (17, 0, 0, 0), (1, 2, 2, 1): (1, 3, 1, 0)}
    boards = np.zeros((len(lines), 4, 4), np.int8)
    boards[:, 0] = list(lines)
    env, state = given(boards)
    _, row = jax.device_get(jax.jit(env.step)(state, np.zeros(len(lines), np.int32)))
    rewards = [4 + 4, 4, 4, 8, 2**17, 8]
    assert row.reward.tolist() == rewards
    for shown, line in zip(row.observation[:, 0], lines.values(), strict=True):
        assert shown[: np.count_nonzero(line)].tolist() == list(line[: np.count_nonzero(line)])


@pytest.mark.parametrize("probability", [0.1, 0.5])
def test_new_tiles_are_uniform_over_the_free_cells_and_fours_have_their_probability(probability):
    lanes, board = 20_000, np.zeros((4, 4), np.int8)
    board[1, :3], board[3, 3] = (1, 2, 3), 4
    moved, _ = reference.slid(board, 2)
    env, state = given(np.tile(board, (lanes, 1, 1)), four_probability=probability)
    _, row = jax.device_get(jax.jit(env.step)(state, np.full(lanes, 2, np.int32)))
    new = (row.observation - moved).reshape(lanes, 16)
    counts = (new != 0).sum(axis=0)
    assert counts[moved.ravel() != 0].sum() == 0
    assert chi_square(counts[moved.ravel() == 0]) < 5
    kinds = np.bincount(new.max(axis=1), minlength=3)[1:]
    assert chi_square(kinds, lanes * np.array([1 - probability, probability])) < 5


def test_games_start_with_two_tiles_in_every_pair_of_cells_equally_often():
    lanes = 40_000
    _, first = jax.jit(jaxenv.make(ID, num_envs=lanes).reset)(jax.random.key(1))
    tiles = np.asarray(first.observation).reshape(lanes, 16)
    pairs = np.array([16 * a + b for a, b in np.argwhere(tiles)[:, 1].reshape(lanes, 2)])
    _, counts = np.unique(pairs, return_counts=True)
    assert len(counts) == 120
    assert chi_square(counts) < 5
    fours = (tiles == 2).sum()
    assert chi_square(np.array([2 * lanes - fours, fours]), 2 * lanes * np.array([0.9, 0.1])) < 5


def test_an_illegal_move_costs_one_and_leaves_the_board_alone():
    board = np.zeros((4, 4), np.int8)
    board[:, 0] = 1, 2, 1, 2
    env, state = given([board])
    _, row = jax.device_get(jax.jit(env.step)(state, np.zeros(1, np.int32)))
    assert (row.reward[0], row.terminated[0], row.env_info["invalid_move"][0]) == (-1, True, True)
    np.testing.assert_array_equal(row.observation[0], board)
    assert row.env_info["action_mask"].all()


def test_the_picture_gives_every_tile_its_own_colour():
    boards = np.stack([np.full((4, 4), exponent, np.int8) for exponent in range(18)])
    _, state = given(boards[1:11])
    corners = pictures(Game2048(), state.task)[:, 2, 7].tolist()
    assert len({tuple(corner) for corner in corners}) == 10


@pytest.mark.thorough
def test_the_game_has_the_properties_of_an_environment():
    check_env(jaxenv.make(ID, num_envs=4), raise_on_failure=True)
