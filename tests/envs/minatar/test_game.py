"""What the games share: sticky actions, sets of actions and the observation's dtype, shown on Breakout's paddle."""

import functools
import re

import jax
import numpy as np
import pytest

import jaxenv
from jaxenv.envs.minatar.game import LETTERS
from jaxenv.specs import Bounded
from tests.envs.minatar.reference import bare

ID = "Breakout-MinAtar"
NUM_LANES, NUM_STEPS = 512, 40


@jax.jit
def executed(env, actions, key):
    """Steps through ``actions``: what the lanes remember after every step, and where their paddles are, ``[T, B]``."""

    def one(state, action):
        state, timestep = env.step(state, action)
        task = (state.inner if hasattr(state, "inner") else state).task
        return state, (task.last_action, task.game.paddle, timestep.step_type)

    return jax.lax.scan(one, env.reset(key)[0], actions)[1]


@functools.cache
def sticky_play():
    """Random actions without restarts, a chance of 0.3 in the lower lanes and 0.7 in the upper: what was executed."""
    chance = np.repeat(np.array([0.3, 0.7], np.float32), NUM_LANES // 2)
    env = bare(ID, NUM_LANES, sticky_action_prob=chance)
    actions = np.random.default_rng(0).integers(3, size=(NUM_STEPS, NUM_LANES)).astype(np.int32)
    last, paddle, _ = jax.device_get(executed(env, actions, jax.random.key(0)))
    return chance, np.array([0, 1, 3])[actions], last, paddle


def test_an_action_sticks_as_often_as_its_lane_says():
    chance, chosen, last, _ = sticky_play()
    before = np.concatenate([np.zeros((1, NUM_LANES), int), last[:-1]])
    told_apart = chosen != before
    for p in (0.3, 0.7):
        rows = told_apart & (chance == np.float32(p))
        assert abs((last == before)[rows].mean() - p) < 5 * np.sqrt(p * (1 - p) / rows.sum())
    assert np.all((last == chosen) | (last == before))
    # Stuck in one step says nothing about the next one, or about the lane beside.
    stuck = np.where(told_apart, last == before, np.nan)[:, chance == np.float32(0.3)]
    for a, b in ((stuck[1:], stuck[:-1]), (stuck[:, 1:], stuck[:, :-1])):
        both = ~np.isnan(a) & ~np.isnan(b)
        assert abs(np.corrcoef(a[both], b[both])[0, 1]) < 5 / np.sqrt(both.sum())


def test_what_sticks_is_what_was_executed_before():
    _, chosen, last, paddle = sticky_play()
    moved = np.diff(paddle, axis=0, prepend=4)
    expected = np.select([last == LETTERS.index("l"), last == LETTERS.index("r")], [-1, 1], 0)
    at_a_wall = (paddle == 0) | (paddle == 9)
    np.testing.assert_array_equal(moved[~at_a_wall], expected[~at_a_wall])
    assert np.any(last != chosen)


def test_a_chance_of_one_repeats_nothing_for_ever():
    env = bare(ID, 4, sticky_action_prob=1.0)
    last, paddle, _ = jax.device_get(executed(env, np.full((3, 4), 2, np.int32), jax.random.key(0)))
    assert not last.any()
    assert np.all(paddle == 4)


def test_the_last_action_outlives_an_episode_as_in_the_original():
    # Without a paddle below it the ball is lost with the sixth step; the seventh row begins the next episode.
    env = jaxenv.make(ID, num_envs=NUM_LANES, sticky_action_prob=0.5)
    actions = np.zeros((9, NUM_LANES), np.int32)
    actions[:6] = 1
    last, _, step_type = jax.device_get(executed(env, actions, jax.random.key(0)))
    before, first = last[5], 6
    ended = (step_type[5] == 2) & (step_type[first] == 0)
    left = ended & (before == LETTERS.index("l"))
    assert left.sum() > 100
    np.testing.assert_array_equal(last[first, ended], before[ended])
    # Half of the new episodes begin with the old one's last action.
    repeated = (last[first + 1] == LETTERS.index("l"))[left]
    assert abs(repeated.mean() - 0.5) < 5 * 0.5 / np.sqrt(left.sum())


def test_the_agents_numbers_stand_for_the_games_own_letters_or_for_all_six():
    for minimal, letters in ((True, "nlr"), (False, "nlurdf")):
        env = bare(ID, 6, minimal_actions=minimal, sticky_action_prob=0.0)
        assert env.action_spec() == Bounded((), np.int32, 0, len(letters) - 1)
        numbers = np.arange(6, dtype=np.int32) % len(letters)
        last, paddle, _ = jax.device_get(executed(env, numbers[None], jax.random.key(0)))
        np.testing.assert_array_equal(last[0], [LETTERS.index(letters[i]) for i in numbers])
        np.testing.assert_array_equal(paddle[0], [{"l": 3, "r": 5}.get(letters[i], 4) for i in numbers])


def test_the_observation_is_bool_or_float32_of_the_same_board():
    for dtype in ("bool", "float32"):
        env = bare(ID, 2, dtype=dtype)
        observation = jax.jit(env.reset)(jax.random.key(0))[1].observation
        assert env.observation_spec() == Bounded((10, 10, 4), dtype, 0, 1)
        assert observation.dtype == dtype
        assert observation.sum() == 2 * (1 + 1 + 1 + 30)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sticky_action_prob": 1.5}, "sticky_action_prob must lie in [0, 1], got 1.5"),
        ({"sticky_action_prob": -0.1}, "sticky_action_prob must lie in [0, 1], got -0.1"),
        ({"dtype": "uint8"}, "dtype must be 'bool' or 'float32', got 'uint8'"),
        ({"minimal_actions": 1}, "minimal_actions must be of type bool, got 1"),
    ],
)
def test_a_bad_argument_is_refused_by_name_and_value(arguments, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        bare(ID, 2, **arguments)
