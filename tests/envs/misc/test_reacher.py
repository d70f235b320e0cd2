"""Reacher compared with gymnax's, whose physics equals the original's for actions within the space."""

import jax
import numpy as np
import pytest

import jaxenv
from jaxenv.canvas import GREEN, ORANGE
from jaxenv.envs.misc.reacher import Reacher, State
from jaxenv.interop import to_gymnasium
from tests.envs.classic_control.reference import assert_uniform
from tests.envs.misc import gymnax_rollouts
from tests.packages import lazy
from tests.parity import certify
from tests.pictures import centre, lanes, picture, shows

gymnasium = lazy("gymnasium")
reacher = lazy("gymnax.environments.misc.reacher")

ID = "Reacher-misc"
LANES, STEPS = 2000, 100


def drawn(lanes=LANES, joints=2):
    """Arms with larger angles and rates and goals further out than in an episode, and actions."""
    rng = np.random.default_rng(0)
    angles, rates = (rng.uniform(-1, 1, (lanes, joints)) * scale for scale in (3 * np.pi, 3))
    goal = rng.uniform(-1.2, 1.2, (lanes, 2)) * joints
    actions = rng.uniform(-1, 1, (STEPS, lanes, joints))
    angles[:4], rates[:4], goal[:4] = 0, 0, [[joints, 0], [0, 0], [-joints, 0], [joints, joints]]
    actions[:, :2] = np.array([0, 1])[None, :, None]  # at rest on the goal, and with full torque
    return [x.astype(np.float32) for x in (angles, rates, goal, actions)]


# Both compute the same sums in float32. Sines and contracted sums may round differently; angles reach 30 rad, where
# float32 has a spacing of 2e-6.
@pytest.mark.parametrize(
    "params",
    [{}, {"torque_scale": 2.5, "dt": 0.02}, {"torque_scale": -0.5, "dt": 0.1}],
    ids=["defaults", "strong and slow", "reversed and coarse"],
)
def test_one_step_and_whole_episodes_from_random_states_equal_gymnax(params):
    angles, rates, goal, actions = drawn()
    env = gymnax_rollouts.peer(ID)
    theirs = gymnax_rollouts.follow_peer(env, peer_state(angles, rates, goal), actions, **params)
    ours = gymnax_rollouts.follow(
        gymnax_rollouts.bare(ID).with_params(**params), our_state(angles, rates, goal), actions
    )
    errors = differences(ours, theirs)
    assert errors.max() <= 1e-5
    assert theirs[2].max() > 0.99
    np.testing.assert_array_equal(ours[3], theirs[3])
    certify(ID, "gymnax", states=LANES, episodes=LANES, steps=LANES * STEPS, tolerance=1e-5, error=errors.max())


def our_state(angles, rates, goal):
    return State(*(tuple(np.ascontiguousarray(x.T)) for x in (angles, rates, goal)))


def stacked(columns):
    """Stacks the columns of our state: ``[..., n]``."""
    return np.stack(columns, axis=-1)


def peer_state(angles, rates, goal):
    return reacher.EnvState(angles=angles, angle_vels=rates, goal_xy=goal, time=np.zeros(len(goal), np.float32))


def differences(ours, theirs):
    """The largest difference of each row, ``[T, B]``."""
    (state, observation, reward, _), (their_state, their_observation, their_reward, _) = ours, theirs
    pairs = [
        (stacked(state.angles), their_state.angles),
        (stacked(state.rates), their_state.angle_vels),
        (stacked(state.goal), their_state.goal_xy),
        (observation, their_observation),
        (reward[..., None], their_reward[..., None]),
    ]
    return np.max([np.abs(a - b).max(axis=-1) for a, b in pairs], axis=0)


def test_an_arm_with_three_joints_reaches_as_far_as_three_segments():
    # gymnax and the original have no such arm. At rest and stretched along the x axis its tip is at (3, 0).
    task = our_state(np.zeros((2, 3), np.float32), np.zeros((2, 3), np.float32), np.float32([[3, 0], [3, 1]]))
    env = gymnax_rollouts.bare(ID, num_joints=3)
    _, observation, reward, _ = gymnax_rollouts.follow(env, task, np.zeros((1, 2, 3), np.float32))
    np.testing.assert_allclose(reward[0], [1, np.exp(-1)], rtol=1e-6)
    np.testing.assert_allclose(observation[0, 1], [1, 1, 1, 0, 0, 0, 0, 0, 0, 3, 1], atol=1e-6)
    assert env.observation_spec().shape == (11,)


