"""What ``make_amaze.py`` recorded of jaxued and minimax, and starts of episodes in given levels."""

import functools
import pathlib

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv.core.timestep import TaskState
from jaxenv.envs.grid.amaze import AMaze
from jaxenv.random import Clock
from tests.draws import lanes

ID = "AMaze-13x13-v0"
WALL, EMPTY, GOAL = (2, 5, 0), (1, 0, 0), (8, 1, 0)


@functools.cache
def recorded():
    with np.load(pathlib.Path(__file__).parent / "amaze.npz") as data:
        data = dict(data)
    assert (str(data["jaxued"]), str(data["minimax"])) == ("0.0.2", "0.2.0")
    return data


def level_of(prefix):
    """The recorded levels of a prefix."""
    names = ("wall_map", "goal_pos", "agent_pos", "agent_dir")
    fields = [recorded()[f"{prefix}_{name}"] for name in names]
    return AMaze.Level(*(x if x.dtype == bool else x.astype(np.int32) for x in fields))


@jax.jit
def begin(env, level):
    """The state of the task at the start of an episode in each level."""
    task = env.initial(lanes(len(level.agent_dir)), level)
    word, number = jnp.zeros_like(task.step, jnp.uint32), task.step
    return TaskState(Clock((word, word), number, number, number), task)


def expected_view(level, lane):
    """The image of one lane, from a padded map that is turned, as in jaxued."""
    codes = np.where(level.wall_map[lane][..., None], np.array(WALL), np.array(EMPTY))
    codes[tuple(level.goal_pos[lane][::-1])] = GOAL
    padded = np.full((len(codes) + 8, len(codes) + 8, 3), WALL)
    padded[4:-4, 4:-4] = codes
    (x, y), direction = level.agent_pos[lane], level.agent_dir[lane]
    left, top = x + (4, 2, 0, 2)[direction], y + (2, 4, 2, 0)[direction]
    return np.rot90(padded[top : top + 5, left : left + 5], direction + 1).swapaxes(0, 1)
