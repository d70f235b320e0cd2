"""Parity with MiniGrid's levels with objects, as recorded by ``make_golden.py``.

As in the reference of the other levels, everything except the reward is compared exactly. Our states are translated to
MiniGrid's grids for the comparison, because the order of objects is ours.
"""

import functools
import pathlib

import jax
import numpy as np

from jaxenv.core.timestep import TaskState
from jaxenv.envs.grid._mission import encode
from jaxenv.envs.grid._objects import GONE, Objects
from jaxenv.envs.grid._view import Pose
from jaxenv.envs.grid.grid_world import CARRIED
from jaxenv.envs.grid.object_world import State
from jaxenv.random import Clock
from tests.envs.grid import reference
from tests.envs.grid.reference import advance, cell_set, plane, replay

EMPTY, WALL = 1, 2


@functools.cache
def golden(name):
    """Returns the arrays of one file."""
    with np.load(pathlib.Path(__file__).parent / f"{name}.npz") as data:
        data = dict(data)
    assert str(data["version"]) == "3.2.0"
    return data


def inject(env, grid, agent, carrying=0, step=0, target=None, mission=None, hidden=0):
    """Translates recorded states to ours.

    Args:
        env: our environment.
        grid: MiniGrid's encoding, ``[B, W, H, 3]``, columns first.
        agent: x, y and direction, ``[B, 3]``.
        carrying: the code of the object that the agent carries or 0, ``()`` or ``[B]``.
        step: steps since the start of the episode, ``()`` or ``[B]``.
        target: as in ``object_world.State``, ``[B, ...]``.
        mission: texts, ``[B]``; the mission is left empty without them.
        hidden: 1 + the colour of the key in the box in each cell, 0 for none, ``()`` or ``[B, W, H]``.
    """
    lanes = len(grid)
    shape = jax.eval_shape(env.reset, jax.random.key(0))[0].task
    count, slots = shape.floor.rows.shape[1], shape.objects.cell.shape[1]
    square = np.full((lanes, count, count, 3), WALL, np.uint8)
    square[:, : grid.shape[1], : grid.shape[2]] = grid
    inside = np.zeros((lanes, count, count), np.int32)
    inside[:, : grid.shape[1], : grid.shape[2]] = hidden
    cells, codes = np.full((lanes, slots), GONE, np.int32), np.zeros((lanes, slots), np.uint32)
    doors = env.unwrapped.num_doors
    for lane in range(lanes):
        x, y = np.nonzero(square[lane, ..., 0] > WALL)
        kind, colour, state = square[lane, x, y].astype(np.int32).T
        code = kind + 256 * colour + 65536 * state + 2**24 * inside[lane, x, y]
        found = sorted(zip(code, x + 32 * y, strict=True), key=lambda f: f[0] % 65536)
        held = np.broadcast_to(carrying, lanes)[lane]
        things = [f for f in found if f[0] % 256 == 4], [f for f in found if f[0] % 256 != 4]
        assert len(things[0]) <= doors or not doors
        for slot, (code, number) in enumerate(things[0]):
            codes[lane, slot], cells[lane, slot] = code, number
        for slot, (code, number) in enumerate([*things[1], *([(held, CARRIED)] if held else [])], doors):
            codes[lane, slot], cells[lane, slot] = code, number
    tokens = None if shape.mission is None else np.zeros((lanes, 20), np.uint8)
    if tokens is not None and mission is not None:
        tokens = np.stack([encode(str(text)) for text in mission])
    task = State(
        floor=cell_set(square[..., 0] != WALL, count),
        objects=Objects(cells, codes),
        target=None if shape.target is None else target.astype(np.int32).reshape(lanes, *shape.target.shape[1:]),
        mission=tokens,
        agent=Pose(*np.ascontiguousarray(agent.T.astype(np.int32))),
        step=np.broadcast_to(step, lanes).astype(np.int32),
    )
    word, number = np.zeros(lanes, np.uint32), np.arange(lanes, dtype=np.int32)
    return TaskState(Clock((word, word), number, np.zeros_like(number), task.step), task)


