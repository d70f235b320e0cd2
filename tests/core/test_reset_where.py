"""``reset_where`` restarts the marked lanes, and stepping past the end stays finite without ``AutoReset``."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv.testing import Counting
from jaxenv.wrappers import AutoReset
from tests.rows import unrolled

FIRST, MID, LAST = 0, 1, 2


def counting(lengths, mode="next_step", strategy="select", **kwargs):
    lengths = np.asarray(lengths)
    return AutoReset(Counting(lengths, num_envs=len(lengths), **kwargs), mode, strategy)


def test_reset_where_restarts_the_marked_lanes_only():
    env = jaxenv.make("CartPole-v1", num_envs=4, autoreset=None)
    state, timestep = env.reset(jax.random.key(0))
    state, timestep = env.step(state, jnp.ones(4, jnp.int32))
    mask = jnp.array([True, False, True, False])
    new_state, row = jaxenv.reset_where(env, state, timestep, mask)
    assert row.step_type.tolist() == [FIRST, MID, FIRST, MID]
    assert row.reward.tolist() == [0, 1, 0, 1]
    assert env.clock(new_state).episode.tolist() == [1, 0, 1, 0]
    assert env.clock(new_state).step.tolist() == [0, 1, 0, 1]
    chex.assert_trees_all_equal(*(jax.tree.map(lambda x: x[1::2], s) for s in (new_state, state)))
    # The next episode of a lane equals the one that AutoReset would start.
    auto = unrolled(jaxenv.make("CartPole-v1", num_envs=4, max_episode_steps=1), jnp.ones((2, 4), jnp.int32))
    np.testing.assert_allclose(row.observation[::2], auto.observation[2, ::2], rtol=1e-6)


def test_reset_where_with_a_key_starts_the_marked_lanes_from_new_keys():
    env = jaxenv.make("CartPole-v1", num_envs=4, autoreset=None)
    state, timestep = env.reset(jax.random.key(0))
    mask = jnp.array([False, True, True, True])
    new_state, row = jaxenv.reset_where(env, state, timestep, mask, jax.random.key(7))
    _, fresh = env.reset(jax.random.key(7))
    np.testing.assert_allclose(row.observation[1:], fresh.observation[1:], rtol=1e-6)
    assert row.observation[0].tolist() == timestep.observation[0].tolist()
    assert env.clock(new_state).episode.tolist() == [0, 0, 0, 0]


def test_reset_where_outside_auto_reset_clears_its_flag():
    env = counting([[1], [9]])
    state, timestep = env.reset(jax.random.key(0))
    state, timestep = env.step(state, jnp.zeros(2, jnp.int32))
    assert timestep.step_type.tolist() == [LAST, MID]
    state, timestep = jaxenv.reset_where(env, state, timestep, timestep.is_last())
    assert timestep.step_type.tolist() == [FIRST, MID]
    _, timestep = env.step(state, jnp.zeros(2, jnp.int32))
    assert timestep.step_type.tolist() == [LAST, MID], "the lane must step, not restart a second time"


@pytest.mark.parametrize(
    "mask", [np.array([True]), np.array([1, 0]), np.array([[True, False]])], ids=["size", "dtype", "rank"]
)
def test_reset_where_refuses_a_mask_that_is_not_one_bool_per_lane(mask):
    env = counting([[1], [9]])
    state, timestep = env.reset(jax.random.key(0))
    with pytest.raises(ValueError, match=r"mask must be bool\[2\], got"):
        jaxenv.reset_where(env, state, timestep, mask)


def test_without_auto_reset_stepping_past_the_end_stays_finite():
    env = jaxenv.make("CartPole-v1", num_envs=2, autoreset=None)
    rows = unrolled(env, jnp.ones((60, 2), jnp.int32))
    assert (rows.step_type[-1] == LAST).all()
    assert np.isfinite(rows.observation).all()
