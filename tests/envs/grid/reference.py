"""Parity with MiniGrid, as recorded by ``make_golden.py``.

The files contain grids in MiniGrid's encoding; this module translates them to our state. Everything except the reward
is an integer or a flag and compared exactly. The reward, 1 - 0.9 * step / max_steps, is float32 here: three roundings
of numbers of at most 2.5, each with an error of up to 1.2e-7.
"""

import functools
import pathlib

import jax
import numpy as np

from jaxenv.core.timestep import TaskState
from jaxenv.envs.grid._cell_set import CellSet
from jaxenv.envs.grid._view import Pose
from jaxenv.envs.grid.grid_world import CARRIED, Lock, State
from jaxenv.random import Clock

TOLERANCE = 1e-6
EMPTY, WALL, DOOR, KEY, GOAL, LAVA = 1, 2, 4, 5, 8, 9

# The environment is an argument, so that one compilation covers all its params.
advance = jax.jit(lambda env, state, action: env.step(state, action))
reset = jax.jit(lambda env, key: env.reset(key))


@jax.jit
def replay(env, state, actions):
    """Returns our trajectory ``[T, B]`` for actions ``[T, B]``."""
    return jax.lax.scan(env.step, state, actions)[1]


@functools.cache
def golden(name):
    """Returns the arrays of one file."""
    with np.load(pathlib.Path(__file__).parent / f"{name}.npz") as data:
        data = dict(data)
    assert str(data["version"]) == "3.2.0"
    return data


def batched(files, lanes, prefix=""):
    """Concatenates the first ``lanes`` entries of several files; pads smaller grids and shorter episodes."""
    other = () if prefix else ("episode_", "starts", "counts_", "missions")
    names = [n for n in files[0] if np.ndim(files[0][n]) and n.startswith(prefix) and not n.startswith(other)]
    batch = {}
    for name in names:
        arrays = [file[name][:lanes] for file in files]
        shape = [lanes, *(max(sizes) for sizes in zip(*(a.shape[1:] for a in arrays), strict=True))]
        padded = []
        for array in arrays:
            # Cells beyond a grid are walls.
            wide = np.full(shape, WALL if name.endswith("grid") else 0, array.dtype)
            wide[tuple(slice(n) for n in array.shape)] = array
            padded.append(wide)
        batch[name] = np.concatenate(padded)
    return {**batch, "max_steps": np.concatenate([np.full(lanes, file["max_steps"]) for file in files])}


def inject(env, grid, agent, carrying=False, step=0):
    """Translates recorded states to ours.

    Args:
        env: our environment.
        grid: MiniGrid's encoding, ``[B, S, S, 3]``, columns first.
        agent: x, y and direction, ``[B, 3]``.
        carrying: whether the agent carries the key, ``()`` or ``[B]``.
        step: steps since the start of the episode, ``()`` or ``[B]``.
    """
    lanes = len(grid)
    kind = grid[..., 0]
    shape = jax.eval_shape(env.reset, jax.random.key(0))[0].task
    count = shape.floor.rows.shape[1]
    lock = None
    if shape.lock is not None:
        state = np.max(np.where(kind == DOOR, grid[..., 2], 0), axis=(1, 2))  # there is one door
        key = np.where(np.broadcast_to(carrying, lanes), CARRIED, _number_of(kind == KEY))
        lock = Lock(_number_of(kind == DOOR), state.astype(np.int32), key.astype(np.int32))
    task = State(
        floor=cell_set(kind != WALL, count),
        lava=None if shape.lava is None else cell_set(kind == LAVA, count),
        lock=lock,
        goal=_number_of(kind == GOAL),
        agent=Pose(*np.ascontiguousarray(agent.T.astype(np.int32))),
        step=np.broadcast_to(step, lanes).astype(np.int32),
    )
    word, number = np.zeros(lanes, np.uint32), np.arange(lanes, dtype=np.int32)
    return TaskState(Clock((word, word), number, np.zeros_like(number), task.step), task)


def cell_set(plane, count):
    """Returns the `CellSet` of a plane, bool ``[B, S, S]``, columns first."""
    size = plane.shape[1]
    padded = np.zeros((len(plane), count, count), bool)
    padded[:, :size, :size] = plane
    bit = np.uint32(1) << np.arange(count, dtype=np.uint32)
    rows, columns = (np.sum(p * bit[None, None], axis=2, dtype=np.uint32) for p in (padded.swapaxes(1, 2), padded))
    return CellSet(rows, columns)


