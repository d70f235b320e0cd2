"""Freeway: parity with the package ``minatar``."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

import jaxenv
from jaxenv import tree
from jaxenv.core.timestep import StepType
from jaxenv.envs.minatar.freeway import Draws, State
from tests.envs.minatar import reference

ID = "Freeway-MinAtar"
NUM_LANES = 20_000


def state(env):
    """Translates the original's game to our arrays."""
    column, row, wait, speed = np.array(env.cars, np.int32).T
    assert row.tolist() == list(range(1, 9))
    chicken = (np.int32(x) for x in (env.pos, env.move_timer, env.terminate_timer))
    return State(*chicken, column=column, age=np.abs(speed) - wait, speed=speed)


def draws(calls):
    """Translates the speeds drawn in a step in which the chicken arrived; other steps draw none."""
    if not calls:
        return Draws(np.ones(8, np.int32))
    (_, limits, sizes), (_, _, fractions) = calls
    assert limits == (1, 6, 8)
    return Draws(np.int32(sizes * np.where(fractions < 0.5, -1, 1)))


FREEWAY = reference.Translation(ID, state, draws)


def anywhere(env, rng):
    """Moves the original to a random state, often just below the top and near the end of the episode."""
    env.pos = int(rng.choice([1, rng.integers(1, 10)]))
    env.move_timer = int(rng.choice([0, rng.integers(4)]))
    env.terminate_timer = int(rng.choice([0, 1, 2, rng.integers(2500)]))
    speeds = rng.integers(1, 6, 8) * rng.choice([-1, 1], 8)
    for car, speed in zip(env.cars, speeds, strict=True):
        column = int(rng.choice([0, 3, 4, 5, 9, rng.integers(10)]))
        car[:] = [column, car[1], int(rng.choice([0, rng.integers(abs(speed) + 1)])), int(speed)]


def cross(env, rng):
    """Mostly moves up."""
    return int(rng.choice(6, p=[0.05, 0.05, 0.75, 0.05, 0.05, 0.05]))


def test_steps_from_random_states_match_the_original():
    steps = reference.random_steps(FREEWAY, 5000, seed=1, weights=(1, 1, 4, 1, 2, 1), prepare=anywhere, every=3)
    hit = sum(s.before.row != 9 and s.after.row == 9 and not s.reward for s in steps)
    assert min(sum(s.reward for s in steps), sum(s.terminated for s in steps), hit) > 100
    reference.assert_steps_match(reference.bare(ID), steps)


def test_whole_episodes_match_the_original_and_last_2501_steps():
    played = reference.episodes(FREEWAY, cross, seeds=range(3))
    assert [len(steps) for steps in played] == [2501] * 3
    assert sum(s.reward for steps in played for s in steps) > 10
    reference.assert_episodes_match(reference.bare(ID), played)


@jax.jit
def one_step_below_the_top(env, key, clock):
    """Returns the start, and the result of a step up from just below the top with ``clock`` steps left."""
    state, _ = env.reset(key)
    start, lanes = state.task.game, jnp.ones_like(state.task.game.row)
    game = tree.rebuild(start, row=lanes, rest=0 * lanes, clock=clock)
    state = tree.rebuild(state, task=tree.rebuild(state.task, game=game))
    after, timestep = env.step(state, lanes)
    return start, after.task.game, timestep


@functools.cache
def arrivals():
    env = reference.bare(ID, NUM_LANES, sticky_action_prob=0.0)
    clock = np.arange(NUM_LANES, dtype=np.int32) % 3
    return jax.device_get(one_step_below_the_top(env, jax.random.key(0), clock))


def test_the_end_of_the_clock_is_a_termination_and_arriving_on_that_step_still_pays():
    _, _, timestep = arrivals()
    assert timestep.step_type[:3].tolist() == [StepType.LAST, StepType.MID, StepType.MID]
    assert timestep.discount[:3].tolist() == [0, 1, 1]
    assert np.all(timestep.reward == 1)
    assert jaxenv.spec(ID).max_episode_steps is None


def test_speeds_at_the_start_and_after_an_arrival_are_uniform_and_independent():
    start, after, _ = arrivals()
    theirs = state(reference.original(ID))
    for name in ("row", "rest", "clock", "column", "age"):
        ours = getattr(start, name)
        np.testing.assert_array_equal(ours, np.broadcast_to(getattr(theirs, name), ours.shape), err_msg=name)
    assert np.all(after.row == 9)
    np.testing.assert_array_equal(after.column, start.column)
    for speed in (start.speed, after.speed):
        values, counts = np.unique(speed, return_counts=True)
        assert values.tolist() == [-5, -4, -3, -2, -1, 1, 2, 3, 4, 5]
        assert np.all(np.abs(counts / speed.size - 0.1) < 5 * np.sqrt(0.09 / speed.size))
    # All pairs of cars, including those decoded from one word, and each car before and after the change.
    both = np.concatenate([start.speed, after.speed], axis=-1)
    correlation = np.corrcoef(both.T) - np.eye(16)
    assert np.abs(correlation).max() < 5 / np.sqrt(NUM_LANES)


def test_channels_and_minimal_actions_match_the_original():
    reference.assert_channels_and_actions_match(reference.bare(ID))
