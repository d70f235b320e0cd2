"""AMaze compared with jaxued and minimax, as recorded by ``make_amaze.py``.

Every number is compared exactly, but for rewards: both sides round three times, to float32.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import tree
from jaxenv.envs.grid import amaze
from jaxenv.envs.grid.amaze import AMaze
from tests.draws import lanes
from tests.envs.grid.amaze_reference import ID, begin, expected_view, level_of, recorded
from tests.errors import like
from tests.parity import certify
from tests.pictures import rendered

ORIGINALS = ("jaxued 0.0.2", "minimax 0.2.0")


@jax.jit
def step(env, state, action):
    return env.step(state, action)[1]


@jax.jit
def play(env, start, limit, actions):
    """Rows ``[T, B]`` of episodes that restart in their level at the goal and after ``limit`` steps."""

    def one(state, action):
        state, row = env.step(state, action)
        ended = row.terminated | (state.clock.step >= limit)
        return tree.where(ended, start, state), (row, ended)

    return jax.lax.scan(one, start, actions)[1]


def assert_rows_equal(row, data, prefix):
    """Compares rows with recorded ones; returns the largest error of a reward."""
    np.testing.assert_array_equal(row.observation["image"], data[f"{prefix}_image"])
    np.testing.assert_array_equal(row.observation["direction"], data[f"{prefix}_direction"])
    np.testing.assert_array_equal(row.terminated, data[f"{prefix}_reward"] > 0)
    error = np.abs(row.reward - data[f"{prefix}_reward"]).max()
    assert error <= 1e-6
    return error


# --- steps -----------------------------------------------------------------------------------------------------------


def test_one_step_from_every_pose_equals_both_libraries():
    data, level, env = recorded(), level_of("pose"), AMaze()
    env.check_level(level)
    row = jax.device_get(step(env, begin(env, level), data["pose_action"].astype(np.int32)))
    error = assert_rows_equal(row, data, "pose")
    np.testing.assert_array_equal(row.terminated, data["pose_done"])
    for original in ORIGINALS:
        certify(ID, original, states=len(level.agent_dir), tolerance=1e-6, error=error)


def test_whole_episodes_equal_both_libraries():
    data, level, env = recorded(), level_of("level"), AMaze()
    start = begin(env, level)
    first = jax.device_get(jax.jit(lambda env, state: env.observe(state))(env, start.task))
    np.testing.assert_array_equal(first["image"], data["first_image"])
    np.testing.assert_array_equal(first["direction"], data["first_direction"])
    row, ended = jax.device_get(play(env, start, np.int32(250), data["actions"].astype(np.int32)))
    error = assert_rows_equal(row, data, "step")
    np.testing.assert_array_equal(ended, data["step_done"])
    assert row.terminated.sum() > 150
    # The steps after the last end of a lane belong to no whole episode.
    whole = np.flip(np.logical_or.accumulate(np.flip(ended, axis=0), axis=0), axis=0)
    for original in ORIGINALS:
        certify(ID, original, episodes=ended.sum(), steps=whole.sum(), tolerance=1e-6, error=error)


def test_the_registered_limit_and_options_are_those_of_the_recorded_episodes():
    env = jaxenv.make(ID, 3)
    assert env.unwrapped.time_limit == jaxenv.spec(ID).max_episode_steps == 250
    assert env.unwrapped.num_walls == 60


def test_the_time_limit_truncates_and_the_reward_follows_max_steps_and_time_penalty():
    level = amaze.parse_levels([">.G"] * 3)
    env = AMaze(num_envs=3).with_params(max_steps=np.array([250, 8, 8], np.int32), time_penalty=0.5)
    row, _ = play(
        env, begin(env, level), np.int32(250), np.array([[6], [2], [2]], np.int32) * np.ones((1, 3), np.int32)
    )
    np.testing.assert_allclose(row.reward[2], [1 - 0.5 * 3 / 250, 1 - 0.5 * 3 / 8, 1 - 0.5 * 3 / 8], rtol=1e-6)
    assert row.terminated[2].all()


def test_max_steps_is_a_limit_per_lane():
    env = jaxenv.make(ID, 2, max_steps=np.array([2, 3], np.int32), autoreset=None)
    state, _ = env.reset(jax.random.key(0))
    truncated = []
    for _ in range(3):
        state, row = env.step(state, np.zeros(2, np.int32))
        truncated.append(np.asarray(row.truncated).tolist())
    assert truncated[:2] == [[False, False], [True, False]]
    assert truncated[2][1]


# --- the view --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [2, 4, 12, 13, 19, 24])
def test_mazes_of_other_sizes_are_seen_as_in_a_padded_map(size):
    env = AMaze(size=size, num_walls=size * size // 3, num_envs=60)
    level = jax.device_get(jax.jit(lambda env: env.sample_level(lanes(60)))(env))
    env.check_level(level)
    shown = jax.device_get(jax.jit(lambda env, state: env.observe(state))(env, begin(env, level).task))
    np.testing.assert_array_equal(shown["image"], [expected_view(level, lane) for lane in range(60)])
    # All agents walk against walls and edges without passing them.
    actions = np.random.default_rng(size).integers(0, 3, (40, 60)).astype(np.int32)
    visited = jax.device_get(walked(env, begin(env, level), actions))
    inside = (visited >= 0) & (visited < size)
    assert inside.all()
    assert not level.wall_map[np.arange(60)[None], visited[..., 1], visited[..., 0]].any()


@jax.jit
def walked(env, state, actions):
    def one(state, action):
        state, _ = env.step(state, action)
        return state, jnp.stack([state.task.agent.x, state.task.agent.y], axis=-1)

    return jax.lax.scan(one, state, actions)[1]


def test_normalized_images_are_divided_by_10_and_stay_in_the_spec():
    level = level_of("level")
    plain, scaled = AMaze(), AMaze(normalize_obs=True)
    images = [jax.jit(lambda env: env.observe(begin(env, level).task)["image"])(env) for env in (plain, scaled)]
    np.testing.assert_array_equal(images[1], np.asarray(images[0]).astype(np.float32) / np.float32(10))
    spec = scaled.observation_spec()["image"]
    assert (spec.dtype, float(np.max(spec.maximum))) == (np.float32, pytest.approx(0.8))
    assert np.max(images[1]) <= np.max(spec.maximum)


# --- options and the picture ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 25}, "AMaze-13x13-v0: size ...got 25"),
        ({"size": 1}, "AMaze-13x13-v0: size ...got 1"),
        ({"num_walls": 168}, "AMaze-13x13-v0: num_walls ...got 168"),
        ({"max_steps": 0}, "AMaze-13x13-v0: max_steps ...got 0"),
    ],
)
def test_invalid_options_raise(options, message):
    with pytest.raises(ValueError, match=like(message)):
        jaxenv.make(ID, 1, **options)


def test_the_picture_shows_walls_the_goal_and_the_agent():
    env = AMaze()
    level = jax.tree.map(lambda x: x[:1], amaze.held_out()[1])
    image = rendered(env, begin(env, level), 13 * 8).reshape(13, 8, 13, 8, 3).astype(int)
    red, green, _ = np.moveaxis(image[:, 4, :, 6], -1, 0)  # to the right of the middle of each cell
    goal, agent = green > red + 40, red > green + 40
    assert np.argwhere(goal).tolist() == [level.goal_pos[0, ::-1].tolist()]
    assert np.argwhere(agent).tolist() == [level.agent_pos[0, ::-1].tolist()]
    walls = (red > 95) & ~goal & ~agent
    np.testing.assert_array_equal(walls, level.wall_map[0])
