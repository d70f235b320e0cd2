"""`check_environments_match` compares two environments row by row."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenv import specs
from jaxenv.core.task import Task
from jaxenv.core.timestep import Transition
from jaxenv.testing import Chain, Counting, check_environments_match, count_to_two
from jaxenv.wrappers import AutoReset, RewardWrapper


class Drift(Task):
    """A float that grows by ``speed`` on every step."""

    speed: float = 1.0

    def initial(self, stream):
        return jnp.zeros(stream.shape, jnp.float32)

    def transition(self, state, action, stream):
        return Transition(state + self.speed, jnp.zeros_like(state), jnp.zeros(stream.shape, bool))

    def observe(self, state):
        return state

    def observation_spec(self):
        return specs.Array((), np.float32, "observation")

    def action_spec(self):
        return specs.discrete(2)


class PaysNan(RewardWrapper):
    def reward(self, reward):
        return jnp.full_like(reward, np.nan)


def test_equal_environments_match(key):
    a, b = (AutoReset(count_to_two(num_envs=2)) for _ in range(2))
    check_environments_match(a, b, key, num_steps=50)


def test_restart_strategies_match(key):
    env = Counting(np.array([[1, 2], [3, 1]]), num_envs=2)
    check_environments_match(AutoReset(env, reset_strategy="select"), AutoReset(env, reset_strategy="compact"), key)


def test_nan_rewards_on_both_sides_match(key):
    check_environments_match(PaysNan(Chain(num_envs=2)), PaysNan(Chain(num_envs=2)), key, num_steps=3)


def test_a_different_length_is_reported_with_step_and_lane(key):
    a, b = (Counting(np.array([[9], [n], [9]]), num_envs=3) for n in (9, 4))
    with pytest.raises(AssertionError, match=r"(?s)step_type.*\n \[4, 1\]: 1 \(ACTUAL\), 2 .*Counting and Counting"):
        check_environments_match(a, b, key, num_steps=8)


def test_the_last_step_is_compared(key):
    a, b = (Counting(np.array([n]), num_envs=2) for n in (5, 6))
    check_environments_match(a, b, key, num_steps=4)
    with pytest.raises(AssertionError, match=r"(?s)leaves .step_type.*\n \[5, 0\]: 2 \(ACTUAL\), 1 \(DES"):
        check_environments_match(a, b, key, num_steps=5)


def test_a_different_param_is_reported_with_step_and_lane(key):
    a, b = (Drift(np.array([1, 2, n], np.float32), num_envs=3) for n in (3, 4))
    with pytest.raises(AssertionError, match=r"(?s)leaves .observation.*\n \[1, 2\]: 3\.0 \(ACTUAL\), 4\.0 \(DES"):
        check_environments_match(a, b, key, num_steps=5)


def test_floats_are_compared_bitwise_by_default(key):
    a, b = (Drift(np.array([1, n], np.float32), num_envs=2) for n in (2, np.nextafter(np.float32(2), np.float32(3))))
    with pytest.raises(AssertionError, match=r"(?s)leaves .observation.*\n \[1, 1\]: "):
        check_environments_match(a, b, key, num_steps=5)


def test_floats_may_differ_by_the_tolerance(key):
    a, b = (Drift(np.array([1, n], np.float32), num_envs=2) for n in (2, 2.001))
    check_environments_match(a, b, key, num_steps=5, tolerance=1e-2)
    with pytest.raises(AssertionError, match=r"(?s)leaves .observation.*\n \[1, 1\]: "):
        check_environments_match(a, b, key, num_steps=5, tolerance=1e-4)


def test_bfloat16_may_differ_by_the_tolerance(key):
    class Narrow(Drift):
        def observe(self, state):
            return super().observe(state).astype(jnp.bfloat16)

        def observation_spec(self):
            return specs.Array((), jnp.bfloat16)

    a, b = (Narrow(np.array([1, n], np.float32), num_envs=2) for n in (2, 2.02))
    check_environments_match(a, b, key, num_steps=5, tolerance=1e-1)
    with pytest.raises(AssertionError, match=r"(?s)leaves .observation.*\n \[1, 1\]: "):
        check_environments_match(a, b, key, num_steps=5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_steps": -1}, r"num_steps .*got -1"),
        ({"tolerance": -1.0}, r"tolerance .*got -1\.0"),
        ({"key": jax.random.split(jax.random.key(0), 2)}, r"key .*got .* shape \(2,\)"),
        ({"b": "CartPole-v1"}, r"env .*got 'CartPole-v1'"),
    ],
)
def test_invalid_arguments_are_refused(key, arguments, message):
    with pytest.raises(ValueError, match=f"check_environments_match: {message}"):
        check_environments_match(**{"a": Chain(), "b": Chain(), "key": key, **arguments})


def test_different_specs_are_refused(key):
    with pytest.raises(ValueError, match=r"time step specs.*0, 3.* and .*0, 4"):
        check_environments_match(Chain(4), Chain(5), key)


def test_different_structures_are_refused(key):
    class Wrapped(Chain):
        def observe(self, state):
            return {"cell": state}

        def observation_spec(self):
            return {"cell": specs.discrete(self.length)}

    with pytest.raises(ValueError, match="time step specs differ in structure"):
        check_environments_match(Chain(), Wrapped(), key)


def test_different_numbers_of_lanes_are_refused(key):
    with pytest.raises(ValueError, match="the environments have 2 and 3 lanes"):
        check_environments_match(Chain(num_envs=2), Chain(num_envs=3), key)


def test_a_raw_key_is_refused():
    with pytest.raises(ValueError, match=r"must be a.* jax\.random\.key"):
        check_environments_match(Chain(), Chain(), jax.random.PRNGKey(0))
