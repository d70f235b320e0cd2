"""Rows of a rollout as NumPy arrays, for tests that write streams down by hand."""

import jax
import numpy as np

import jaxenv


def unrolled(env, actions, key=None):
    """Resets and steps through ``actions`` (``[T, B, ...]``): the TimeStep of all T + 1 rows, ``[T + 1, B, ...]``."""

    def rows(env, actions, key):
        start = env.reset(key)

        def one(carry, action):
            carry = env.step(carry[0], action)
            return carry, carry[1]

        _, later = jax.lax.scan(one, start, actions)
        return jax.tree.map(lambda first, rest: jax.numpy.concatenate([first[None], rest]), start[1], later)

    return jax.device_get(jax.jit(rows)(env, actions, jax.random.key(0) if key is None else key))


def random_actions(env, num_steps, seed=1):
    """Actions ``[T, B, ...]`` sampled from the action spec."""
    return jaxenv.specs.sample(env.action_spec(), jax.random.key(seed), (num_steps, env.num_envs))


def without_first(timestep):
    """Drops the FIRST rows but the initial one, lane by lane: a list of TimeSteps, one a lane, leading with time."""
    lanes = []
    for lane in range(timestep.step_type.shape[1]):
        keep = timestep.step_type[:, lane] != 0
        keep[0] = True
        lanes.append(jax.tree.map(lambda x, keep=keep, lane=lane: x[keep, lane], timestep))
    return lanes


def assert_equal(a, b, rtol=0.0):
    """Two trees are equal: bitwise where ``rtol`` is 0, else floats up to rounding."""
    assert jax.tree.structure(a) == jax.tree.structure(b)
    for (path, x), y in zip(jax.tree_util.tree_leaves_with_path(a), jax.tree.leaves(b), strict=True):
        name = jax.tree_util.keystr(path)
        assert x.dtype == y.dtype, name
        if rtol and x.dtype.kind == "f":
            np.testing.assert_allclose(x, y, rtol=rtol, atol=rtol, err_msg=name)
        else:
            np.testing.assert_array_equal(x, y, err_msg=name)
