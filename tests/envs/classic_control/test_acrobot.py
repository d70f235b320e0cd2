"""Acrobot compared with Gymnasium's."""

import numpy as np
import pytest

import jaxenv
from jaxenv.canvas import ORANGE
from jaxenv.envs.classic_control.acrobot import Acrobot, State
from tests.envs.classic_control import reference
from tests.envs.classic_control.reference import NUM_STATES
from tests.pictures import centre, lanes, picture

# Gymnasium hard-codes gravity; `test_weaker_gravity_is_a_slower_clock` covers it.
PARAMS = {
    "defaults": {},
    "long and heavy": {"length_1": 1.4, "mass_1": 1.5, "mass_2": 0.6, "com_1": 0.8, "com_2": 0.3, "torque": 2.0},
    "light and fast": {"mass_2": 1.6, "com_2": 0.7, "inertia": 0.6, "dt": 0.1, "max_rate_1": 5.0, "max_rate_2": 8.0},
}

# One step covers 0.2 s of a fast double pendulum. With rates up to 28 rad/s, squared in the acceleration, a rounding
# error of 2e-6 grows a hundredfold within the four stages of the step.
TOLERANCE = 1e-3


# Storing the state makes four of the hundreds of roundings of a step, and the stages amplify them.
ALLOWANCE = 200


def configure(
    env,
    length_1=1.0,
    mass_1=1.0,
    mass_2=1.0,
    com_1=0.5,
    com_2=0.5,
    inertia=1.0,
    torque=1.0,
    dt=0.2,
    max_rate_1=4 * np.pi,
    max_rate_2=9 * np.pi,
):
    env.LINK_LENGTH_1, env.LINK_MASS_1, env.LINK_MASS_2 = length_1, mass_1, mass_2
    env.LINK_COM_POS_1, env.LINK_COM_POS_2, env.LINK_MOI = com_1, com_2, inertia
    env.AVAIL_TORQUE, env.dt = [-torque, 0.0, torque], dt
    env.MAX_VEL_1, env.MAX_VEL_2 = max_rate_1, max_rate_2


def drawn(max_rate_1=4 * np.pi, max_rate_2=9 * np.pi, **_):
    """States over the full turn with rates up to half their limits, some at the limits; and actions."""
    rng = np.random.default_rng(0)
    states = rng.uniform(-1, 1, (NUM_STATES, 4)) * [np.pi, np.pi, 0.5 * max_rate_1, 0.5 * max_rate_2]
    edge = 100
    states[:edge, 2:] = rng.choice([-1, 1], (edge, 2)) * [max_rate_1, max_rate_2]
    states[edge : 2 * edge, :2] = rng.choice([-1, 1], (edge, 2)) * (np.pi - 1e-4)
    states[2 * edge : 4 * edge, 2:] *= 0.05
    states[0] = 0
    return states, rng.integers(0, 3, NUM_STATES).astype(np.int32)


def decided(rows):
    """Rows whose free end is not close to the line."""
    height = -np.cos(rows.state[:, 0]) - np.cos(rows.state[:, 0] + rows.state[:, 1])
    return np.abs(height - 1) > TOLERANCE


def pumping(observation, *_):
    """Applies torque in the direction of the lower link's rotation."""
    return 2 if observation[5] > 0 else 0


@pytest.mark.parametrize("params", PARAMS.values(), ids=PARAMS.keys())
def test_one_step_from_random_states_equals_gymnasium(params):
    states, actions = drawn(**params)
    theirs = reference.reference_step(reference.reference("Acrobot-v1"), states, actions, configure, **params)
    ours = reference.step(reference.bare("Acrobot-v1", **params), states, actions)
    reference.assert_rows_match(ours, theirs, tolerance=TOLERANCE, decided=decided(theirs), angles=[0, 1])
    assert np.all(np.abs(ours.state[:, :2]) <= np.float32(np.pi))


def test_one_step_with_the_equations_of_the_paper_equals_gymnasium():
    states, actions = drawn()
    env = reference.reference("Acrobot-v1")
    env.book_or_nips = "nips"
    theirs = reference.reference_step(env, states, actions)
    ours = reference.step(reference.bare("Acrobot-v1", dynamics="nips"), states, actions)
    reference.assert_rows_match(ours, theirs, tolerance=TOLERANCE, decided=decided(theirs), angles=[0, 1])


def test_unknown_dynamics_raise():
    with pytest.raises(ValueError, match=r"dynamics .*got 'article'"):
        jaxenv.make("Acrobot-v1", dynamics="article")


