"""The editor of mazes compared with jaxued's, as recorded by ``make_amaze_editor.py``."""

import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv.envs.grid.amaze import AMaze
from jaxenv.testing import check_env


def recorded():
    with np.load(pathlib.Path(__file__).parent / "amaze_editor.npz") as data:
        data = dict(data)
    assert str(data["jaxued"]) == "0.0.2"
    return data


def built(env, actions, key=jax.random.key(0)):
    """The rows ``[T + 1, B]`` of one episode and its last state."""
    start = env.reset(key)

    def one(state, action):
        state, row = env.step(state, action)
        return state, row

    state, rows = jax.lax.scan(one, start[0], actions)
    return jax.device_get((jax.tree.map(lambda x, y: jnp.concatenate([x[None], y]), start[1], rows), state))


def test_whole_episodes_equal_jaxued():
    data = recorded()
    actions = data["actions"].astype(np.int32)
    env = AMaze(num_envs=actions.shape[1]).editor(len(actions))
    rows, state = built(env, actions)
    np.testing.assert_array_equal(np.round(rows.observation["image"] * 10), data["images"])
    for name in ("wall_map", "goal_pos", "agent_pos", "agent_dir"):
        np.testing.assert_array_equal(getattr(state.task.level, name), data[name])
    assert rows.terminated.sum(axis=1).tolist() == [0] * 50 + [24]
    assert not rows.reward.any()
    np.testing.assert_array_equal(rows.observation["step"], np.arange(51)[:, None] * np.ones(24))


def test_every_episode_builds_a_level_of_the_maze_also_with_the_agent_on_the_goal():
    maze = AMaze(size=3, num_walls=2, num_envs=600)
    env = maze.editor(8)
    actions = np.random.default_rng(0).integers(0, 9, (8, 600)).astype(np.int32)
    actions[2, :300] = actions[0, :300]
    level = built(env, actions)[1].task.level
    maze.with_level(level).reset(jax.random.key(0))  # raises for a level that the maze refuses
    cell = level.agent_pos[:300] @ [1, 3]
    shift = (cell - actions[0, :300]) % 9
    assert (np.bincount(shift, minlength=9)[1:] > 15).all()  # uniform over the eight other cells


def test_the_noise_is_redrawn_at_every_step_in_every_lane():
    env = AMaze(num_envs=50).editor(5)
    noise = built(env, np.zeros((5, 50), np.int32))[0].observation["noise"]
    assert len(np.unique(noise)) == noise.size == 6 * 50 * 16
    assert abs(noise.mean() - 0.5) < 0.02


def test_an_editor_has_the_properties_of_environments():
    properties = ["rows_match_specs", "lane_independent", "within_specs", "episode_grammar", "no_word_reused"]
    check_env(AMaze(size=5, num_walls=3).editor(6), properties=properties).raise_if_failed()


def test_too_few_steps_and_tasks_without_an_editor_are_refused():
    with pytest.raises(ValueError, match=r"AMazeEditor: num_steps .*got 2"):
        AMaze().editor(2)
    with pytest.raises(ValueError, match="FrozenLake-v1 has no editor"):
        jaxenv.make("FrozenLake-v1").unwrapped.editor(9)