def grids(task, columns, rows):
    """Returns our states as MiniGrid's.

    Returns:
        The grids, ``[B, W, H, 3]``; the keys in boxes, as in `inject`; the codes of what the agents carry, ``[B]``.
    """
    floor = plane(task.floor)
    grid = np.where(floor[..., None], [EMPTY, 0, 0], [WALL, 5, 0]).astype(np.uint8)
    cells, codes = np.asarray(task.objects.cell), np.asarray(task.objects.code)
    lane, slot = np.nonzero(cells >= 0)
    number, code = cells[lane, slot], codes[lane, slot]
    assert len(np.unique(1024 * lane + number)) == len(lane), "two objects in one cell"
    assert np.all(floor[lane, number & 31, number >> 5]), "an object in a wall"
    grid[lane, number & 31, number >> 5] = np.stack([code & 255, code >> 8 & 255, code >> 16 & 255], axis=-1)
    hidden = np.zeros(floor.shape, np.uint8)
    hidden[lane, number & 31, number >> 5] = code >> 24
    held = cells == CARRIED
    assert np.all(np.sum(held, axis=1) <= 1)
    return grid[:, :columns, :rows], hidden[:, :columns, :rows], np.sum(np.where(held, codes, 0), axis=1)


def assert_steps_match(env, data):
    """Asserts that one step from each state matches the file, and returns the largest error of a reward."""
    given = (data[name] for name in ("grid", "agent", "carrying", "step", "target"))
    state = inject(env, *given, hidden=data.get("hidden", 0))
    after, row = jax.device_get(advance(env, state, data["action"].astype(np.int32)))
    grid, hidden, carrying = grids(after.task, *data["grid"].shape[1:3])
    agent = np.stack([after.task.agent.x, after.task.agent.y, after.task.agent.direction], axis=1)
    late = data["after_step"] >= data["max_steps"]
    for name, ours, theirs in (
        ("grid", grid, data["after_grid"]),
        ("hidden", hidden, data.get("after_hidden", np.zeros_like(hidden))),
        ("carrying", carrying, data["after_carrying"]),
        ("agent", agent, data["after_agent"]),
        ("step", after.task.step, data["after_step"]),
        ("image", row.observation["image"], data["image"]),
        ("direction", row.observation["direction"], data["after_agent"][:, 2]),
        ("terminated", row.terminated, data["terminated"]),
        ("truncated", row.truncated, late & ~data["terminated"]),
    ):
        reference.assert_equal(name, ours, theirs, data)
    return reference.reward_error(row.reward, data["reward"])


def assert_episodes_match(env, data):
    """Asserts that ours, given the start and the actions of each episode, has the same rows to its end.

    Returns:
        The largest error of a reward.
    """
    given = (data[f"episode_{name}"] for name in ("target", "mission"))
    hidden = data.get("episode_hidden", 0)
    state = inject(env, data["episode_grid"], data["episode_agent"], 0, 0, *given, hidden=hidden)
    first = jax.jit(lambda env, task: env.observe(task))(env.unwrapped, state.task)
    np.testing.assert_array_equal(first["image"], data["episode_first"])
    rows = jax.device_get(replay(env, state, data["episode_action"].T.astype(np.int32)))
    return assert_rows_match(env, rows, data)


def assert_rows_match(env, rows, data):
    """Asserts that a trajectory ``[T, B]`` of whole episodes is the recorded one."""
    error = reference.assert_rows_match(rows, data)
    if env.unwrapped.observe_mission:
        texts = [env.unwrapped.mission_text(tokens) for tokens in rows.observation["mission"][0]]
        assert texts == [str(text).replace(",", "") for text in data["episode_mission"]]
    return error