def test_params_per_lane_give_each_lane_its_own_physics():
    states, actions = drawn()
    names = ("length_1", "mass_1", "mass_2", "com_1", "com_2", "inertia", "torque", "dt")
    defaults = np.array([1, 1, 1, 0.5, 0.5, 1, 1, 0.2])
    factors = np.random.default_rng(1).uniform(0.7, 1.2, (NUM_STATES, len(names)))
    values = dict(zip(names, (defaults * factors).T, strict=True))
    theirs = reference.reference_step(reference.reference("Acrobot-v1"), states, actions, configure, **values)
    ours = reference.step(reference.bare("Acrobot-v1").with_params(**values), states, actions)
    reference.assert_rows_match(ours, theirs, tolerance=TOLERANCE, decided=decided(theirs), angles=[0, 1])


def test_weaker_gravity_is_a_slower_clock():
    # Scaling the unit of time changes nothing else: with gravity and torque divided by s^2, dt multiplied by s and
    # rates and their limits divided by s, angles are the same and rates are s times smaller.
    s = 2.0
    states, actions = drawn()
    theirs = reference.reference_step(reference.reference("Acrobot-v1"), states, actions)
    slower = reference.bare(
        "Acrobot-v1",
        gravity=9.8 / s**2,
        torque=1 / s**2,
        dt=0.2 * s,
        max_rate_1=4 * np.pi / s,
        max_rate_2=9 * np.pi / s,
    )
    rows = reference.step(slower, states / [1, 1, s, s], actions)
    rows.state = rows.state * [1, 1, s, s]
    rows.observation = rows.observation * np.float32([1, 1, 1, 1, s, s])
    reference.assert_rows_match(rows, theirs, tolerance=TOLERANCE, decided=decided(theirs), angles=[0, 1])


def test_whole_episodes_of_energy_pumping_equal_gymnasium_to_the_end():
    env, state, starts, first = reference.start_together("Acrobot-v1", 8)
    theirs = reference.reference_episodes("Acrobot-v1", starts, first, pumping)
    ours = reference.replay(env, state, theirs)
    assert all(e.terminated[-1] for e in theirs)
    assert all(e.reward[-1] == 0 and np.all(e.reward[:-1] == -1) for e in theirs)
    bounds = reference.tolerances("Acrobot-v1", starts, theirs, ALLOWANCE)
    reference.assert_episodes_match(ours, theirs, bounds)


def test_whole_random_episodes_equal_gymnasium():
    env, state, starts, first = reference.start_together("Acrobot-v1", 8)
    actions = np.random.default_rng(2).integers(0, 3, (500, 8))
    theirs = reference.reference_episodes("Acrobot-v1", starts, first, lambda o, t, lane: actions[t, lane])
    ours = reference.replay(env, state, theirs)
    bounds = reference.tolerances("Acrobot-v1", starts, theirs, ALLOWANCE)
    reference.assert_episodes_match(ours, theirs, bounds)


def test_initial_angles_and_rates_are_uniform_in_the_start_range():
    states, observation = reference.starting_states("Acrobot-v1")
    for column in states.T:
        reference.assert_uniform(column, -0.1, 0.1)
    assert np.abs(np.corrcoef(states.T) - np.eye(4)).max() < 5 / np.sqrt(len(states))
    a, b, *_ = states.T
    expected = np.stack([np.cos(a), np.sin(a), np.cos(b), np.sin(b), *states.T[2:]], axis=-1)
    np.testing.assert_allclose(observation, expected, rtol=0, atol=1e-6)


def test_start_range_is_a_param_and_may_differ_by_lane():
    states, _ = reference.starting_states("Acrobot-v1", start_range=np.repeat([0.02, 0.5], 5000))
    reference.assert_uniform(states[:5000].ravel(), -0.02, 0.02)
    reference.assert_uniform(states[5000:].ravel(), -0.5, 0.5)


def test_specs_and_registry_row_equal_those_of_gymnasium():
    reference.assert_specs_match("Acrobot-v1")


def test_in_the_picture_the_lower_link_turns_with_both_angles():
    states = State(*lanes([0, np.pi / 2, np.pi / 2], [0, 0, np.pi / 2], [0, 0, 0], [0, 0, 0]))
    (_, hangs), (to_right, level), (_, up) = (centre(image, ORANGE) for image in picture(Acrobot(), states, 3))
    assert hangs > 0.7
    assert to_right > 0.7
    assert abs(level - 0.5) < 0.02
    assert up < 0.45
