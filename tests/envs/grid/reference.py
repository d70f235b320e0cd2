"""What MiniGrid does, as written down by ``make_golden.py``, and ours held to it.

The files hold grids as MiniGrid encodes them; here is the translation into our state. All but the reward is an integer
or a flag and compared exactly. The reward is 1 - 0.9 * step / max_steps, in float32 here: three roundings of numbers
of at most 2.5, each off by up to 1.2e-7.
"""

import functools
import pathlib

import jax
import numpy as np

from jaxenv.envs.grid.lines import Lines
from jaxenv.envs.grid.view import Pose
from jaxenv.envs.grid.world import CARRIED, Lock, State
from jaxenv.random import Clock
from jaxenv.task import TaskState

TOLERANCE = 1e-6
EMPTY, WALL, DOOR, KEY, GOAL, LAVA = 1, 2, 4, 5, 8, 9

# The environment is an argument, so that one compilation serves all its params.
advance = jax.jit(lambda env, state, action: env.step(state, action))
reset = jax.jit(lambda env, key: env.reset(key))


@jax.jit
def replay(env, state, actions):
    """Our rows ``[T, B]`` for actions ``[T, B]``."""
    return jax.lax.scan(env.step, state, actions)[1]


@functools.cache
def golden(name):
    """The arrays of one file."""
    with np.load(pathlib.Path(__file__).parent / f"{name}.npz") as data:
        data = dict(data)
    assert str(data["version"]) == "3.2.0"
    return data


def beside(files, lanes, prefix=""):
    """The arrays of several files, ``lanes`` rows of each, as one batch; smaller grids and shorter episodes padded."""
    other = () if prefix else ("episode_", "starts")
    names = [n for n in files[0] if np.ndim(files[0][n]) and n.startswith(prefix) and not n.startswith(other)]
    batch = {}
    for name in names:
        arrays = [file[name][:lanes] for file in files]
        shape = [lanes, *(max(sizes) for sizes in zip(*(a.shape[1:] for a in arrays), strict=True))]
        padded = []
        for array in arrays:
            # Beyond a grid is wall.
            wide = np.full(shape, WALL if name.endswith("grid") else 0, array.dtype)
            wide[tuple(slice(n) for n in array.shape)] = array
            padded.append(wide)
        batch[name] = np.concatenate(padded)
    return {**batch, "max_steps": np.concatenate([np.full(lanes, file["max_steps"]) for file in files])}


def inject(env, grid, agent, carrying=False, step=0):
    """A state of ours: grids ``[B, S, S, 3]`` column first, agents ``[B, 3]``, whether the key is carried, the step."""
    lanes = len(grid)
    kind = grid[..., 0]
    shape = jax.eval_shape(env.reset, jax.random.key(0))[0].task
    count = shape.floor.rows.shape[1]
    lock = None
    if shape.lock is not None:
        state = np.max(np.where(kind == DOOR, grid[..., 2], 0), axis=(1, 2))  # there is one door
        key = np.where(np.broadcast_to(carrying, lanes), CARRIED, _where(kind == KEY))
        lock = Lock(_where(kind == DOOR), state.astype(np.int32), key.astype(np.int32))
    task = State(
        floor=lines(kind != WALL, count),
        lava=None if shape.lava is None else lines(kind == LAVA, count),
        lock=lock,
        goal=_where(kind == GOAL),
        agent=Pose(*np.ascontiguousarray(agent.T.astype(np.int32))),
        step=np.broadcast_to(step, lanes).astype(np.int32),
    )
    word, number = np.zeros(lanes, np.uint32), np.arange(lanes, dtype=np.int32)
    return TaskState(Clock((word, word), number, np.zeros_like(number), task.step), task)


def lines(plane, count):
    """Lines of the cells of a plane, bool ``[B, S, S]``, column first."""
    size = plane.shape[1]
    padded = np.zeros((len(plane), count, count), bool)
    padded[:, :size, :size] = plane
    bit = np.uint32(1) << np.arange(count, dtype=np.uint32)
    rows, columns = (np.sum(p * bit[None, None], axis=2, dtype=np.uint32) for p in (padded.swapaxes(1, 2), padded))
    return Lines(rows, columns)