def plane(cells):
    """Returns the plane of a `CellSet`, bool ``[B, N, N]``, columns first."""
    columns = np.asarray(cells.columns)
    bits = np.arange(columns.shape[1], dtype=np.uint32)
    marked = (columns[:, :, None] >> bits[None, None]) & 1 == 1
    rows = (np.asarray(cells.rows)[:, :, None] >> bits[None, None]) & 1 == 1
    assert np.array_equal(marked, rows.swapaxes(1, 2)), "rows and columns have different cells"
    assert not np.any(columns >> np.uint32(columns.shape[1])), "a cell outside the grid"
    return marked


def coordinates(number):
    """Returns x and y of cell numbers, ``[..., 2]``."""
    return np.stack([np.asarray(number) & 31, np.asarray(number) >> 5], axis=-1)


def assert_steps_match(env, data):
    """Asserts that one step from each state matches the file, and returns the largest error of a reward."""
    state = inject(env, data["grid"], data["agent"], data["carrying"], data["step"])
    after, row = jax.device_get(advance(env, state, data["action"].astype(np.int32)))
    expected = inject(env, data["after_grid"], data["after_agent"], data["after_carrying"], data["after_step"])
    names = [jax.tree_util.keystr(path, simple=True) for path, _ in jax.tree_util.tree_leaves_with_path(after.task)]
    for name, ours, theirs in zip(names, jax.tree.leaves(after.task), jax.tree.leaves(expected.task), strict=True):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape), name
        assert_equal(name, ours, theirs, data)
    assert_equal("image", row.observation["image"], data["image"], data)
    assert_equal("direction", row.observation["direction"], data["after_agent"][:, 2], data)
    assert_equal("terminated", row.terminated, data["terminated"], data)
    late = data["after_step"] >= data["max_steps"]
    assert_equal("truncated", row.truncated, late & ~data["terminated"], data)
    return reward_error(row.reward, data["reward"])


def assert_episodes_match(env, data):
    """Asserts that ours, given the start and the actions of each episode, has the same rows to its end.

    Returns:
        The largest error of a reward.
    """
    actions = data["episode_action"].T.astype(np.int32)
    state = inject(env, data["episode_grid"], data["episode_agent"])
    return assert_rows_match(jax.device_get(replay(env, state, actions)), data)


def assert_whole_grid_matches(env, state, data):
    """Asserts that the image of a state after a recorded step is the grid and the agent, as in ``FullyObsWrapper``."""
    image = jax.jit(lambda env, task: env.observe(task)["image"])(env, state.task)
    expected, lanes, (x, y, direction) = data["after_grid"].copy(), np.arange(len(image)), data["after_agent"].T
    expected[lanes, x, y] = np.stack([np.full_like(x, 10), np.zeros_like(x), direction], axis=1)
    np.testing.assert_array_equal(image, expected)
    spec = env.observation_spec()["image"]
    assert (spec.shape, spec.dtype) == (image.shape[1:], image.dtype)


def assert_rows_match(rows, data):
    """Asserts that a trajectory ``[T, B]`` of whole episodes is the recorded one.

    Returns:
        The largest error of a reward.
    """
    played = np.arange(len(rows.reward))[:, None] < data["episode_length"][None]
    terminated = data["episode_terminated"].T
    fields = {
        "image": (rows.observation["image"], data["episode_image"].swapaxes(0, 1)),
        "direction": (rows.observation["direction"], data["episode_direction"].T),
        "terminated": (rows.terminated, terminated),
        # If an episode terminates at the time limit, the original reports both ends and ours the termination.
        "truncated": (rows.truncated, data["episode_truncated"].T & ~terminated),
    }
    for name, (ours, theirs) in fields.items():
        np.testing.assert_array_equal(ours[played], theirs[played], err_msg=name)
    return reward_error(rows.reward[played], data["episode_reward"].T[played])


def reward_error(ours, theirs):
    error = np.max(np.abs(ours.astype(np.float64) - theirs))
    assert error <= TOLERANCE, f"a reward is off by {error}"
    return error


def _number_of(plane):
    """Returns the cell number of the one marked cell in each lane."""
    index = np.argmax(plane.reshape(len(plane), -1), axis=1)
    return (index // plane.shape[1] + 32 * (index % plane.shape[1])).astype(np.int32)


def assert_equal(what, ours, theirs, data):
    wrong = np.flatnonzero(np.any((ours != theirs).reshape(len(ours), -1), axis=-1))
    if wrong.size:
        i = wrong[0]
        raise AssertionError(
            f"{what} differs in {wrong.size} of {len(ours)} states, first in {i}: expected {theirs[i]}, got {ours[i]}\n"
            f"after action {data['action'][i]} of agent {data['agent'][i]}, carrying {data['carrying'][i]}, in\n"
            f"{data['grid'][i, ..., 0].T}"
        )
