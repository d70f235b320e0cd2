"""MountainCarContinuous compared with Gymnasium's."""

import jax
import numpy as np
import pytest

import jaxenv
from tests.envs.classic_control import reference
from tests.envs.classic_control.reference import MARGIN, NUM_STATES

# Gymnasium hard-codes gravity; `test_gravity_is_that_of_the_car_with_three_actions` covers it.
PARAMS = {
    "defaults": {},
    "strong engine": {"power": 0.004, "goal_position": 0.3, "goal_velocity": 0.02},
    "narrow": {"power": 0.0008, "min_position": -1.0, "max_position": 0.7, "max_speed": 0.1},
}


def configure(
    env, power=0.0015, goal_position=0.45, goal_velocity=0.0, min_position=-1.2, max_position=0.6, max_speed=0.07
):
    env.power = power
    env.goal_position, env.goal_velocity = goal_position, goal_velocity
    env.min_position, env.max_position, env.max_speed = min_position, max_position, max_speed


def drawn(goal_position=0.45, min_position=-1.2, max_position=0.6, max_speed=0.07, **_):
    """States anywhere in the valley, a third near the goal, some at the left wall; throttles beyond [-1, 1] too."""
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
    return states, rng.uniform(-1.5, 1.5, (NUM_STATES, 1)).astype(np.float32)


def decided(rows, goal_position=0.45, goal_velocity=0.0, **_):
    """Rows whose position and velocity are not close to those of the goal."""
    position, velocity = rows.state.T
    at_rest = velocity == 0  # at the left wall both velocities are exactly 0
    near = np.abs(velocity - goal_velocity) <= 0.1 * MARGIN
    return (np.abs(position - goal_position) > MARGIN) & (at_rest | ~near)


def pumping(observation, *_):
    """Full throttle in the direction of motion."""
    return np.array([1.0 if observation[1] >= 0 else -1.0], np.float32)


@pytest.mark.parametrize(
    ("make", "reward"),
    [
        (lambda: jaxenv.spec("MountainCarContinuous-v0").make(2), -0.4),
        (lambda: jaxenv.make("MountainCarContinuous-v0", 2, clip_action=False), -0.4),
        (lambda: jaxenv.make("MountainCarContinuous-v0", 2), -0.1),
    ],
    ids=["bare", "without ClipAction", "as made"],
)
def test_fuel_is_charged_for_the_action_as_given_unless_clip_action_clips_it(make, reward):
    env = make()
    state, _ = env.reset(jax.random.key(0))
    _, timestep = env.step(state, np.full((2, 1), 2, np.float32))
    np.testing.assert_allclose(timestep.reward, reward, rtol=1e-6)


# Numbers of the state are near 1, where float32 has a spacing of 1e-7; rewards are near 100, where it is 8e-6.
@pytest.mark.parametrize("params", PARAMS.values(), ids=PARAMS.keys())
def test_one_step_from_random_states_equals_gymnasium(params):
    states, actions = drawn(**params)
    env = reference.reference("MountainCarContinuous-v0")
    theirs = reference.reference_step(env, states, actions, configure, **params)
    ours = reference.step(reference.bare("MountainCarContinuous-v0", **params), states, actions)
    reference.assert_rows_match(ours, theirs, tolerance=1e-5, decided=decided(theirs, **params))


def test_params_per_lane_give_each_lane_its_own_physics():
    states, actions = drawn()
    rng = np.random.default_rng(1)
    values = {
        "power": rng.uniform(0.0005, 0.003, NUM_STATES),
        "goal_position": rng.uniform(0.3, 0.55, NUM_STATES),
        "goal_velocity": rng.uniform(-0.02, 0.02, NUM_STATES),
    }
    env = reference.reference("MountainCarContinuous-v0")
    theirs = reference.reference_step(env, states, actions, configure, **values)
    ours = reference.step(reference.bare("MountainCarContinuous-v0").with_params(**values), states, actions)
    away = decided(theirs, values["goal_position"], values["goal_velocity"])
    reference.assert_rows_match(ours, theirs, tolerance=1e-5, decided=away)


