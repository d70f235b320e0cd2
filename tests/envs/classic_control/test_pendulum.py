"""Pendulum compared with Gymnasium's. Angles are compared modulo a turn, because Gymnasium does not wrap them."""

import jax
import numpy as np
import pytest

import jaxenv
from jaxenv.canvas import ORANGE
from jaxenv.envs.classic_control.pendulum import Params, Pendulum, State
from tests.envs.classic_control import reference
from tests.envs.classic_control.reference import NUM_STATES
from tests.pictures import centre, lanes, picture, shows

PARAMS = {
    "defaults": {},
    "long and heavy": {"length": 1.7, "mass": 2.5, "gravity": 3.7},
    "light and fast": {"length": 0.6, "mass": 0.4, "dt": 0.02, "max_speed": 5.0, "max_torque": 1.0},
}


def configure(env, gravity=10.0, mass=1.0, length=1.0, dt=0.05, max_speed=8.0, max_torque=2.0):
    env.g, env.m, env.l, env.dt = gravity, mass, length, dt
    env.max_speed, env.max_torque = max_speed, max_torque


def drawn(max_speed=8.0, max_torque=2.0, **_):
    """States over the full turn, its ends included, with rates up to the limit; torques beyond the limits too."""
    rng = np.random.default_rng(0)
    states = rng.uniform(-1, 1, (NUM_STATES, 2)) * [np.pi, max_speed]
    edge = 200
    states[:edge, 0] = rng.choice([-1, 1], edge) * (np.pi - rng.choice([1e-6, 1e-4, 1e-2], edge))
    states[edge : 2 * edge, 1] = rng.choice([-1, 1], edge) * max_speed
    states[0] = 0
    return states, rng.uniform(-1.5 * max_torque, 1.5 * max_torque, (NUM_STATES, 1)).astype(np.float32)


# The cost reaches pi^2 + 6.4 = 16, where float32 has a spacing of 2e-6; a few roundings stay below 1e-5.
@pytest.mark.parametrize("params", PARAMS.values(), ids=PARAMS.keys())
def test_one_step_from_random_states_equals_gymnasium(params):
    states, actions = drawn(**params)
    theirs = reference.reference_step(reference.reference("Pendulum-v1"), states, actions, configure, **params)
    ours = reference.step(reference.bare("Pendulum-v1", **params), states, actions)
    reference.assert_rows_match(ours, theirs, tolerance=1e-5, angles=[0], ending=0)
    assert not theirs.terminated.any()
    assert np.all(np.abs(ours.state[:, 0]) <= np.float32(np.pi))


def test_params_per_lane_give_each_lane_its_own_physics():
    states, actions = drawn()
    factors = np.random.default_rng(1).uniform(0.5, 1.5, (4, NUM_STATES))
    values = dict(zip(("gravity", "mass", "length", "dt"), factors, strict=True))
    values["gravity"] *= 10
    values["dt"] *= 0.05
    theirs = reference.reference_step(reference.reference("Pendulum-v1"), states, actions, configure, **values)
    ours = reference.step(reference.bare("Pendulum-v1").with_params(**values), states, actions)
    reference.assert_rows_match(ours, theirs, tolerance=1e-5, angles=[0], ending=0)


def test_the_reward_depends_on_the_state_before_the_step():
    env = reference.bare("Pendulum-v1", 2)
    rows = reference.step(env, np.array([[0.0, 0.0], [np.pi / 2, 2.0]]), np.array([[2.0], [-1.0]], np.float32))
    # Upright at rest the cost is that of the torque alone: 0.001 * 2^2.
    np.testing.assert_allclose(rows.reward, [-0.004, -((np.pi / 2) ** 2 + 0.1 * 4 + 0.001)], rtol=1e-6)


# The cost theta^2 + 0.1 * rate^2 has slopes of up to 2 * pi and 1.6.
REWARD_SLOPE = 2 * np.pi + 1.6


