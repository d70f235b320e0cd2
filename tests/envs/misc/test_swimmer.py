"""Swimmer compared with gymnax's, whose physics equals the original's for actions within the space."""

import numpy as np
import pytest

import jaxenv
from jaxenv.canvas import GREEN, ORANGE, PURPLE
from jaxenv.envs.misc.swimmer import State, Swimmer
from tests.envs.classic_control.reference import assert_uniform
from tests.envs.misc import gymnax_rollouts
from tests.packages import lazy
from tests.parity import certify
from tests.pictures import centre, lanes, picture

swimmer = lazy("gymnax.environments.misc.swimmer")

ID = "Swimmer-misc"
LANES, STEPS = 1000, 500


def drawn(lanes=LANES, urchins=5):
    """Swimmers inside and outside the square, at various speeds, some next to an urchin or at the goal."""
    rng = np.random.default_rng(0)
    places = rng.uniform(-1.2, 1.2, (lanes, urchins + 2, 2))
    velocity = rng.uniform(-1, 1, (lanes, 2)) * rng.choice([0, 0.3, 3], (lanes, 1))
    urchin, position, goal = places[:, :-2], places[:, -2], places[:, -1]
    position[:300] = urchin[:300, 0] + rng.normal(0, 0.1, (300, 2))
    position[300:400] = goal[300:400]
    position[0], velocity[0] = urchin[0, 1], 0  # at an urchin
    actions = rng.uniform(-1, 1, (STEPS, lanes, 2))
    actions[:, :2] = np.array([0, 1])[None, :, None]
    return [x.astype(np.float32) for x in (urchin, position, velocity, goal, actions)]


def our_state(urchins, *points):
    return State(urchins, *(tuple(np.ascontiguousarray(point.T)) for point in points))


def stacked(columns):
    """Stacks the coordinates of our state: ``[..., 2]``."""
    return np.stack(columns, axis=-1)


def peer_state(urchins, position, velocity, goal):
    time = np.zeros(len(goal), np.int32)
    return swimmer.EnvState(urchin_xys=urchins, xy=position, xy_vel=velocity, goal_xy=goal, time=time)


def differences(ours, theirs):
    """The largest difference of each row, ``[T, B]``, relative to its largest number."""
    (state, observation, reward, _), (their_state, their_observation, their_reward, _) = ours, theirs
    size = np.maximum(1, np.abs(observation).max(axis=-1))
    pairs = [
        (stacked(state.position), their_state.xy),
        (stacked(state.velocity), their_state.xy_vel),
        (observation, their_observation),
    ]
    moved = np.max([np.abs(a - b).max(axis=-1) for a, b in pairs], axis=0)
    return np.maximum(moved / size, np.abs(reward - their_reward))


# In one step all numbers are near 1. In 500 steps of full thrust velocities reach 25 and positions 300. Their rounding
# errors accumulate, so differences are relative to the largest number of the row.
@pytest.mark.parametrize("params", [{}, {"dt": 0.02}, {"dt": 0.1}], ids=["defaults", "fine", "coarse"])
def test_one_step_and_whole_episodes_from_random_states_equal_gymnax(params):
    urchins, position, velocity, goal, actions = drawn()
    env = gymnax_rollouts.peer(ID)
    theirs = gymnax_rollouts.follow_peer(env, peer_state(urchins, position, velocity, goal), actions, **params)
    task = our_state(urchins, position, velocity, goal)
    ours = gymnax_rollouts.follow(gymnax_rollouts.bare(ID).with_params(**params), task, actions)
    errors = differences(ours, theirs)
    assert errors.max() <= 1e-5
    assert theirs[2][0, 0] == 0
    assert theirs[2].max() > 0.99
    np.testing.assert_array_equal(ours[0].urchins[-1], urchins)
    np.testing.assert_array_equal(ours[3], theirs[3])
    certify(ID, "gymnax", states=LANES, episodes=LANES, steps=LANES * STEPS, tolerance=1e-5, error=errors.max())


@pytest.mark.parametrize("num_urchins", [0, 2])
def test_each_urchin_reduces_the_reward_by_its_factor(num_urchins):
    urchins = np.float32([[[0.1, 0], [0, 0.2]]])[:, :num_urchins]
    task = our_state(urchins, *np.zeros((2, 1, 2), np.float32), np.float32([[1, 0]]))
    env = gymnax_rollouts.bare(ID, num_urchins=num_urchins)
    _, observation, reward, _ = gymnax_rollouts.follow(env, task, np.zeros((1, 1, 2), np.float32))
    factors = [1 - np.exp(-0.3), 1 - np.exp(-1.2)][:num_urchins]
    np.testing.assert_allclose(reward[0, 0], np.exp(-0.5) * np.prod(factors), rtol=1e-6)
    np.testing.assert_allclose(observation[0, 0], [*urchins.ravel(), 0, 0, 0, 0, 1, 0])


def test_initial_positions_are_uniform_in_the_square_and_at_rest():
    task = gymnax_rollouts.starts(gymnax_rollouts.bare(ID))
    columns = np.stack([*task.urchins.reshape(-1, 10).T, *task.position, *task.goal])
    for column in columns:
        assert_uniform(column, -1, 1)
    assert np.abs(np.corrcoef(columns) - np.eye(14)).max() < 5 / np.sqrt(columns.shape[1])
    assert not np.any(task.velocity)


def test_time_limit_and_spaces_equal_those_of_gymnax():
    env, ours = gymnax_rollouts.peer(ID), gymnax_rollouts.bare(ID)
    params = env.default_params
    assert jaxenv.spec(ID).max_episode_steps == params.max_steps_in_episode == STEPS
    action = env.action_space(params)
    np.testing.assert_array_equal(ours.action_spec().minimum, action.low)
    np.testing.assert_array_equal(ours.action_spec().maximum, action.high)
    assert ours.observation_spec().shape == env.observation_space(params).shape


def test_invalid_options_raise():
    with pytest.raises(ValueError, match=r"Swimmer-misc: num_urchins .*got -1"):
        gymnax_rollouts.bare(ID, num_urchins=-1)
    with pytest.raises(ValueError, match=r"Swimmer-misc: dt .*got -1.0"):
        gymnax_rollouts.bare(ID, dt=-1.0)


def test_in_the_picture_swimmer_goal_and_urchins_are_at_their_places():
    x, y, rest, goal_x, goal_y = lanes([0.8], [-0.8], [0], [-0.8], [0.8])
    urchins = np.float32([[[0.4, 0.8]]])
    image = picture(Swimmer(num_urchins=1), State(urchins, (x, y), (rest, rest), (goal_x, goal_y)), 1)[0]
    for colour, place in ((ORANGE, (0.75, 0.75)), (GREEN, (0.25, 0.25)), (PURPLE, (0.625, 0.25))):
        np.testing.assert_allclose(centre(image, colour), place, atol=0.02)
