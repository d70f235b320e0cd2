"""MountainCar compared with Gymnasium's."""

import jax
import numpy as np
import pytest

import jaxenv
from jaxenv.canvas import GREEN, ORANGE
from jaxenv.envs.classic_control.mountain_car import MountainCar, Params, State
from tests.envs.classic_control import reference
from tests.envs.classic_control.reference import MARGIN, NUM_STATES
from tests.pictures import centre, lanes, picture

PARAMS = {
    "defaults": {},
    "strong engine": {"force": 0.003, "gravity": 0.0018, "goal_position": 0.35, "goal_velocity": 0.02},
    "steep and narrow": {
        "gravity": 0.006,
        "force": 0.0005,
        "min_position": -1.0,
        "max_position": 0.7,
        "max_speed": 0.1,
    },
}


def configure(
    env,
    force=0.001,
    gravity=0.0025,
    goal_position=0.5,
    goal_velocity=0.0,
    min_position=-1.2,
    max_position=0.6,
    max_speed=0.07,
):
    env.force, env.gravity = force, gravity
    env.goal_position, env.goal_velocity = goal_position, goal_velocity
    env.min_position, env.max_position, env.max_speed = min_position, max_position, max_speed


def drawn(goal_position=0.5, min_position=-1.2, max_position=0.6, max_speed=0.07, **_):
    """States anywhere in the valley, a third of them near the goal and some at the left wall; and actions."""
    rng = np.random.default_rng(0)
    states = np.stack(
        [
            rng.uniform(min_position, max_position, NUM_STATES),
            rng.uniform(-max_speed, max_speed, NUM_STATES),
        ],
        axis=-1,
    )
    third, wall = NUM_STATES // 3, NUM_STATES // 10
    states[:third, 0] = rng.uniform(goal_position - 0.05, max_position, third)
    states[third : third + wall, 0] = rng.uniform(min_position, min_position + 0.05, wall)
    states[0], states[1], states[2] = [goal_position, 0], [max_position, max_speed], [min_position, 0]
    states[3], states[4] = [min_position, -max_speed], [goal_position, -max_speed]
    return states, rng.integers(0, 3, NUM_STATES).astype(np.int32)


def decided(rows, goal_position=0.5, goal_velocity=0.0, **_):
    """Rows whose position and velocity are not close to those of the goal.

    Velocities, and their rounding errors, are at most a tenth of positions.
    """
    position, velocity = rows.state.T
    return (np.abs(position - goal_position) > MARGIN) & (np.abs(velocity - goal_velocity) > 0.1 * MARGIN)


def pumping(observation, *_):
    """Pushes in the direction of motion."""
    return 2 if observation[1] >= 0 else 0


# Numbers are near 1, where float32 has a spacing of 1e-7.
@pytest.mark.parametrize("params", PARAMS.values(), ids=PARAMS.keys())
def test_one_step_from_random_states_equals_gymnasium(params):
    states, actions = drawn(**params)
    theirs = reference.reference_step(reference.reference("MountainCar-v0"), states, actions, configure, **params)
    ours = reference.step(reference.bare("MountainCar-v0", **params), states, actions)
    away = decided(theirs, **params) | (theirs.state[:, 1] == 0)  # at the wall both velocities are exactly 0
    reference.assert_rows_match(ours, theirs, tolerance=1e-5, decided=away)


def test_params_per_lane_give_each_lane_its_own_physics():
    states, actions = drawn()
    rng = np.random.default_rng(1)
    values = {
        "force": rng.uniform(0.0005, 0.002, NUM_STATES),
        "gravity": rng.uniform(0.001, 0.004, NUM_STATES),
        "goal_position": rng.uniform(0.3, 0.55, NUM_STATES),
        "goal_velocity": rng.uniform(-0.02, 0.02, NUM_STATES),
    }
    theirs = reference.reference_step(reference.reference("MountainCar-v0"), states, actions, configure, **values)
    ours = reference.step(reference.bare("MountainCar-v0").with_params(**values), states, actions)
    away = decided(theirs, values["goal_position"], values["goal_velocity"])
    reference.assert_rows_match(ours, theirs, tolerance=1e-5, decided=away)


def test_reaching_exactly_the_goal_with_exactly_its_velocity_counts():
    # Without gravity and push the velocity is constant; all numbers are exact in float32. The second car is slightly
    # too slow.
    env = reference.bare("MountainCar-v0", 3, gravity=0, force=0, goal_position=0.5, goal_velocity=0.0625)
    rows = reference.step(env, np.array([[0.4375, 0.0625], [0.45, 0.0624], [0.4374, 0.0625]]), np.ones(3, np.int32))
    assert rows.state[0].tolist() == [0.5, 0.0625]
    assert rows.terminated.tolist() == [True, False, False]