def cells(lines):
    """The plane of a set of cells: bool ``[B, N, N]``, column first."""
    columns = np.asarray(lines.columns)
    bits = np.arange(columns.shape[1], dtype=np.uint32)
    plane = (columns[:, :, None] >> bits[None, None]) & 1 == 1
    rows = (np.asarray(lines.rows)[:, :, None] >> bits[None, None]) & 1 == 1
    assert np.array_equal(plane, rows.swapaxes(1, 2)), "rows and columns are not the same cells"
    assert not np.any(columns >> np.uint32(columns.shape[1])), "a cell beyond the grid"
    return plane


def coordinates(where):
    """x and y of cells: ``[..., 2]``."""
    return np.stack([np.asarray(where) & 31, np.asarray(where) >> 5], axis=-1)


def assert_steps_match(env, data):
    """One step from each state of a file: state, observation, reward and both ends. Returns the largest error."""
    state = inject(env, data["grid"], data["agent"], data["carrying"], data["step"])
    after, row = jax.device_get(advance(env, state, data["action"].astype(np.int32)))
    expected = inject(env, data["after_grid"], data["after_agent"], data["after_carrying"], data["after_step"])
    names = [jax.tree_util.keystr(path, simple=True) for path, _ in jax.tree_util.tree_leaves_with_path(after.task)]
    for name, ours, theirs in zip(names, jax.tree.leaves(after.task), jax.tree.leaves(expected.task), strict=True):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape), name
        _assert_equal(name, ours, theirs, data)
    _assert_equal("image", row.observation["image"], data["image"], data)
    _assert_equal("direction", row.observation["direction"], data["after_agent"][:, 2], data)
    _assert_equal("terminated", row.terminated, data["terminated"], data)
    late = data["after_step"] >= data["max_steps"]
    _assert_equal("truncated", row.truncated, late & ~data["terminated"], data)
    return _reward_error(row.reward, data["reward"])


def assert_episodes_match(env, data):
    """Ours, started where the original started and given its actions alone, shows the same rows to the end."""
    actions = data["episode_action"].T.astype(np.int32)
    state = inject(env, data["episode_grid"], data["episode_agent"])
    rows = jax.device_get(replay(env, state, actions))
    played = np.arange(len(actions))[:, None] < data["episode_length"][None]
    terminated = data["episode_terminated"].T
    fields = {
        "image": (rows.observation["image"], data["episode_image"].swapaxes(0, 1)),
        "direction": (rows.observation["direction"], data["episode_direction"].T),
        "terminated": (rows.terminated, terminated),
        # Where both ends come together the original shows both, here termination wins.
        "truncated": (rows.truncated, data["episode_truncated"].T & ~terminated),
    }
    for name, (ours, theirs) in fields.items():
        np.testing.assert_array_equal(ours[played], theirs[played], err_msg=name)
    return _reward_error(rows.reward[played], data["episode_reward"].T[played])


def _reward_error(ours, theirs):
    error = np.max(np.abs(ours.astype(np.float64) - theirs))
    assert error <= TOLERANCE, f"a reward is off by {error}"
    return error


def _where(plane):
    """Our number of the one cell of each lane that is marked."""
    place = np.argmax(plane.reshape(len(plane), -1), axis=1)
    return (place // plane.shape[1] + 32 * (place % plane.shape[1])).astype(np.int32)


def _assert_equal(what, ours, theirs, data):
    wrong = np.flatnonzero(np.any((ours != theirs).reshape(len(ours), -1), axis=-1))
    if wrong.size:
        i = wrong[0]
        raise AssertionError(
            f"{what} differs in {wrong.size} of {len(ours)} states, first in {i}: {ours[i]} is not {theirs[i]}\n"
            f"by action {data['action'][i]} of agent {data['agent'][i]}, carrying {data['carrying'][i]}, in\n"
            f"{data['grid'][i, ..., 0].T}"
        )
