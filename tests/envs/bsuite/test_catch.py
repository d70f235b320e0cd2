"""Catch compared with bsuite's."""

import functools

import jax
import numpy as np
import pytest

from jaxenv.canvas import RED, WHITE
from jaxenv.envs.bsuite.catch import State
from tests import parity
from tests.envs.bsuite import reference
from tests.pictures import cells, pictures, shows

bsuite_catch = pytest.importorskip("bsuite.environments.catch")

ID = "Catch-bsuite"


def state(env):
    misses = env._total_regret / 2
    return State(*(np.int32(x) for x in (env._ball_y, env._ball_x, env._paddle_x, misses)))


def place(env, rng):
    """Any state above the bottom row, half of them just above it."""
    near = rng.integers(2)
    env._ball_y = env._rows - 2 if near else int(rng.integers(env._rows - 1))
    env._ball_x, env._paddle_x = (int(x) for x in rng.integers(env._columns, size=2))
    env._total_regret = 2.0 * rng.integers(1000)


TRANSLATION = reference.Translation(ID, state)
bare = functools.cache(lambda **kwargs: reference.bare(ID, **kwargs))


@pytest.mark.parametrize("options", [{}, {"rows": 6, "columns": 9}, {"rows": 2, "columns": 1}])
def test_one_step_from_any_state_equals_bsuite(options):
    num_states = 500 if options else 2000
    original = reference.recorded(bsuite_catch.Catch(**options))
    steps = reference.injected_steps(original, TRANSLATION, num_states, place)
    assert np.mean([s.terminated for s in steps]) > 0.3
    assert {s.reward for s in steps} == ({1, -1, 0} if options.get("columns") != 1 else {1})
    reference.assert_steps_match(bare(**options), steps)
    parity.certify(ID, "bsuite", states=num_states)


def test_whole_episodes_equal_bsuite():
    played = reference.episodes(bsuite_catch.Catch, TRANSLATION, 20)
    assert {steps[-1].reward for steps in played} == {1, -1}
    reference.assert_episodes_match(bare(), played)
    parity.certify(ID, "bsuite", episodes=20, steps=sum(map(len, played)))


def test_starts_and_specs_equal_bsuite():
    original = reference.recorded(bsuite_catch.Catch())
    reference.assert_starts_match(bare(), original, TRANSLATION)
    reference.assert_specs_match(bare(), original)


def test_the_column_of_the_ball_is_uniform():
    lanes = 20_000
    task = reference.starts(bare(), lanes)
    reference.assert_counts_match(np.bincount(task.ball_column), np.full(5, lanes / 5))
    assert not task.ball_row.any()
    assert np.all(task.paddle == 2)


def test_regret_is_carried_over_to_the_next_episode():
    old, new = State(*np.int32([[9], [1], [2], [7]])), State(*np.int32([[0], [4], [2], [0]]))
    assert [int(x[0]) for x in jax.tree.leaves(bare().carry(old, new))] == [0, 4, 2, 7]


@pytest.mark.parametrize(
    ("options", "message"),
    [({"rows": 1}, "rows must be at least 2, got 1"), ({"columns": 0}, "columns must be at least 1, got 0")],
)
def test_too_small_boards_raise(options, message):
    with pytest.raises(ValueError, match=message):
        bare(**options)


def test_the_picture_shows_the_ball_in_its_cell_red_once_it_is_missed():
    lanes = State(*np.int32([[3, 4, 4], [1, 2, 4], [2, 2, 2], [0, 0, 0]]))
    picture = pictures(bare(rows=5), lanes)
    for colour, places in ((WHITE, [[0, 3, 1], [1, 4, 2]]), (RED, [[2, 4, 4]])):
        assert np.argwhere(cells(shows(picture, colour), 5, 5)).tolist() == places
