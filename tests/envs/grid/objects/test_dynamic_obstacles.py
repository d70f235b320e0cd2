"""Parity of the levels whose balls move: whole episodes with MiniGrid's moves, and the moves themselves."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import random, tree
from jaxenv.envs.grid._objects import Objects
from jaxenv.envs.grid._view import Pose
from jaxenv.envs.grid.dynamic_obstacles import DynamicObstacles
from tests.envs.grid import reference as plain
from tests.envs.grid.objects import reference
from tests.envs.grid.objects.test_levels import OBSTACLES
from tests.parity import certify


class Recorded(DynamicObstacles):
    """The balls move to the cells in the last columns of the action."""

    def step_with(self, state, action, cells):
        moved = jnp.concatenate([state.objects.cell[:, :1], cells], axis=1)
        return self.walk(state, tree.rebuild(state, objects=Objects(moved, state.objects.code)), action)


@pytest.mark.parametrize("id", OBSTACLES)
def test_whole_episodes_match_minigrid_given_its_moves_of_the_balls(id):
    data = reference.golden(id)
    lanes = len(data["episode_length"])
    made = jaxenv.spec(id).make(lanes)
    options = {name: getattr(made, name) for name in ("max_size", "num_obstacles", "random_start")}
    env = Recorded(num_envs=lanes, **options)
    state = reference.inject(env, data["episode_grid"], data["episode_agent"])
    assert jaxenv.spec(id).max_episode_steps == data["max_steps"]

    @jax.jit
    def play(task, actions, obstacles):
        def step(task, given):
            out = env.step_with(task, *given)
            return out.state, (out.reward, out.terminated, env.observe(out.state))

        return jax.lax.scan(step, task, (actions, obstacles))[1]

    actions = data["episode_action"].T.astype(np.int32)
    obstacles = data["episode_obstacles"].swapaxes(0, 1).astype(np.int32)
    reward, terminated, observation = jax.device_get(play(state.task, actions, obstacles))
    played = np.arange(len(actions))[:, None] < data["episode_length"][None]
    for name, ours in (("image", observation["image"]), ("direction", observation["direction"])):
        np.testing.assert_array_equal(ours[played], data[f"episode_{name}"].swapaxes(0, 1)[played], err_msg=name)
    np.testing.assert_array_equal(terminated[played], data["episode_terminated"].T[played])
    error = np.max(np.abs(reward.astype(np.float64) - data["episode_reward"].T)[played])
    assert error <= plain.TOLERANCE
    assert np.any(data["episode_reward"] < 0)
    assert np.any(data["episode_reward"] > 0)
    certify(id, "minigrid 3.2.0", episodes=lanes, steps=int(np.sum(played)), tolerance=plain.TOLERANCE, error=error)


@functools.cache
def moves():
    """Returns where the two balls of one state move in 20,000 lanes: x and y each, ``[N, 2]``."""
    lanes = 20_000
    env = DynamicObstacles(num_envs=lanes, max_size=5, num_obstacles=2)
    state, _ = env.reset(jax.random.key(0))
    one = jnp.ones(lanes, jnp.int32)
    # Balls at (1, 2) and (2, 2), the agent at (1, 1), the goal at (3, 3).
    cells = jnp.stack([99 * one, (1 + 64) * one, (2 + 64) * one], axis=1)
    agent = Pose(one, one, 0 * one)
    task = tree.rebuild(state.task, objects=Objects(cells, state.task.objects.code), agent=agent)
    moved = jax.jit(env.move_obstacles)(task, random.stream(jax.random.split(jax.random.key(1), lanes)))
    return np.asarray(moved.objects.cell)[:, 1:]


def test_each_ball_moves_to_a_free_cell_next_to_it_with_equal_probability():
    """The second ball moves after the first one, and around it."""
    cells = moves()
    first = {2 + 32, 1 + 96, 2 + 96}  # (2, 1), (1, 3) and (2, 3)
    expected = {}
    for a in first:
        second = {1 + 64, 2 + 32, 3 + 32, 3 + 64, 1 + 96, 2 + 96} - {a}
        expected |= {(a, b): 1 / 3 / len(second) for b in second}
    found, counts = np.unique(cells, axis=0, return_counts=True)
    assert {tuple(c) for c in found.tolist()} == expected.keys()
    for cell, count in zip(found.tolist(), counts, strict=True):
        mean = len(cells) * expected[tuple(cell)]
        assert abs(count - mean) <= 4.5 * np.sqrt(mean), (cell, count, mean)


def test_a_ball_without_a_free_cell_stays():
    env = DynamicObstacles(num_envs=2, max_size=10, num_obstacles=4)
    state, _ = env.reset(jax.random.key(0))
    corner = np.array([[8 + 32 * 8, 1 + 32, 2 + 32, 1 + 64, 2 + 64]] * 2, np.int32)
    agent = Pose(*(np.array([n, n], np.int32) for n in (5, 5, 0)))
    task = tree.rebuild(state.task, objects=Objects(corner, state.task.objects.code), agent=agent)
    moved = env.move_obstacles(task, random.stream(jax.random.split(jax.random.key(1), 2)))
    assert np.asarray(moved.objects.cell)[:, 1].tolist() == [33, 33]


@pytest.mark.parametrize(
    ("x", "direction", "ball", "expected"),
    [
        (1, 0, 3 + 32, (0, False)),  # an empty cell
        (1, 0, 2 + 32, (-2.5, True)),  # a ball
        (1, 3, 3 + 32, (-2.5, True)),  # a wall
    ],
)
def test_moving_into_a_ball_or_a_wall_costs_the_reward_of_a_collision(x, direction, ball, expected):
    env = DynamicObstacles(num_envs=1, max_size=5, num_obstacles=1).with_params(collision_reward=-2.5)
    state, _ = env.reset(jax.random.key(0))
    cells = np.array([[99, ball]], np.int32)
    agent = Pose(*(np.array([n], np.int32) for n in (x, 1, direction)))
    task = tree.rebuild(state.task, objects=Objects(cells, state.task.objects.code), agent=agent)
    _, row = env.step(tree.rebuild(state, task=task), np.array([2], np.int32))
    assert (float(row.reward[0]), bool(row.terminated[0])) == expected
