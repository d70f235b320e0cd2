"""Rollouts in TF-Agents' layout."""

import jax
import jax.numpy as jnp
import numpy as np

import jaxenv
from jaxenv import data
from jaxenv.testing import Counting, count_to_two
from jaxenv.wrappers import AutoReset, TimeLimit
from tests.data.rollouts import lane, unrolled


def mock_rows(mode, num_steps=8):
    env = AutoReset(count_to_two(), mode)
    state, timestep = env.reset(jax.random.key(0))
    unroll = jax.jit(lambda s, t: jaxenv.unroll(env, jaxenv.rollout.random_policy(env), s, t, num_steps))
    (_, last, _), experience = unroll(state, timestep)
    return data.to_trajectory(experience, last, mode)


def test_a_trajectory_has_the_layout_of_tf_agents():
    trajectory = mock_rows("next_step")
    assert lane(trajectory.step_type, 0) == [0, 1, 2, 0, 1, 2, 0, 1]
    assert lane(trajectory.observation, 0) == [0, 1, 2, 0, 1, 2, 0, 1]
    assert lane(trajectory.next_step_type, 0) == [1, 2, 0, 1, 2, 0, 1, 2]
    assert lane(trajectory.reward, 0) == [0, 1, 0, 0, 1, 0, 0, 1]  # only the last step of an episode is rewarded
    assert lane(trajectory.discount, 0) == [1, 0, 1, 1, 0, 1, 1, 0]
    # Five steps take seven rows, two of which are boundaries; two episodes end in them.
    steps = np.cumsum(~trajectory.is_boundary()[:, 0])
    rows = int(np.searchsorted(steps, 5)) + 1
    assert rows == 7
    assert int(trajectory.is_last()[:rows].sum()) == 2
    assert lane(trajectory.is_first(), 0) == [True, False, False] * 2 + [True, False]
    assert not trajectory.is_mid().any()


def test_a_trajectory_row_holds_the_reward_of_its_own_action():
    env = AutoReset(Counting(np.array([2])))
    state, timestep = env.reset(jax.random.key(0))
    one = lambda timestep, stream: jnp.ones(1, jnp.int32)  # noqa: E731
    (_, last, _), experience = jax.jit(lambda s, t: jaxenv.unroll(env, one, s, t, 8))(state, timestep)
    assert lane(data.to_trajectory(experience, last).reward, 0) == [1, 1, 0, 1, 1, 0, 1, 1]


def test_an_episode_that_a_limit_cuts_ends_as_well():
    env = AutoReset(TimeLimit(Counting(np.array([9])), 2))
    state, timestep = env.reset(jax.random.key(0))
    (_, last, _), rows = jaxenv.unroll(env, jaxenv.rollout.random_policy(env), state, timestep, 5)
    trajectory = data.to_trajectory(rows, last)
    assert lane(trajectory.discount, 0) == [1] * 5
    assert lane(trajectory.is_last(), 0) == [False, True, False, False, True]
    assert lane(trajectory.is_boundary(), 0) == [False, False, True, False, False]


def test_the_trajectory_of_a_same_step_stream_has_no_boundaries():
    trajectory = mock_rows("same_step", 6)
    assert lane(trajectory.step_type, 0) == [0, 1, 0, 1, 0, 1]
    assert lane(trajectory.next_step_type, 0) == [1, 2, 1, 2, 1, 2]
    assert lane(trajectory.observation, 0) == [0, 1, 0, 1, 0, 1]
    assert lane(trajectory.reward, 0) == [0, 1, 0, 1, 0, 1]
    assert lane(trajectory.discount, 0) == [1, 0, 1, 0, 1, 0]
    assert not trajectory.is_boundary().any()


def test_is_mid_requires_more_rows_of_the_episode_on_either_side():
    trajectory = data.to_trajectory(*unrolled("next_step"))
    assert lane(trajectory.is_mid(), 1) == [False, True, False, False, False, True, False, False, False, True]
