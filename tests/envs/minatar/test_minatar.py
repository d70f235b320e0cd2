"""Common parts of the games, tested on Breakout: sticky actions, action sets and the dtype of the observation."""

import functools

import jax
import numpy as np
import pytest

import jaxenv
from jaxenv.envs.minatar.minatar import LETTERS
from jaxenv.specs import Bounded
from tests.envs.minatar.reference import bare
from tests.errors import like

ID = "Breakout-MinAtar"
NUM_LANES, NUM_STEPS = 512, 40


@jax.jit
def executed(env, actions, key):
    """Steps through ``actions``; returns the last action, the paddle's column and the step type, each ``[T, B]``."""

    def step(state, action):
        state, timestep = env.step(state, action)
        task = (state.inner if hasattr(state, "inner") else state).task
        return state, (task.last_action, task.game.paddle, timestep.step_type)

    return jax.lax.scan(step, env.reset(key)[0], actions)[1]


@functools.cache
def sticky_play():
    """Plays random actions without restarts; half of the lanes have sticky probability 0.3, the other half 0.7."""
    probability = np.repeat(np.array([0.3, 0.7], np.float32), NUM_LANES // 2)
    env = bare(ID, NUM_LANES, sticky_action_prob=probability)
    actions = np.random.default_rng(0).integers(3, size=(NUM_STEPS, NUM_LANES)).astype(np.int32)
    last, paddle, _ = jax.device_get(executed(env, actions, jax.random.key(0)))
    return probability, np.array([0, 1, 3])[actions], last, paddle


def test_actions_stick_with_the_probability_of_their_lane():
    probability, chosen, last, _ = sticky_play()
    before = np.concatenate([np.zeros((1, NUM_LANES), int), last[:-1]])
    distinguishable = chosen != before
    for p in (0.3, 0.7):
        rows = distinguishable & (probability == np.float32(p))
        assert abs((last == before)[rows].mean() - p) < 5 * np.sqrt(p * (1 - p) / rows.sum())
    assert np.all((last == chosen) | (last == before))
    # Whether an action sticks is independent of the step before and of the neighbouring lane.
    stuck = np.where(distinguishable, last == before, np.nan)[:, probability == np.float32(0.3)]
    for a, b in ((stuck[1:], stuck[:-1]), (stuck[:, 1:], stuck[:, :-1])):
        both = ~np.isnan(a) & ~np.isnan(b)
        assert abs(np.corrcoef(a[both], b[both])[0, 1]) < 5 / np.sqrt(both.sum())


def test_a_sticky_action_repeats_the_action_executed_before():
    _, chosen, last, paddle = sticky_play()
    moved = np.diff(paddle, axis=0, prepend=4)
    expected = np.select([last == LETTERS.index("l"), last == LETTERS.index("r")], [-1, 1], 0)
    at_a_wall = (paddle == 0) | (paddle == 9)
    np.testing.assert_array_equal(moved[~at_a_wall], expected[~at_a_wall])
    assert np.any(last != chosen)


def test_with_probability_one_the_initial_nothing_is_repeated_forever():
    env = bare(ID, 4, sticky_action_prob=1.0)
    last, paddle, _ = jax.device_get(executed(env, np.full((3, 4), 2, np.int32), jax.random.key(0)))
    assert not last.any()
    assert np.all(paddle == 4)


def test_the_last_action_outlives_the_episode_as_in_the_original():
    # The paddle misses the ball at the sixth step; the seventh row starts the next episode.
    env = jaxenv.make(ID, num_envs=NUM_LANES, sticky_action_prob=0.5)
    actions = np.zeros((9, NUM_LANES), np.int32)
    actions[:6] = 1
    last, _, step_type = jax.device_get(executed(env, actions, jax.random.key(0)))
    before, first = last[5], 6
    ended = (step_type[5] == 2) & (step_type[first] == 0)
    left = ended & (before == LETTERS.index("l"))
    assert left.sum() > 100
    np.testing.assert_array_equal(last[first, ended], before[ended])
    # Half of the new episodes start with the last action of the old one.
    repeated = (last[first + 1] == LETTERS.index("l"))[left]
    assert abs(repeated.mean() - 0.5) < 5 * 0.5 / np.sqrt(left.sum())


def test_action_numbers_index_the_minimal_letters_or_all_six():
    for minimal, letters in ((True, "nlr"), (False, "nlurdf")):
        env = bare(ID, 6, minimal_actions=minimal, sticky_action_prob=0.0)
        assert env.action_spec() == Bounded((), np.int32, 0, len(letters) - 1)
        numbers = np.arange(6, dtype=np.int32) % len(letters)
        last, paddle, _ = jax.device_get(executed(env, numbers[None], jax.random.key(0)))
        np.testing.assert_array_equal(last[0], [LETTERS.index(letters[i]) for i in numbers])
        np.testing.assert_array_equal(paddle[0], [{"l": 3, "r": 5}.get(letters[i], 4) for i in numbers])


def test_the_observation_is_the_board_as_bool_or_float32():
    for dtype in ("bool", "float32"):
        env = bare(ID, 2, dtype=dtype)
        observation = jax.jit(env.reset)(jax.random.key(0))[1].observation
        assert env.observation_spec() == Bounded((10, 10, 4), dtype, 0, 1)
        assert observation.dtype == dtype
        assert observation.sum() == 2 * (1 + 1 + 1 + 30)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sticky_action_prob": 1.5}, "sticky_action_prob ...got 1.5"),
        ({"sticky_action_prob": -0.1}, "sticky_action_prob ...got -0.1"),
        ({"dtype": "uint8"}, "dtype ...got 'uint8'"),
        ({"minimal_actions": 1}, "minimal_actions ...got 1"),
    ],
)
def test_invalid_arguments_raise_an_error_with_name_and_value(arguments, message):
    with pytest.raises(ValueError, match=like(message)):
        bare(ID, 2, **arguments)
