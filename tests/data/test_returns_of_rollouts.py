"""Returns of rollouts: streams of either kind agree, and time limits bootstrap."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import data
from jaxenv.core.timestep import TimeStep
from jaxenv.testing import Counting
from jaxenv.wrappers import AutoReset, TimeLimit

LAST = 2
LENGTHS = np.array([[2, 5], [5, 1], [3, 4]])


@functools.partial(jax.jit, static_argnames=("num_steps", "halves"))
def advance(env, num_steps, halves=1):
    """Unrolls a policy that reads the observation only; returns (rows, last) for each part."""
    state, timestep = env.reset(jax.random.key(0))
    parts = []
    for _ in range(halves):
        (state, timestep, _), rows = jaxenv.unroll(
            env, lambda timestep, stream: (timestep.observation * 7) % 10, state, timestep, num_steps // halves
        )
        parts.append((rows, timestep))
    return parts


def value(observation):
    return jnp.sin(observation.astype(jnp.float32))


@functools.cache
def advantages(mode, gamma=0.9, lambda_=0.8):
    """Rows, mask, advantages and returns of lanes whose episodes end by the task and by a limit of 4 steps."""
    env = AutoReset(TimeLimit(Counting(LENGTHS, stride=10, num_envs=3), 4), mode)
    ((rows, last),) = advance(env, 24)
    shown = data.with_last(rows.timestep, last)
    final = value(shown.env_info["final_observation"]) if mode == "same_step" else None
    gae = jax.jit(functools.partial(data.gae, gamma=gamma, lambda_=lambda_))
    targets = gae(rows.timestep, last, value(shown.observation), final_values=final)
    return jax.device_get((rows, data.transition_mask(rows.timestep, last, mode), targets))


def finished(mode, lane):
    """Advantages and returns of the valid transitions of one lane, for complete episodes."""
    rows, valid, targets = advantages(mode)
    end = np.flatnonzero(rows.timestep.step_type[:, lane] == LAST)[-1]
    return [x[:end, lane][valid[:end, lane]] for x in targets]


@pytest.mark.parametrize("lane", range(3))
def test_same_step_streams_give_the_same_advantages_as_next_step_streams_of_the_same_episodes(lane):
    a, b = finished("next_step", lane), finished("same_step", lane)
    count = len(a[0])
    assert count >= 12
    for x, y in zip(a, b, strict=True):
        np.testing.assert_allclose(x, y[:count], rtol=1e-6, atol=1e-6)


def test_two_unrolls_give_the_one_step_targets_of_one_of_twice_the_length():
    env = AutoReset(TimeLimit(Counting(LENGTHS, stride=10, num_envs=3), 4))

    @jax.jit
    def targets(rows, last):
        values = value(data.with_last(rows.timestep, last).observation)
        return data.td_lambda(rows.timestep, last, values, gamma=0.9, lambda_=0.0)

    whole = [targets(*part) for part in advance(env, 24)]
    halves = [targets(*part) for part in advance(env, 24, halves=2)]
    np.testing.assert_array_equal(np.concatenate(halves), whole[0])


def split(rows):
    return jax.tree.map(lambda x: x[:-1], rows), jax.tree.map(lambda x: x[-1], rows)


def without_truncation(rows):
    return TimeStep(rows.step_type, rows.reward, jnp.where(rows.is_last(), 0.0, rows.discount), env_info={})


def without_ends(rows):
    return TimeStep(jnp.ones_like(rows.step_type), rows.reward, rows.discount, env_info={})


@pytest.mark.parametrize(
    ("changed", "lambda_", "fixed_point"),
    [
        (lambda rows: rows, 0.0, 10.0),
        (lambda rows: rows, 0.95, 10.0),
        (without_truncation, 0.0, 1 / (1 - 0.9 * 0.9)),  # one target in ten is 1 instead of 1 + 0.9 v
        (without_truncation, 1.0, 10 * (1 - 0.9 * (1 - 0.9**10))),  # the mean over the rest of the episode
        (without_ends, 0.0, 100 / 11),  # one target in eleven is 0.9 v, that of the ignored action
    ],
)
def test_a_constant_reward_of_one_has_value_ten_only_if_the_time_limit_bootstraps(changed, lambda_, fixed_point):
    class Paying(Counting):
        """Rewards every step with 1, with observations that do not depend on the time in the episode."""

        def transition(self, state, action, stream):
            return jaxenv.Transition(state, jnp.ones(stream.shape, jnp.float32), jnp.zeros(stream.shape, bool))

    ((rows, last),) = advance(AutoReset(TimeLimit(Paying(np.array([0]), num_envs=2), 10)), 22)
    seen = split(changed(data.with_last(rows.timestep, last)))
    valid = data.transition_mask(*seen).astype(jnp.float32)

    @jax.jit
    def iterate(v):
        def once(_, v):
            targets = data.gae(*seen, jnp.full((23, 2), v), gamma=0.9, lambda_=lambda_).returns
            return (targets * valid).sum() / valid.sum()

        return jax.lax.fori_loop(0, 200, once, v)

    np.testing.assert_allclose(iterate(jnp.float32(0)), fixed_point, rtol=1e-5)
