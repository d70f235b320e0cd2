"""BatchWrapper: statistics of the whole batch and state per lane."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv.wrappers import AutoReset, TimeLimit
from tests.core.bases.toys import RewardMean, counting
from tests.rows import assert_equal, unrolled

FIRST, MID, LAST = 0, 1, 2


def test_batch_state_survives_episodes_and_counts_every_row_once():
    env = RewardMean(AutoReset(counting()))
    rows = unrolled(env, jnp.full((12, 3), 2, jnp.int32))
    plain = unrolled(AutoReset(counting()), jnp.full((12, 3), 2, jnp.int32))
    means = np.cumsum(plain.reward.sum(1)) / (3 * np.arange(1, 14))
    np.testing.assert_allclose(rows.reward, plain.reward - means[:, None], rtol=1e-6, atol=1e-6)


def test_frozen_batch_state_does_not_change():
    env = RewardMean(AutoReset(counting()), frozen=True)
    state, _ = env.reset(jax.random.key(0))
    state, timestep = env.step(state, jnp.full(3, 2, jnp.int32))
    assert state.shared.value["sum"] == 0
    assert state.shared.value["count"] == 0
    assert timestep.reward.tolist() == [2, 2, 2]


def test_rows_of_reset_where_do_not_update_statistics():
    env = RewardMean(AutoReset(counting()))
    state, timestep = env.reset(jax.random.key(0))
    state, timestep = env.step(state, jnp.full(3, 2, jnp.int32))
    restarted, row = jaxenv.reset_where(env, state, timestep, jnp.array([True, False, False]))
    assert_equal(jax.device_get(restarted.shared.value), jax.device_get(state.shared.value))
    assert row.step_type.tolist() == [FIRST, MID, LAST]
    mean, shown = 6 / 6, timestep.reward.tolist()
    np.testing.assert_allclose(row.reward, [-mean, *shown[1:]], rtol=1e-6)
    assert restarted.lanes.tolist() == [1, 2, 2]


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
def test_lane_state_of_a_batch_wrapper_is_initialised_at_every_episode(mode):
    env = RewardMean(AutoReset(TimeLimit(counting(), 3), mode))  # cuts the episodes of 4 and 5
    state, timestep = env.reset(jax.random.key(0))
    step = jax.jit(env.step)
    since = np.ones(3, int)
    for _ in range(12):
        state, timestep = step(state, jnp.zeros(3, jnp.int32))
        since = np.where(timestep.step_type == FIRST, 1, since + 1)
        if mode == "same_step":
            since = np.where(timestep.step_type == LAST, 0, since)
        assert state.lanes.tolist() == since.tolist()