# Storing the state makes two of about ten roundings of a step; an unfavourable series of them is a few times larger.
ALLOWANCE = 30


def test_whole_damped_episodes_equal_gymnasium():
    # A torque against the motion damps the pendulum and its errors.
    env, state, starts, first = reference.start_together("Pendulum-v1", 8)
    theirs = reference.reference_episodes("Pendulum-v1", starts, first, lambda o, t, lane: np.clip(-o[2:], -2, 2))
    ours = reference.replay(env, state, theirs)
    assert all(e.truncated[-1] and len(e) == 200 for e in theirs)
    bounds = reference.tolerances("Pendulum-v1", starts, theirs, ALLOWANCE)
    reference.assert_episodes_match(ours, theirs, bounds, REWARD_SLOPE)


def test_whole_random_episodes_equal_gymnasium():
    env, state, starts, first = reference.start_together("Pendulum-v1", 8)
    actions = np.random.default_rng(2).uniform(-2, 2, (200, 8, 1)).astype(np.float32)
    theirs = reference.reference_episodes("Pendulum-v1", starts, first, lambda o, t, lane: actions[t, lane])
    ours = reference.replay(env, state, theirs)
    assert all(e.truncated[-1] and len(e) == 200 for e in theirs)
    bounds = reference.tolerances("Pendulum-v1", starts, theirs, ALLOWANCE)
    reference.assert_episodes_match(ours, theirs, bounds, REWARD_SLOPE)


def test_initial_angles_are_uniform_over_the_turn_and_rates_in_minus_one_to_one():
    states, observation = reference.starting_states("Pendulum-v1")
    reference.assert_uniform(states[:, 0], -np.pi, np.pi)
    reference.assert_uniform(states[:, 1], -1, 1)
    assert abs(np.corrcoef(states.T)[0, 1]) < 5 / np.sqrt(len(states))
    expected = np.stack([np.cos(states[:, 0]), np.sin(states[:, 0]), states[:, 1]], axis=-1)
    np.testing.assert_allclose(observation, expected, rtol=0, atol=1e-6)


def test_start_ranges_are_params():
    states, _ = reference.starting_states("Pendulum-v1", start_angle=0.5, start_rate=np.repeat([0.1, 3.0], 5000))
    reference.assert_uniform(states[:, 0], -0.5, 0.5)
    reference.assert_uniform(states[:5000, 1], -0.1, 0.1)
    reference.assert_uniform(states[5000:, 1], -3, 3)


def test_specs_and_registry_row_equal_those_of_gymnasium():
    reference.assert_specs_match("Pendulum-v1")


def test_action_spec_is_one_torque_between_minus_two_and_two():
    env = jaxenv.make("Pendulum-v1", num_envs=3)
    assert env.action_spec() == jaxenv.specs.Bounded((1,), np.float32, -2, 2)


def test_only_the_time_limit_ends_an_episode():
    env = jaxenv.make("Pendulum-v1", num_envs=3)
    state, _ = reference.reset(env, jax.random.key(0))
    rows = jax.device_get(reference.replay_actions(env, state, np.full((201, 3, 1), 2, np.float32)))
    assert rows.step_type.tolist() == [[1] * 3] * 199 + [[2] * 3] + [[0] * 3]
    assert np.all(rows.discount == 1)


def test_in_the_picture_the_rod_is_upright_at_angle_0_turns_counterclockwise_and_is_as_long_as_its_params_say():
    task = Pendulum(params=Params(length=np.float32([1, 1, 0.5])))
    upright, left, short = picture(task, State(*lanes([0, np.pi / 2, 0], [0, 0, 0])), 3)
    assert centre(upright, ORANGE)[1] < 0.4
    assert centre(left, ORANGE)[0] < 0.4
    assert 0 < shows(short, ORANGE).sum() < 0.7 * shows(upright, ORANGE).sum()
