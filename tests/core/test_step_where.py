"""``step_where`` steps the marked lanes; the others keep state and row, and their episodes do not depend on waiting."""

import dataclasses

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import tree
from jaxenv.testing import Chain
from jaxenv.wrappers import NormalizeReward
from tests.rows import assert_equal, unrolled

LANES = 3


def frozen_lake(autoreset):
    # The ice and the sticky actions draw at every step, and the statistics have state per lane.
    wrappers = [("StickyAction", {"probability": 0.5}), "EpisodeStatistics"]
    return jaxenv.make("FrozenLake-v1", LANES, max_episode_steps=4, autoreset=autoreset, wrappers=wrappers)


@pytest.mark.parametrize("autoreset", ["next_step", "same_step"])
def test_a_lane_that_waits_between_steps_takes_the_same_steps(autoreset):
    env = frozen_lake(autoreset)
    rng = np.random.default_rng(0)
    masks = rng.random((24, LANES)) < 0.5
    masks[:, 0], masks[:6, 1] = True, False
    # Lane b takes the actions given[0, b], given[1, b], ... whenever it is not waiting.
    given = rng.integers(0, 4, (24, LANES)).astype(np.int32)
    taken = np.cumsum(masks, axis=0)
    actions = np.take_along_axis(given, np.maximum(taken - 1, 0), axis=0)

    def rows(env, actions, masks):
        start = env.reset(jax.random.key(0))

        def one(carry, x):
            carry = jaxenv.step_where(env, *carry, *x)
            return carry, carry[1]

        return start[1], jax.lax.scan(one, start, (actions, masks))[1]

    first, later = jax.device_get(jax.jit(rows)(env, actions, masks))
    plain = unrolled(env, given)
    for lane in range(LANES):
        expected = tree.gather(jax.tree.map(lambda x, lane=lane: x[:, lane], plain), taken[:, lane])
        got = jax.tree.map(lambda x, lane=lane: x[:, lane], later)
        assert_equal(got, jax.device_get(expected))
    assert_equal(first, jax.tree.map(lambda x: x[0], plain))
    assert plain.is_last().any()
    assert not masks.all(axis=0)[1:].any()


def test_a_waiting_lane_keeps_its_state_and_its_clock():
    env = jaxenv.make("CartPole-v1", 2)
    state, timestep = env.reset(jax.random.key(0))
    new_state, row = jaxenv.step_where(env, state, timestep, jnp.ones(2, jnp.int32), jnp.array([True, False]))
    assert env.clock(new_state).step.tolist() == [1, 0]
    assert row.step_type.tolist() == [1, 0]
    after, before = (jax.tree.map(lambda x: x[1], part) for part in ((new_state, row), (state, timestep)))
    chex.assert_trees_all_equal(after, before)


def test_a_mask_that_is_not_one_bool_per_lane_is_refused():
    env = Chain(num_envs=2)
    state, timestep = env.reset(jax.random.key(0))
    for mask in (jnp.array([True]), jnp.array([1, 0]), jnp.array([[True, False]])):
        with pytest.raises(ValueError, match=r"step_where: mask must be bool\[2\], got"):
            jaxenv.step_where(env, state, timestep, jnp.zeros(2, jnp.int32), mask)
    with pytest.raises(ValueError, match=r"^step_where: mask .*got a list$"):
        jaxenv.step_where(env, state, timestep, jnp.zeros(2, jnp.int32), [True, False])


def test_a_timestep_of_another_batch_is_refused():
    env = Chain(num_envs=3)
    state, timestep = env.reset(jax.random.key(0))
    action, mask = jnp.zeros(3, jnp.int32), jnp.zeros(3, bool)
    _, other = Chain(num_envs=1).reset(jax.random.key(0))
    for wrong, rule in ((other, "must have 3 lanes"), (None, r"timestep .*got None")):
        with pytest.raises(ValueError, match=f"step_where: .*{rule}"):
            jaxenv.step_where(env, state, wrong, action, mask)
    whole = dataclasses.replace(timestep, reward=jnp.zeros(3, jnp.int32))
    with pytest.raises(ValueError, match=r"step_where: timestep.reward .*got int32"):
        jaxenv.step_where(env, state, whole, action, mask)


def test_statistics_that_would_learn_from_waiting_lanes_are_refused():
    mask, actions = jnp.array([True, False]), jnp.zeros(2, jnp.int32)
    env = NormalizeReward(Chain(num_envs=2))
    state, timestep = env.reset(jax.random.key(0))
    with pytest.raises(ValueError, match="step_where: NormalizeReward would learn"):
        jaxenv.step_where(env, state, timestep, actions, mask)
    frozen = NormalizeReward(Chain(num_envs=2), frozen=True)
    _, row = jaxenv.step_where(frozen, *frozen.reset(jax.random.key(0)), actions, mask)
    assert row.step_type.tolist() == [1, 0]
