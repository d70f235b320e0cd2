"""Episodes of a suite's environment, played here and by the suite's own functions from the same states and actions."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

import jaxenv
from jaxenv import random, rollout
from jaxenv._util.library import default_types
from jaxenv.core.timestep import StepType
from jaxenv.tree import _typed_keys
from tests.suites.gymnax_rollouts import task_of


def compare(env, num_steps, own_step, tolerance=1e-5, key=0, keyed=False):
    """Plays ``num_steps`` random steps and asserts that the suite's own loop gives the same rows up to each end.

    Args:
        env: an environment of a suite, made with ``autoreset=None``.
        num_steps: the number of steps.
        own_step: one step of one lane in the suite's own terms: ``own_step(state, action)`` returns the state, a
            tree of arrays to compare with the observation, the reward, and whether the suite says that the task
            terminated and that the episode is over.
        tolerance: of observations and rewards, for rounding errors of two programs.
        key: the seed.
        keyed: whether ``own_step`` takes a third argument, the key that the suite's step gets here.

    Returns:
        The trajectory ``[T, B]`` played here, and the number of its terminations and truncations.
    """
    state, first = jax.jit(env.reset)(jax.random.key(key))
    policy = rollout.random_policy(env)
    _, rows = jax.jit(lambda state, first: jaxenv.unroll(env, policy, state, first, num_steps))(state, first)
    single = env.unwrapped._single
    start = _typed_keys.from_words(single.shapes.key_kinds.value, task_of(state).env_state)
    given = [jnp.moveaxis(rows.action, 0, 1)]
    if keyed:
        clock = env.clock(state)
        later = [dataclasses.replace(clock, step=clock.step + 1 + step) for step in range(num_steps)]
        given.append(jnp.stack([random.jax_keys(clock.stream()) for clock in later], axis=1))

    def one_lane(state, *given):
        def step(state, given):
            state, *row = own_step(state, *given)
            return _like(start, state), row

        return jax.lax.scan(step, state, given)[1]

    with default_types():
        theirs = jax.device_get(jax.jit(jax.vmap(one_lane))(start, *given))
    observation, reward, terminated, over = jax.tree.map(lambda x: np.moveaxis(x, 1, 0), theirs)
    # Row t of an unroll is the one before action t.
    ours = jax.device_get(jax.tree.map(lambda x: x[1:], rows.timestep))
    reward, terminated, over, observation = jax.tree.map(lambda x: x[:-1], (reward, terminated, over, observation))
    terminated, over = terminated.astype(bool), over.astype(bool)
    ended = ours.step_type == StepType.LAST
    lived = np.cumsum(ended, axis=0) - ended == 0
    np.testing.assert_array_equal(ended[lived], over[lived])
    np.testing.assert_array_equal((ours.discount == 0)[lived], terminated[lived])
    np.testing.assert_allclose(ours.reward[lived], reward[lived], atol=tolerance, rtol=tolerance)
    leaves = zip(jax.tree.leaves(ours.observation), jax.tree.leaves(observation), strict=True)
    for a, b in leaves:
        np.testing.assert_allclose(a[lived], b[lived], atol=tolerance, rtol=tolerance)
    return rows.timestep, int((ended & lived & terminated).sum()), int((ended & lived & ~terminated).sum())


def _like(shapes, state):
    """The state in the dtypes in which it started, which suites do not keep."""
    return jax.tree.map(lambda s, x: x if _typed_keys.is_key(x) else jnp.asarray(x, s.dtype), shapes, state)
