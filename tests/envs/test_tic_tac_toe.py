"""TicTacToe compared with its rules in plain Python for every position and move, and with ALF's published trace."""

import functools

import jax
import numpy as np
import pytest

import jaxenv
from jaxenv import tree
from jaxenv.canvas import GOLD
from jaxenv.core.timestep import StepType
from jaxenv.envs.tic_tac_toe import State, TicTacToe
from jaxenv.testing import check_env
from tests.pictures import pictures, shows

FIRST, MID, LAST = int(StepType.FIRST), int(StepType.MID), int(StepType.LAST)
LINES = [(0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6)]


reset = jax.jit(lambda env, key: env.reset(key))
advance = jax.jit(lambda env, state, action: env.step(state, action))


def play(actions):
    """The FIRST rows and those after ``actions [T][B]``, as a list of TimeSteps."""
    actions = np.array(actions, np.int32)
    env = jaxenv.make("TicTacToe-v0", num_envs=actions.shape[1])
    state, timestep = reset(env, jax.random.key(0))
    rows = [timestep]
    for action in actions:
        state, timestep = advance(env, state, action)
        rows.append(timestep)
    return jax.device_get(rows)


def to_move(board):
    return -1 if sum(cell != 0 for cell in board) % 2 == 0 else 1


def won(board, player):
    return any(all(board[cell] == player for cell in line) for line in LINES)


def move(board, cell):
    """The rules: the next board, the reward, and the name of the end or ``None``."""
    player = to_move(board)
    if board[cell] != 0:
        return board, player, "invalid_move"
    board = (*board[:cell], player, *board[cell + 1 :])
    if won(board, player):
        return board, -player, "play0_win" if player == -1 else "play1_win"
    return board, 0, None if 0 in board else "draw"


@functools.cache
def positions():
    """All boards of unfinished games."""
    found, waiting = set(), [(0,) * 9]
    while waiting:
        board = waiting.pop()
        if board not in found:
            found.add(board)
            after = (move(board, cell) for cell in range(9) if board[cell] == 0)
            waiting += [next_board for next_board, _, end in after if end is None]
    return sorted(found)


def test_every_move_from_every_position_follows_the_rules():
    boards = [board for board in positions() for _ in range(9)]
    cells = np.tile(np.arange(9, dtype=np.int32), len(positions()))
    assert len(positions()) == 4520  # the known number of positions with a player to move
    env = jaxenv.spec("TicTacToe-v0").make(len(boards))
    state, _ = reset(env, jax.random.key(0))
    state = tree.rebuild(state, task=type(state.task)(np.array(boards, np.int8)))
    _, timestep = jax.device_get(advance(env, state, cells))

    expected = [move(board, cell) for board, cell in zip(boards, cells.tolist(), strict=True)]
    after = np.array([board for board, _, _ in expected])
    ends = np.array([end is not None for _, _, end in expected])
    assert 0.3 < ends.mean() < 0.9
    np.testing.assert_array_equal(timestep.observation, after.reshape(-1, 3, 3))
    np.testing.assert_array_equal(timestep.reward, [reward for _, reward, _ in expected])
    np.testing.assert_array_equal(timestep.step_type, np.where(ends, LAST, MID))
    np.testing.assert_array_equal(timestep.discount, np.where(ends, 0, 1))
    for name in ("play0_win", "play1_win", "draw", "invalid_move"):
        flags = np.array([end == name for _, _, end in expected])
        assert flags.any()
        np.testing.assert_array_equal(timestep.env_info[name], flags, err_msg=name)
    # On a full board the mask allows every cell.
    mask = (after == 0) | np.all(after != 0, axis=-1, keepdims=True)
    np.testing.assert_array_equal(timestep.env_info["action_mask"], mask)


