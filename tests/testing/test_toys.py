"""Toy environments do what their docstrings say."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import specs
from jaxenv.testing import Chain, Counting, mock_012, random_environment
from jaxenv.wrappers import AutoReset
from tests.rows import random_actions, unrolled

FIRST, MID, LAST = 0, 1, 2


def constant(env, num_steps, action):
    """Rows of a rollout that repeats one action in every lane."""
    return unrolled(env, jnp.full((num_steps, env.num_envs), action, jnp.int32))


def test_counting_gives_every_lane_and_episode_its_length():
    rows = constant(AutoReset(Counting(np.array([[2, 1], [3, 3]]), stride=10, num_envs=2)), 7, 4)
    assert rows.observation[:, 0].tolist() == [0, 1, 2, 10, 11, 20, 21, 22]
    assert rows.step_type[:, 0].tolist() == [FIRST, MID, LAST, FIRST, LAST, FIRST, MID, LAST]
    assert rows.observation[:, 1].tolist() == [0, 1, 2, 3, 10, 11, 12, 13]
    assert rows.step_type[:, 1].tolist() == [FIRST, MID, MID, LAST, FIRST, MID, MID, LAST]
    assert rows.terminated.tolist() == rows.is_last().tolist()


def test_counting_takes_one_row_of_lengths_for_all_lanes():
    rows = constant(AutoReset(Counting(np.array([1, 2]), num_envs=2)), 4, 0)
    assert rows.step_type.T.tolist() == [[FIRST, LAST, FIRST, MID, LAST]] * 2


def test_counting_never_ends_an_episode_of_length_0():
    rows = constant(Counting(np.array([0]), num_envs=1), 5, 0)
    assert rows.step_type[:, 0].tolist() == [FIRST, MID, MID, MID, MID, MID]


@pytest.mark.parametrize(("pays", "rewards"), [("action", [0, 4, 4, 4]), ("end", [0, 0, 0, 1])])
def test_counting_pays_the_action_or_the_end(pays, rewards):
    rows = constant(Counting(np.array([3]), pays=pays), 3, 4)
    assert rows.reward[:, 0].tolist() == rewards
    assert rows.reward.dtype == np.float32


def test_counting_pays_each_lane_its_own_action():
    rows = unrolled(Counting(np.array([0]), num_envs=3), jnp.array([[1, 2, 3], [9, 0, 5]]))
    assert rows.reward.tolist() == [[0, 0, 0], [1, 2, 3], [9, 0, 5]]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Counting(np.array([2]), pays="never"), "Counting: pays must be 'action' or 'end', got 'never'"),
        (lambda: Counting(np.array([2.5])), "lengths must be int32"),
        (lambda: Counting(3), "lengths must have 1 axes, or 2 for one value per lane"),
        (lambda: Chain(1), "Chain: length must be at least 2, got 1"),
    ],
)
def test_toys_refuse_what_makes_no_sense(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_mock_012_streams_0_1_2_and_pays_at_the_end():
    rows = constant(AutoReset(mock_012(num_envs=2)), 8, 7)
    for lane in range(2):
        assert rows.step_type[:, lane].tolist() == [FIRST, MID, LAST] * 3
        assert rows.observation[:, lane].tolist() == [0, 1, 2] * 3
        assert rows.reward[:, lane].tolist() == [0, 0, 1] * 3
        assert rows.discount[:, lane].tolist() == [1, 1, 0] * 3


def test_chain_walks_right_by_1_and_left_by_0_and_pays_at_the_last_cell():
    actions = jnp.array([0, 1, 1, 0, 1, 1])[:, None]
    rows = unrolled(Chain(4), actions)
    assert rows.observation[:, 0].tolist() == [0, 0, 1, 2, 1, 2, 3]
    assert rows.reward[:, 0].tolist() == [0, 0, 0, 0, 0, 0, 1]
    assert rows.step_type[:, 0].tolist() == [FIRST, MID, MID, MID, MID, MID, LAST]
    assert rows.discount[:, 0].tolist() == [1, 1, 1, 1, 1, 1, 0]


def test_chain_tells_its_length_by_its_spec():
    assert Chain(7).observation_spec() == specs.discrete(7)
    assert Chain().action_spec() == specs.discrete(2)


# --- random environments ---------------------------------------------------------------------------------------------

OBSERVATION = {
    "camera": specs.Bounded((2, 2), np.uint8, 0, 255),
    "joints": (specs.Bounded((3,), np.float32, -1, [1, np.inf, 2]), specs.Array((), np.bool_)),
}
ACTION = {"arm": specs.Bounded((2,), np.float32, -1, 1), "grip": specs.discrete(3)}
REWARD = specs.Bounded((2,), np.float32, [-1, 0], [0, 5], "reward")


def test_random_environment_fits_any_trees_of_specs():
    env = AutoReset(random_environment(OBSERVATION, ACTION, REWARD, num_envs=4))
    rows = unrolled(env, jax.jit(random_actions, static_argnums=1)(env, 50))
    specs.validate(OBSERVATION, rows.observation, (51, 4))
    specs.validate(ACTION, rows.prev_action, (51, 4))
    assert rows.reward.shape == (51, 4, 2)
    assert not rows.reward[rows.is_first()].any()
    specs.validate(REWARD.batched(int((~rows.is_first()).sum())), rows.reward[~rows.is_first()])
    assert env.reward_spec() == specs.Array((2,), np.float32)


def test_random_environment_pays_between_0_and_1_by_default():
    env = random_environment(specs.discrete(3), specs.discrete(2), num_envs=8)
    rewards = constant(env, 20, 0).reward[1:]
    assert rewards.shape == (20, 8)
    assert 0 <= rewards.min() < 0.2
    assert 0.8 < rewards.max() < 1


def test_random_environment_ends_each_lane_by_chance_of_its_own():
    env = random_environment(specs.discrete(3), specs.discrete(2), end_probability=0.1, num_envs=64)
    ends = constant(AutoReset(env), 400, 0).is_last()
    assert abs(ends.mean() - 1 / 11) < 0.01  # an episode has 10 steps and a FIRST row
    assert (ends.any(axis=1) & ~ends.all(axis=1)).mean() > 0.9
    assert np.abs(np.corrcoef(ends.T) - np.eye(64)).max() < 0.35


def test_random_environment_takes_a_chance_per_lane():
    env = random_environment(specs.discrete(3), specs.discrete(2), end_probability=[0.0, 0.5, 1.0], num_envs=3)
    ends = constant(AutoReset(env), 400, 0).is_last().mean(axis=0)
    np.testing.assert_allclose(ends, [0, 1 / 3, 1 / 2], atol=0.06)


def test_random_environment_draws_anew_in_every_row_lane_and_leaf():
    spec = specs.Bounded((), np.float32, 0, 1)
    env = AutoReset(random_environment({"a": spec, "b": spec}, specs.discrete(2), end_probability=0.3, num_envs=4))
    rows = constant(env, 30, 0)
    values = np.stack(jax.tree.leaves(rows.observation))
    assert len(np.unique(values)) == values.size


def test_random_environment_is_a_pure_function_of_its_key():
    env = random_environment(specs.Bounded((3,), np.uint8, 0, 255), specs.discrete(2), num_envs=2)
    run = jax.jit(lambda key: env.step(env.reset(key)[0], jnp.zeros(2, jnp.int32))[1].observation)
    assert run(jax.random.key(0)).tolist() == run(jax.random.key(0)).tolist()
    assert run(jax.random.key(0)).tolist() != run(jax.random.key(1)).tolist()


def test_random_environment_refuses_a_chance_that_is_no_number():
    with pytest.raises(ValueError, match="end_probability must be finite"):
        random_environment(specs.discrete(3), specs.discrete(2), end_probability=np.nan)


def test_toys_are_reached_from_the_package():
    assert jaxenv.testing.Counting is Counting
