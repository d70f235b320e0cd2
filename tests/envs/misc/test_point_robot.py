"""PointRobot compared with a plain implementation of the papers' rules, and its ``compat="gymnax"`` with gymnax's.

The authors' environments are short classes inside their training code. gymnax is a cross-check: it takes the reward
from the position before the step, and moves an agent that has reached the goal to a new start.
"""

import numpy as np
import pytest

import jaxenv
from jaxenv.canvas import GREEN, ORANGE
from jaxenv.envs.misc.point_robot import Params, PointRobot, State
from tests.envs.classic_control.reference import assert_uniform
from tests.envs.misc import gymnax_rollouts
from tests.envs.misc.gymnax_draws import LANES, follow_peer, spaces
from tests.parity import certify
from tests.pictures import centre, lanes, picture, shows

ID = "PointRobot-misc"
STEPS = 100
# Rows whose distance is closer to the radius than this are not compared, because float32 does not resolve the side.
MARGIN = 1e-4


def drawn(reach=1.0):
    """Random agents and goals, some at the goal or at its edge, late times, and actions outside the space."""
    rng = np.random.default_rng(0)
    position, goal = rng.uniform(-2, 2, (2, LANES, 2))
    angle = rng.uniform(0, 2 * np.pi, 400)
    distance = rng.choice([0, 0.1, 0.19, 0.21, 0.3], 400)
    position[:400] = goal[:400] + distance[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    last_action = rng.uniform(-0.1, 0.1, (LANES, 2))
    rest = (last_action, rng.uniform(-1, 1, LANES))
    x, y, goal_x, goal_y, *rest = (c.astype(np.float32) for c in (*position.T, *goal.T, *rest))
    actions = rng.uniform(-reach, reach, (STEPS, LANES, 2)).astype(np.float32)
    actions[0, :200] = 0
    time = rng.integers(0, 200, LANES).astype(np.int32)
    time[500:] = 0
    return State(x, y, goal_x, goal_y, *rest, time), actions


def by_the_rules(state, actions, max_force=0.1, dense_reward=False, normalize_time=True, goal_radius=0.2, t_max=100.0):
    """The papers' rules in float64: observations, rewards and distances to the goal, ``[T, B, ...]``."""
    position = np.stack([state.x, state.y], axis=-1).astype(float)
    goal = np.stack([state.goal_x, state.goal_y], axis=-1).astype(float)
    rows = []
    for t, action in enumerate(actions.astype(float), start=1):
        action = np.clip(action, -max_force, max_force)
        position = position + action
        distance = np.linalg.norm(position - goal, axis=-1)
        reward = -distance if dense_reward else (distance <= goal_radius).astype(float)
        time = state.time + t
        time = -1 + 2 * time / t_max if normalize_time else time
        columns = (position, reward[:, None], action, time[:, None])
        rows.append((np.concatenate(columns, axis=-1), reward, distance))
    return [np.stack(column) for column in zip(*rows, strict=True)]


# Positions reach 30 with steps of 0.3, where float32 has a spacing of 2e-6, and 100 steps accumulate 100 roundings.
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"max_force": 0.3, "dense_reward": True, "normalize_time": False},
        {"goal_radius": 0.5, "t_max": 40.0},
    ],
    ids=["defaults", "dense", "wide"],
)
def test_one_step_and_whole_episodes_follow_the_rules(options):
    start, actions = drawn(reach=0.4)
    observation, reward, distance = by_the_rules(start, actions, **options)
    _, shown, paid, terminated = gymnax_rollouts.follow(gymnax_rollouts.bare(ID, LANES, **options), start, actions)
    assert not terminated.any()
    decided = np.abs(distance - options.get("goal_radius", 0.2)) > MARGIN
    assert decided.mean() > 0.99
    assert np.mean(distance[0] <= options.get("goal_radius", 0.2)) > 0.05
    errors = np.max(np.abs(shown - observation), axis=-1) * decided
    assert errors[0].max() <= 1e-5
    assert errors.max() <= 1e-4
    assert np.max(np.abs(paid - reward) * decided) <= 1e-4


def test_compat_gymnax_equals_gymnax_in_one_step_and_in_whole_episodes():
    # With center_init the task is deterministic.
    start, actions = drawn(reach=0.1)
    fields = {
        "last_action": start.last_action,
        "last_reward": start.last_reward,
        "pos": np.stack([start.x, start.y], axis=-1),
        "goal": np.stack([start.goal_x, start.goal_y], axis=-1),
        "goals_reached": np.zeros(LANES, np.int32),
        "time": start.time.astype(np.float32),
    }
    _, theirs, observation, reward, _ = follow_peer(ID, fields, actions, nothing, center_init=True)
    env = gymnax_rollouts.bare(ID, LANES, center_init=True, compat="gymnax")
    _, shown, paid, _ = gymnax_rollouts.follow(env, start, actions)
    before = np.concatenate([fields["pos"][None], theirs.pos[:-1]])
    close = np.abs(np.linalg.norm(before - fields["goal"][None], axis=-1) - 0.2) < MARGIN
    compared = ~np.logical_or.accumulate(close, axis=0)
    assert compared.mean() > 0.95
    assert (reward[0] == 1).sum() > 100
    assert (theirs.goals_reached[-1] > 1).sum() > 10
    errors = np.max(np.abs(shown - observation), axis=-1) * compared
    assert errors[0].max() <= 1e-6
    assert errors.max() <= 1e-5
    np.testing.assert_array_equal(paid[compared], reward[compared])
    whole = np.count_nonzero(compared[-1] & (start.time == 0))
    certify(ID, "gymnax", states=np.count_nonzero(compared[0]), tolerance=1e-5, error=errors[0].max())
    certify(ID, "gymnax", episodes=whole, steps=whole * STEPS, tolerance=1e-5, error=errors.max())


