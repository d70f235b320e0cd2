"""ConnectFour compared with games of Pgx and with its rules in plain Python."""

import jax
import numpy as np
import pytest

import jaxenv
from jaxenv.canvas import WHITE
from jaxenv.envs.board.connect_four import ConnectFour
from jaxenv.testing import check_env
from tests.envs.board import reference
from tests.pictures import pictures, shows
from tests.rows import unrolled

ID = "ConnectFour-v0"


def test_games_equal_those_of_pgx():
    reference.assert_played_as_pgx(ID, reference.recorded(ID))


def test_games_follow_the_rules():
    ends = reference.assert_played_by_the_rules(ID, reference.ConnectFour, num_steps=120, lanes=40)
    assert ends.keys() >= {(1, -1), (-1, 1), "illegal"}


def lines():
    """The 69 lines of four cells, as moves ``(column, height)``."""
    for across, up in ((1, 0), (0, 1), (1, 1), (1, -1)):
        for column in range(7):
            for height in range(6):
                line = [(column + k * across, height + k * up) for k in range(4)]
                if all(0 <= c < 7 and 0 <= h < 6 for c, h in line):
                    yield line


def stones(cells):
    """Words of sets of cells, as the state has them."""
    numbers = [[7 * column + height for column, height in lane] for lane in cells]
    bits = np.array([sum(1 << n for n in lane) for lane in numbers], np.uint64)
    return np.uint32(bits & np.uint64(2**32 - 1)), np.uint32(bits >> np.uint64(32))


def given(own, other, player=None):
    """The state of an environment with these stones, and the environment."""
    env = jaxenv.spec(ID).make(len(own))
    state, _ = jax.jit(env.reset)(jax.random.key(0))
    task = state.task
    own, other = (jaxenv.tree.rebuild(task.own, words=stones(cells)) for cells in (own, other))
    player = task.player if player is None else np.array(player, np.int32)
    return env, jaxenv.tree.rebuild(state, task=jaxenv.tree.rebuild(task, own=own, other=other, player=player))


def test_each_of_the_69_lines_wins_by_each_stone_that_can_be_the_last():
    assert len(list(lines())) == 69
    # No stone of a line can fall below another one of the same column.
    every = [(line, last) for line in lines() for last in line if last == max(c for c in line if c[0] == last[0])]
    own = [[cell for cell in line if cell != last] for line, last in every]
    other = [
        [(column, below) for below in range(height) if (column, below) not in line] for line, (column, height) in every
    ]
    env, state = given(own, other)
    _, row = jax.device_get(jax.jit(env.step)(state, np.array([column for _, (column, _) in every], np.int32)))
    assert row.terminated.all()
    np.testing.assert_array_equal(row.reward, np.tile([1, -1], (len(every), 1)))


def test_lines_do_not_lead_from_the_top_of_a_column_to_the_bottom_of_the_next():
    own = [[(0, 4), (0, 5), (1, 1)], [(0, 5), (1, 5), (3, 0)], [(0, 3), (0, 4), (0, 5)]]
    env, state = given(own, [[(1, 0)], [], []])
    _, row = jax.device_get(jax.jit(env.step)(state, np.array([1, 2, 1], np.int32)))
    assert not row.terminated.any()


def test_a_full_board_is_a_draw_and_its_mask_allows_every_column():
    order = [0, 1, 0, 1, 0, 1, 1, 0, 1, 0, 1, 0, 2, 3, 2, 3, 2, 3, 3, 2, 3, 2, 3, 2, 4, 5, 4, 5, 4, 5, 5, 4, 5, 4, 5, 4]
    rows = unrolled(jaxenv.make(ID), np.array([*order, *[6] * 6], np.int32)[:, None])
    assert rows.is_last()[:, 0].tolist() == [False] * 42 + [True]
    assert rows.reward[-1, 0].tolist() == [0, 0]
    assert rows.discount[-1, 0] == 0
    assert rows.env_info["action_mask"][-1].all()
    assert rows.env_info["action_mask"][-2, 0].tolist() == [False] * 6 + [True]


def test_the_picture_marks_lines_of_four():
    line = [(3, 0), (4, 1), (5, 2), (6, 3)]
    _, state = given([line, line[:3]], [[], []], [0, 0])
    marked = shows(pictures(ConnectFour(), state.task), WHITE)
    assert marked[0].any()
    assert not marked[1].any()


@pytest.mark.thorough
def test_the_game_has_the_properties_of_an_environment():
    check_env(jaxenv.make(ID, num_envs=4), raise_on_failure=True)