def test_two_boards_give_alfs_published_trace():
    rows = play([[4, 5], [3, 4], [0, 2], [8, 2], [1, 3], [6, 3], [2, 4]])
    first, before, after, later, last = rows[0], rows[4], rows[5], rows[6], rows[7]
    assert first.step_type.tolist() == [FIRST, FIRST]
    for row in rows[1:4]:
        assert row.step_type.tolist() == [MID, MID]
        assert row.reward.tolist() == [0, 0]
        assert row.discount.tolist() == [1, 1]
    # Board 1: player 1 marks cell 2, which is taken, so player 0 wins.
    assert before.step_type.tolist() == [MID, LAST]
    assert before.reward.tolist() == [0, 1]
    assert before.discount.tolist() == [1, 0]
    assert before.prev_action.tolist() == [8, 2]
    assert before.env_info["invalid_move"].tolist() == [False, True]
    assert after.step_type.tolist() == [MID, FIRST]
    assert after.prev_action.tolist() == [1, 0]
    assert after.reward.tolist() == [0, 0]
    assert after.discount.tolist() == [1, 1]
    assert np.all(after.observation[1] == 0)
    assert not after.env_info["invalid_move"].any()
    assert later.step_type.tolist() == [MID, MID]
    # Board 0: player 0 completes the top row.
    assert last.step_type.tolist() == [LAST, MID]
    assert last.reward.tolist() == [1, 0]
    assert last.discount.tolist() == [0, 1]
    assert last.env_info["play0_win"].tolist() == [True, False]
    np.testing.assert_array_equal(last.observation[0], [[-1, -1, -1], [1, -1, 0], [1, 0, 1]])


@pytest.mark.parametrize("winner", [0, 1])
def test_each_of_the_eight_lines_wins_for_either_player(winner):
    games = []
    for line in LINES:
        others = [cell for cell in range(9) if cell not in line]
        # Cells of the other player that are not a line.
        spare = next(
            (a, b, c)
            for a in others
            for b in others
            for c in others
            if len({a, b, c}) == 3 and tuple(sorted((a, b, c))) not in LINES
        )
        a, b, c = spare
        x, y, z = line
        games.append([x, a, y, b, z] if winner == 0 else [a, x, b, y, c, z])
    rows = play(np.array(games).T)
    reward = 1 if winner == 0 else -1
    for row in rows[1:-1]:
        assert np.all(row.step_type == MID)
        assert np.all(row.reward == 0)
    assert np.all(rows[-1].step_type == LAST)
    assert np.all(rows[-1].discount == 0)
    assert np.all(rows[-1].reward == reward)
    assert np.all(rows[-1].env_info[f"play{winner}_win"])
    assert not np.any(rows[-1].env_info[f"play{1 - winner}_win"])


def test_a_full_board_without_a_line_is_a_draw_with_reward_zero():
    rows = play(np.array([[0, 1, 2, 4, 3, 5, 7, 6, 8]]).T)
    assert [int(row.step_type[0]) for row in rows] == [FIRST] + [MID] * 8 + [LAST]
    last = rows[-1]
    assert last.reward.tolist() == [0]
    assert last.discount.tolist() == [0]
    assert last.env_info["draw"].tolist() == [True]
    assert last.env_info["action_mask"].all()


def test_a_line_with_the_last_free_cell_is_a_win_and_not_a_draw():
    rows = play(np.array([[0, 1, 2, 3, 4, 6, 5, 7, 8]]).T)
    last = rows[-1]
    assert np.all(last.observation != 0)
    assert last.reward.tolist() == [1]
    assert last.env_info["play0_win"].tolist() == [True]
    assert last.env_info["draw"].tolist() == [False]


def test_an_illegal_move_loses_and_does_not_change_the_board():
    rows = play([[4, 4], [4, 0], [0, 4]])
    by_player_1, by_player_0 = rows[2], rows[3]
    assert by_player_1.reward.tolist()[0] == 1
    assert by_player_0.reward.tolist()[1] == -1
    assert by_player_1.step_type.tolist() == [LAST, MID]
    assert by_player_0.step_type.tolist() == [FIRST, LAST]
    np.testing.assert_array_equal(by_player_0.observation[1], [[1, 0, 0], [0, -1, 0], [0, 0, 0]])


def test_specs_are_a_three_by_three_board_and_nine_actions():
    env = jaxenv.make("TicTacToe-v0", num_envs=2)
    assert env.observation_spec() == jaxenv.specs.Bounded((3, 3), np.int8, -1, 1)
    assert env.action_spec() == jaxenv.specs.Bounded((), np.int32, 0, 8)
    assert set(env.env_info_spec()) == {"play0_win", "play1_win", "draw", "invalid_move", "action_mask"}


# --- against an opponent ---------------------------------------------------------------------------------------------