def test_the_terms_of_a_reward_with_a_control_cost_are_reported_and_0_on_first_rows():
    env = gymnax_rollouts.bare(ID, num_envs=2)
    state, first = env.reset(jax.random.key(0))
    _, timestep = env.step(state, np.float32([[0.5, -1.0], [0.0, 0.25]]))
    for name, terms in (("reward_dist", timestep.reward), ("reward_ctrl", [-1.25, -0.0625])):
        np.testing.assert_array_equal(timestep.env_info[name], terms)
        np.testing.assert_array_equal(first.env_info[name], np.zeros(2, np.float32))


def test_a_wrapper_of_gymnasium_may_weight_the_terms():
    class Weighted(gymnasium.Wrapper):
        def step(self, action):
            observation, _, terminated, truncated, info = self.env.step(action)
            return observation, 2 * info["reward_dist"] + 3 * info["reward_ctrl"], terminated, truncated, info

    env = Weighted(to_gymnasium(ID))
    observation, _ = env.reset(seed=0)
    observation, reward, *_ = env.step(np.float32([0.5, -1.0]))
    (cosines, sines, goal) = observation[:2], observation[2:4], observation[6:]
    distance = np.exp(-((cosines.sum() - goal[0]) ** 2) - (sines.sum() - goal[1]) ** 2)
    np.testing.assert_allclose(reward, 2 * distance - 3 * 1.25, rtol=1e-5)


def test_make_clips_torques_to_the_space():
    env = jaxenv.make(ID, num_envs=3, autoreset=None)

    @jax.jit
    def after(env, key, action):
        state, _ = env.reset(key)
        return env.step(state, action)[1].observation

    shown = jax.device_get([after(env, jax.random.key(0), np.full((3, 2), a, np.float32)) for a in (1, 50)])
    np.testing.assert_array_equal(*shown)


def test_initial_angles_rates_and_goals_are_uniform_in_their_ranges():
    task = gymnax_rollouts.starts(gymnax_rollouts.bare(ID))
    for values, reach in ((task.angles, np.pi), (task.rates, 1), (task.goal, 2)):
        for column in values:
            assert_uniform(column, -reach, reach)
    columns = np.stack([*task.angles, *task.rates, *task.goal])
    assert np.abs(np.corrcoef(columns) - np.eye(6)).max() < 5 / np.sqrt(columns.shape[1])


def test_time_limit_and_spaces_equal_those_of_gymnax():
    env, ours = gymnax_rollouts.peer(ID), gymnax_rollouts.bare(ID)
    params = env.default_params
    assert jaxenv.spec(ID).max_episode_steps == params.max_steps_in_episode == STEPS
    action = env.action_space(params)
    np.testing.assert_array_equal(ours.action_spec().minimum, action.low)
    np.testing.assert_array_equal(ours.action_spec().maximum, action.high)
    assert ours.observation_spec().shape == env.observation_space(params).shape


def test_invalid_options_raise():
    with pytest.raises(ValueError, match=r"Reacher-misc: num_joints .*got 0"):
        gymnax_rollouts.bare(ID, num_joints=0)
    with pytest.raises(ValueError, match=r"Reacher-misc: dt .*got 0.0"):
        gymnax_rollouts.bare(ID, dt=0.0)


def test_in_the_picture_the_tip_covers_a_goal_that_it_has_reached():
    one, other, goal_x, goal_y = lanes([0, 0], [np.pi / 2, 0], [1, 1], [1, 1])
    reached, missed = picture(Reacher(), State((other, one), (one, one), (goal_x, goal_y)), 2)
    np.testing.assert_allclose(centre(reached, ORANGE), centre(missed, GREEN), atol=0.02)
    assert shows(reached, GREEN).sum() < shows(missed, GREEN).sum()
