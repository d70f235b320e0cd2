"""`random_environment`: samples of any trees of specs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenv import specs
from jaxenv.testing import random_environment
from jaxenv.wrappers import AutoReset
from tests.rows import random_actions, unrolled

OBSERVATION = {
    "camera": specs.Bounded((2, 2), np.uint8, 0, 255),
    "joints": (specs.Bounded((3,), np.float32, -1, [1, np.inf, 2]), specs.Array((), np.bool_)),
}
ACTION = {"arm": specs.Bounded((2,), np.float32, -1, 1), "grip": specs.discrete(3)}
REWARD = specs.Bounded((2,), np.float32, [-1, 0], [0, 5], "reward")


def repeat_zero(env, num_steps):
    """Rows of a rollout that repeats action 0 in every lane."""
    return unrolled(env, jnp.zeros((num_steps, env.num_envs), jnp.int32))


def test_any_trees_of_specs_work():
    env = AutoReset(random_environment(OBSERVATION, ACTION, REWARD, num_envs=4))
    rows = unrolled(env, jax.jit(random_actions, static_argnums=1)(env, 50))
    specs.validate(OBSERVATION, rows.observation, (51, 4))
    specs.validate(ACTION, rows.prev_action, (51, 4))
    assert rows.reward.shape == (51, 4, 2)
    assert not rows.reward[rows.is_first()].any()
    specs.validate(REWARD.batched(int((~rows.is_first()).sum())), rows.reward[~rows.is_first()])
    assert env.reward_spec() == specs.Array((2,), np.float32)


def test_rewards_lie_between_0_and_1_by_default():
    env = random_environment(specs.discrete(3), specs.discrete(2), num_envs=8)
    rewards = repeat_zero(env, 20).reward[1:]
    assert rewards.shape == (20, 8)
    assert 0 <= rewards.min() < 0.2
    assert 0.8 < rewards.max() < 1


def test_lanes_end_independently():
    env = random_environment(specs.discrete(3), specs.discrete(2), end_probability=0.1, num_envs=64)
    ends = repeat_zero(AutoReset(env), 400).is_last()
    assert abs(ends.mean() - 1 / 11) < 0.01  # an episode has 10 steps on average and a FIRST row
    assert (ends.any(axis=1) & ~ends.all(axis=1)).mean() > 0.9
    assert np.abs(np.corrcoef(ends.T) - np.eye(64)).max() < 0.35


def test_the_end_probability_may_be_given_per_lane():
    env = random_environment(specs.discrete(3), specs.discrete(2), end_probability=[0.0, 0.5, 1.0], num_envs=3)
    ends = repeat_zero(AutoReset(env), 400).is_last().mean(axis=0)
    np.testing.assert_allclose(ends, [0, 1 / 3, 1 / 2], atol=0.06)


def test_every_row_lane_and_leaf_has_its_own_sample():
    spec = specs.Bounded((), np.float32, 0, 1)
    env = AutoReset(random_environment({"a": spec, "b": spec}, specs.discrete(2), end_probability=0.3, num_envs=4))
    rows = repeat_zero(env, 30)
    values = np.stack(jax.tree.leaves(rows.observation))
    assert len(np.unique(values)) == values.size


def test_samples_depend_only_on_the_key():
    env = random_environment(specs.Bounded((3,), np.uint8, 0, 255), specs.discrete(2), num_envs=2)
    run = jax.jit(lambda key: env.step(env.reset(key)[0], jnp.zeros(2, jnp.int32))[1].observation)
    assert run(jax.random.key(0)).tolist() == run(jax.random.key(0)).tolist()
    assert run(jax.random.key(0)).tolist() != run(jax.random.key(1)).tolist()


def test_an_end_probability_of_nan_is_refused():
    with pytest.raises(ValueError, match="end_probability must be finite"):
        random_environment(specs.discrete(3), specs.discrete(2), end_probability=np.nan)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"reward_spec": {"r": REWARD}}, "reward_spec .*got "),
        ({"reward_spec": specs.discrete(2)}, "reward_spec .*got "),
        ({"observation_spec": "x"}, r"observation_spec .*got 'x'"),
        ({"action_spec": None}, r"action_spec .*got None"),
    ],
)
def test_invalid_arguments_are_refused(arguments, message):
    arguments = {"observation_spec": specs.discrete(3), "action_spec": specs.discrete(2), **arguments}
    with pytest.raises(ValueError, match=f"(?i)random_?environment: {message}"):
        random_environment(num_envs=2, **arguments)