def test_gravity_is_that_of_the_car_with_three_actions():
    # With throttles of -1, 0 and 1 the two tasks differ only in reward and goal.
    states, _ = drawn()
    push = np.random.default_rng(3).integers(0, 3, NUM_STATES)
    gravity = np.random.default_rng(4).uniform(0.001, 0.006, NUM_STATES)

    def steepen(env, gravity):
        env.gravity, env.force, env.goal_position = gravity, 0.0015, 0.45

    theirs = reference.reference_step(reference.reference("MountainCar-v0"), states, push, steepen, gravity=gravity)
    env = reference.bare("MountainCarContinuous-v0").with_params(gravity=gravity)
    ours = reference.step(env, states, (push[:, None] - 1).astype(np.float32))
    theirs.reward = 100.0 * theirs.terminated - 0.1 * (push != 1)
    reference.assert_rows_match(ours, theirs, tolerance=1e-5, decided=decided(theirs))


def test_velocity_is_zeroed_at_the_left_wall_not_at_the_goal():
    env = reference.bare("MountainCarContinuous-v0", 3)
    # Into the left wall; backwards past the goal; into the right end of the road.
    states = np.array([[-1.19, -0.06], [0.55, -0.02], [0.59, 0.06]])
    rows = reference.step(env, states, np.zeros((3, 1), np.float32))
    np.testing.assert_array_equal(rows.state[0], np.float32([-1.2, 0]))
    assert rows.state[1, 1] < -0.01
    assert rows.state[2, 0] == np.float32(0.6)
    assert rows.state[2, 1] > 0.05
    assert rows.terminated.tolist() == [False, False, True]


def test_whole_episodes_of_energy_pumping_against_the_left_wall_equal_gymnasium():
    env, state, starts, first = reference.start_together("MountainCarContinuous-v0", 8)
    theirs = reference.reference_episodes("MountainCarContinuous-v0", starts, first, pumping)
    ours = reference.replay(env, state, theirs)
    assert all(e.terminated[-1] for e in theirs)
    hits = [np.all(e.observation == np.float32([-1.2, 0]), axis=-1).any() for e in theirs]
    assert sum(hits) >= 2
    # Rounding errors of 6e-8 accumulate, except where the wall resets them; for the reward of 100 one is 4e-6.
    reference.assert_episodes_match(ours, theirs, 1e-5)


def test_whole_random_episodes_equal_gymnasium_to_the_time_limit():
    env, state, starts, first = reference.start_together("MountainCarContinuous-v0", 8)
    actions = np.random.default_rng(2).uniform(-1, 1, (999, 8, 1)).astype(np.float32)
    theirs = reference.reference_episodes(
        "MountainCarContinuous-v0", starts, first, lambda o, t, lane: actions[t, lane]
    )
    ours = reference.replay(env, state, theirs)
    assert all(e.truncated[-1] and len(e) == 999 for e in theirs)
    # Rounding errors of 6e-8 accumulate over a thousand steps.
    reference.assert_episodes_match(ours, theirs, 3e-5)


def test_cars_start_at_rest_with_uniform_positions():
    states, observation = reference.starting_states("MountainCarContinuous-v0")
    np.testing.assert_array_equal(observation, states)
    reference.assert_uniform(states[:, 0], -0.6, -0.4)
    assert np.all(states[:, 1] == 0)


def test_start_bounds_are_params_and_may_differ_by_lane():
    low = np.repeat([-1.0, -0.2], 5000)
    states, _ = reference.starting_states("MountainCarContinuous-v0", start_low=low, start_high=0.1)
    reference.assert_uniform(states[:5000, 0], -1.0, 0.1)
    reference.assert_uniform(states[5000:, 0], -0.2, 0.1)


def test_specs_and_registry_row_equal_those_of_gymnasium():
    reference.assert_specs_match("MountainCarContinuous-v0")