def test_a_nan_position_is_not_at_the_goal():
    start, actions = drawn()
    actions[0] = np.nan
    _, shown, paid, _ = gymnax_rollouts.follow(gymnax_rollouts.bare(ID, LANES), start, actions)
    assert np.isnan(shown[..., :2]).all()
    assert not paid.any()


def nothing(key, params):
    return ()


def radius_and_angle(x, y):
    return np.hypot(x, y), np.arctan2(y, x)


def assert_within_the_half_circle(x, y):
    radius, angle = radius_and_angle(x, y)
    assert_uniform(radius, 0, 1.5)
    assert_uniform(angle, 0, np.pi)
    assert abs(np.corrcoef(radius, angle)[0, 1]) < 5 / np.sqrt(len(x))


def test_goals_are_uniform_on_the_half_circle_and_starts_within_it():
    found = gymnax_rollouts.starts(gymnax_rollouts.bare(ID, circle_radius=1.5), 20_000)
    radius, angle = radius_and_angle(found.goal_x, found.goal_y)
    np.testing.assert_allclose(radius, 1.5, rtol=1e-6)
    assert_uniform(angle, 0, np.pi)
    assert_within_the_half_circle(found.x, found.y)
    start = radius_and_angle(found.x, found.y)
    assert np.abs(np.corrcoef([angle, *start])[0, 1:]).max() < 5 / np.sqrt(20_000)


def test_with_center_init_every_episode_starts_at_the_origin():
    found = gymnax_rollouts.starts(gymnax_rollouts.bare(ID, center_init=True), 1000)
    for zeros in (found.x, found.y, found.last_action, found.last_reward):
        assert not zeros.any()
    assert_uniform(np.arctan2(found.goal_y, found.goal_x), 0, np.pi)


@pytest.mark.parametrize("options", [{"respawn": True}, {"compat": "gymnax", "dense_reward": True}])
def test_respawn_moves_an_agent_at_the_goal_to_a_random_start(options):
    start, actions = drawn()
    env = gymnax_rollouts.bare(ID, LANES, circle_radius=1.5, goal_radius=10.0, **options)  # reached at every step
    states, _, paid, _ = gymnax_rollouts.follow(env, start, actions)
    if "compat" in options:  # the reward is that of the position before the step
        x, y = (np.concatenate([a[None], b[:-1]]) for a, b in ((start.x, states.x), (start.y, states.y)))
        np.testing.assert_allclose(paid, -np.hypot(x - start.goal_x, y - start.goal_y), atol=1e-5)
    else:
        assert np.all(paid == 1)
    assert_within_the_half_circle(states.x.reshape(-1), states.y.reshape(-1))


def test_specs_have_the_shapes_of_gymnaxs_spaces_and_correct_bounds():
    shape, dtype, _, (low, high), limit = spaces(ID)
    env = gymnax_rollouts.bare(ID)
    spec, action = env.observation_spec(), env.action_spec()
    assert (spec.shape, spec.dtype) == (shape, dtype)
    np.testing.assert_allclose([action.minimum, action.maximum], [[low] * 2, [high] * 2])
    assert jaxenv.spec(ID).max_episode_steps == limit
    assert gymnax_rollouts.bare(ID, dense_reward=True).observation_spec().minimum[2] == -np.inf


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_force": 0.0}, r"PointRobot-misc: max_force .*got 0.0"),
        ({"max_force": np.array([0.1, 0.2])}, r"PointRobot-misc: max_force .*got \(0.1, 0.2\)"),
        ({"circle_radius": -1.0}, r"PointRobot-misc: circle_radius .*got -1.0"),
        ({"goal_radius": -1.0}, r"PointRobot-misc: goal_radius .*got -1.0"),
        ({"compat": "gym"}, r"PointRobot-misc: compat .*got 'gym'"),
        ({"t_max": -1.0}, r"PointRobot-misc: t_max .*got -1.0"),
    ],
)
def test_invalid_options_raise(options, message):
    with pytest.raises(ValueError, match=message):
        gymnax_rollouts.bare(ID, **options)


def pictures(x, y, goal_x, goal_y, **params):
    x, y, goal_x, goal_y, zero = lanes(x, y, goal_x, goal_y, np.zeros(len(x)))
    state = State(x, y, goal_x, goal_y, np.zeros((len(x), 2), np.float32), zero, np.zeros(len(x), np.int32))
    return picture(PointRobot(params=Params(**params)), state, len(x))


def test_in_the_picture_an_agent_outside_of_it_is_a_ring_at_the_edge():
    inside, outside = pictures([-1.0, -9.0], [0.5, 0.5], [1, 1], [0, 0])
    assert abs(centre(inside, ORANGE)[0] - 0.5 / 3) < 0.02
    column, row = centre(outside, ORANGE)
    assert column < 0.05
    assert abs(row - 0.5) < 0.02
    assert shows(outside, ORANGE).sum() < 0.8 * shows(inside, ORANGE).sum()


def test_the_picture_shows_the_whole_half_circle_of_each_lane():
    places = [
        centre(image, GREEN)[0] for image in pictures([0, 0], [0, 0], [1, 3], [0, 0], circle_radius=np.float32([1, 3]))
    ]
    np.testing.assert_allclose(places, 2.5 / 3, atol=0.02)