def answered(board, cell, reply):
    """A step against an opponent as in TF-Agents: the next board, the reward and the name of the end or ``None``."""
    board, reward, end = move(board, cell)
    return (board, reward, end) if end else move(board, reply)


@functools.cache
def stepped_against(opponent, boards, cells):
    """The rows after one move of the agent from each of the boards."""
    env = jaxenv.spec("TicTacToe-v0").make(len(boards), opponent=opponent, illegal_reward=-0.25)
    state, _ = reset(env, jax.random.key(0))
    state = tree.rebuild(state, task=type(state.task)(np.array(boards, np.int8)))
    return jax.device_get(advance(env, state, np.array(cells, np.int32))[1])


def agents_moves():
    """Every position in which the agent moves, with every cell that it may mark."""
    boards = [board for board in positions() if to_move(board) == -1]
    return tuple(board for board in boards for _ in range(9)), tuple(range(9)) * len(boards)


@pytest.mark.parametrize("opponent", ["first", "random"])
def test_an_opponent_answers_every_move_that_does_not_end_the_game(opponent):
    boards, cells = agents_moves()
    timestep = stepped_against(opponent, boards, cells)
    ends = set()
    for lane, (board, cell) in enumerate(zip(boards, cells, strict=True)):
        own, _, end = move(board, cell)
        after = tuple(timestep.observation[lane].ravel().tolist())
        replies = [i for i in range(9) if own[i] == 0] if end is None else [None]
        reply = replies[0] if opponent == "first" else next((i for i in range(9) if after[i] != own[i]), None)
        assert reply in replies
        expected, reward, end = answered(board, cell, reply)
        reward = -0.25 if end == "invalid_move" else reward
        ends.add(end)
        assert after == expected
        assert timestep.reward[lane] == reward
        assert (timestep.step_type[lane] == LAST) == (end is not None)
        assert timestep.discount[lane] == (end is None)
        names = ("play0_win", "play1_win", "draw", "invalid_move")
        assert [name for name in names if timestep.env_info[name][lane]] == ([end] if end else [])
    assert ends == {None, "play0_win", "play1_win", "draw", "invalid_move"}


def test_a_random_opponent_marks_every_free_cell_equally_often():
    lanes = 8000
    env = jaxenv.spec("TicTacToe-v0").make(lanes, opponent="random")
    state, _ = reset(env, jax.random.key(3))
    _, timestep = jax.device_get(advance(env, state, np.full(lanes, 4, np.int32)))
    counts = (timestep.observation.reshape(lanes, 9) == 1).sum(axis=0)
    assert counts[4] == 0
    assert counts.sum() == lanes
    assert (np.abs(np.delete(counts, 4) - 1000) < 150).all()  # five standard deviations


def test_the_reward_of_an_illegal_move_belongs_to_the_player_who_makes_it():
    env = jaxenv.make("TicTacToe-v0", num_envs=2, illegal_reward=[-0.001, -0.5])
    state, _ = reset(env, jax.random.key(0))
    state, _ = advance(env, state, np.array([4, 4], np.int32))
    state, timestep = advance(env, state, np.array([4, 4], np.int32))
    np.testing.assert_allclose(timestep.reward, [0.001, 0.5])
    assert timestep.is_last().all()


def test_an_unknown_opponent_is_refused():
    with pytest.raises(ValueError, match=r"TicTacToe: opponent .*got 'perfect'"):
        jaxenv.make("TicTacToe-v0", opponent="perfect")


@pytest.mark.thorough
def test_a_game_against_an_opponent_has_the_properties_of_an_environment():
    env = jaxenv.make("TicTacToe-v0", num_envs=4, opponent="random")
    names = ["same_tree", "strict_promotion", "lane_independent", "within_specs", "mask_leaves_an_action"]
    check_env(env, properties=names, raise_on_failure=True)


def test_the_picture_strikes_out_complete_lines_through_their_three_cells():
    board = np.zeros((9, 9), np.int8)
    for lane, line in enumerate(LINES):
        board[lane, list(line)] = 1 - 2 * (lane % 2)
    board[8, :2] = 1
    struck = shows(pictures(TicTacToe(), State(board)), GOLD)[:, 10::20, 10::20].reshape(9, 9)  # centres of cells
    assert [tuple(np.flatnonzero(lane).tolist()) for lane in struck] == [*LINES, ()]
