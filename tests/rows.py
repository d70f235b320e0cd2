"""Rollouts as NumPy arrays, and comparison of trees."""

import chex
import jax

import jaxenv


def unrolled(env, actions, key=None):
    """Resets, steps through ``actions`` (``[T, B, ...]``) and returns all TimeSteps, ``[T + 1, B, ...]``."""

    def rows(env, actions, key):
        start = env.reset(key)

        def one(carry, action):
            carry = env.step(carry[0], action)
            return carry, carry[1]

        _, later = jax.lax.scan(one, start, actions)
        return jax.tree.map(lambda first, rest: jax.numpy.concatenate([first[None], rest]), start[1], later)

    return jax.device_get(jax.jit(rows)(env, actions, jax.random.key(0) if key is None else key))


def random_actions(env, num_steps, seed=1):
    """Samples actions ``[T, B, ...]`` from the action spec."""
    return jaxenv.specs.sample(env.action_spec(), jax.random.key(seed), (num_steps, env.num_envs))


def without_first(timestep):
    """Drops every FIRST row except the initial one and returns a list of trajectories ``[T, ...]``, one per lane."""
    lanes = []
    for lane in range(timestep.step_type.shape[1]):
        keep = timestep.step_type[:, lane] != 0
        keep[0] = True
        lanes.append(jax.tree.map(lambda x, keep=keep, lane=lane: x[keep, lane], timestep))
    return lanes


def assert_equal(a, b, rtol=0.0):
    """Asserts that two trees are equal: bitwise if ``rtol`` is 0, otherwise floats up to rounding."""
    if rtol:
        chex.assert_trees_all_equal_shapes_and_dtypes(a, b)
        chex.assert_trees_all_close(a, b, rtol=rtol, atol=rtol)
        a, b = (jax.tree.map(lambda x: None if x.dtype.kind == "f" else x, values) for values in (a, b))
    chex.assert_trees_all_equal(a, b, strict=True)