def test_velocity_is_zeroed_at_the_left_wall_not_at_the_goal():
    env = reference.bare("MountainCar-v0", 3)
    # Into the left wall; backwards past the goal; into the right end of the road.
    states = np.array([[-1.19, -0.06], [0.55, -0.02], [0.59, 0.06]])
    rows = reference.step(env, states, np.ones(3, np.int32))
    np.testing.assert_array_equal(rows.state[0], np.float32([-1.2, 0]))
    assert rows.state[1, 1] < -0.01
    assert rows.state[2, 0] == np.float32(0.6)
    assert rows.state[2, 1] > 0.05
    assert rows.terminated.tolist() == [False, False, True]


def test_whole_episodes_of_energy_pumping_equal_gymnasium_to_the_goal():
    env, state, starts, first = reference.start_together("MountainCar-v0", 8)
    theirs = reference.reference_episodes("MountainCar-v0", starts, first, pumping)
    ours = reference.replay(env, state, theirs)
    assert all(e.terminated[-1] and 80 < len(e) < 200 for e in theirs)
    # Roundings of 6e-8 add up over the hundred steps; a valley multiplies them by little.
    reference.assert_episodes_match(ours, theirs, 1e-5)


def test_whole_random_episodes_equal_gymnasium_to_the_time_limit():
    env, state, starts, first = reference.start_together("MountainCar-v0", 8)
    actions = np.random.default_rng(2).integers(0, 3, (200, 8))
    theirs = reference.reference_episodes("MountainCar-v0", starts, first, lambda o, t, lane: actions[t, lane])
    ours = reference.replay(env, state, theirs)
    assert all(e.truncated[-1] and len(e) == 200 for e in theirs)
    reference.assert_episodes_match(ours, theirs, 1e-5)


def test_doing_nothing_from_minus_one_half_ends_at_the_time_limit_with_discount_one():
    env = jaxenv.make("MountainCar-v0", num_envs=1, start_low=-0.5, start_high=-0.5)
    assert jaxenv.spec("MountainCar-v0").max_episode_steps == 200
    assert jaxenv.spec("MountainCar-v0").reward_threshold == -110
    state, first = reference.reset(env, jax.random.key(0))
    assert first.observation.tolist() == [[-0.5, 0.0]]
    rows = jax.device_get(reference.replay_actions(env, state, np.ones((201, 1), np.int32)))
    assert rows.step_type[:, 0].tolist() == [1] * 199 + [2] + [0]
    assert rows.discount[:, 0].tolist() == [1.0] * 201
    assert rows.reward[:, 0].tolist() == [-1.0] * 200 + [0.0]
    assert rows.reward[:200].sum() == -200
    assert rows.observation[:, 0, 0].max() < 0.5
    assert rows.observation[200].tolist() == [[-0.5, 0.0]]


def test_cars_start_at_rest_with_uniform_positions():
    states, observation = reference.starting_states("MountainCar-v0")
    np.testing.assert_array_equal(observation, states)
    reference.assert_uniform(states[:, 0], -0.6, -0.4)
    assert np.all(states[:, 1] == 0)


def test_start_bounds_are_params_and_may_differ_by_lane():
    low = np.repeat([-1.0, -0.2], 5000)
    states, _ = reference.starting_states("MountainCar-v0", start_low=low, start_high=0.1)
    reference.assert_uniform(states[:5000, 0], -1.0, 0.1)
    reference.assert_uniform(states[5000:, 0], -0.2, 0.1)


def test_specs_and_registry_row_equal_those_of_gymnasium():
    reference.assert_specs_match("MountainCar-v0")


def test_in_the_picture_the_flag_is_at_the_goal_of_each_lane_and_the_car_moves_right():
    task = MountainCar(params=Params(goal_position=np.float32([0.5, -0.2])))
    first, second = picture(task, State(*lanes([-0.5, -0.2], [0, 0])), 2)
    assert abs(centre(first, GREEN)[0] - centre(second, GREEN)[0] - 0.7 / 1.98) < 0.02
    assert abs(centre(second, ORANGE)[0] - centre(first, ORANGE)[0] - 0.3 / 1.98) < 0.06
    assert centre(second, ORANGE)[1] < centre(first, ORANGE)[1]  # uphill
