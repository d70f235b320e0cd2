"""Find the way through a random maze, a new one in every episode.

Original to this library, with the rules and the observation of MiniGrid (grid_world.py). The tests search the mazes:
every two cells are connected by exactly one path (tests/envs/grid/test_maze.py).

Observation   see grid_world.py
Action        see grid_world.py; the last four have no effect
Reward        see grid_world.py
Starts        a random maze; agent and goal in two random cells at odd coordinates, the agent facing a random direction
Terminates    on the goal
Time limit    4 * size**2: 676 for 13 by 13 (registry)

Cells at odd coordinates are the rooms of the maze. A cell between two rooms is a passage or a wall. The passages are
the minimum spanning tree for independent uniform edge weights, the distribution of randomized Kruskal's and Prim's
algorithms. Every spanning tree has positive probability, but they are not uniform: trees with many short dead ends are
more likely. With ``loops`` above 0, each remaining wall is opened with that probability.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, tree
from jaxenv.envs.grid._cell_set import CellSet
from jaxenv.envs.grid._view import Pose
from jaxenv.envs.grid.grid_world import GridWorld, Params, State, cell, choice, other_choice

_NO_EDGE = np.uint32(2**32 - 1)  # weight of an edge that must not be chosen


@tree.struct
class MazeParams(Params):
    """Parameters of the task: scalars, or ``[B]`` for one value per lane."""

    loops: float = tree.leaf(default=0.0, low=0, high=1, doc="probability that a wall between two rooms is opened")


class Maze(GridWorld):
    """Mazes of odd size; see the module docstring."""

    params: MazeParams = MazeParams()
    max_size: int = tree.static(default=13)

    smallest = 5
    odd = True

    def initial(self, stream: random.Stream) -> State:
        size = self.sizes(stream.shape)
        rooms = (size - 1) // 2
        right, down = _random_tree(stream, rooms, (self.max_size - 1) // 2, self.params.loops)

        count = rooms * rooms
        words = random.bits(random.fold_in(stream, "places"), (3,))
        start = choice(words[:, 0], count)
        goal = other_choice(words[:, 1], count, taken=start)
        direction = choice(words[:, 2], jnp.full_like(size, 4))
        return self.start(
            CellSet.from_plane(_floor_plane(right, down, rooms)),
            goal=cell(1 + 2 * (goal % rooms), 1 + 2 * (goal // rooms)),
            agent=Pose(1 + 2 * (start % rooms), 1 + 2 * (start // rooms), direction),
        )


def _random_tree(stream: random.Stream, rooms: jax.Array, max_rooms: int, loops: Any) -> tuple[jax.Array, jax.Array]:
    """Generates the passages of a random spanning tree of ``rooms`` (int32 ``[B]``) by ``rooms``, and of the loops.

    Runs Prim's algorithm in all lanes at once: the tree grows from the first room, each time by the lightest passage
    that leads out of it, once for every other room. Returns whether there is a passage to the right of each room, and
    one below it: bool ``[B, max_rooms, max_rooms]`` each, rows first.
    """
    number = np.arange(max_rooms, dtype=np.int32)
    column, row = number[None, None, :], number[None, :, None]
    last = rooms[:, None, None] - 1
    possible = jnp.stack([(column < last) & (row <= last), (row < last) & (column <= last)], axis=1)
    # The edge number in the lower bits makes all weights of a lane distinct.
    edge = np.arange(2 * max_rooms * max_rooms, dtype=np.uint32).reshape(1, 2, max_rooms, max_rooms)
    low = np.uint32(2 ** int(2 * max_rooms * max_rooms - 1).bit_length() - 1)
    weight = jnp.where(possible, (random.bits(stream, (2, max_rooms, max_rooms)) & ~low) | edge, _NO_EDGE)

    def grow(_: jax.Array, carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        reached, passages = carry
        # An edge leads out of the tree if exactly one of its rooms is reached.
        leads_out = jnp.stack([reached ^ _neighbours(reached, axis, 1) for axis in (2, 1)], axis=1)
        candidate = jnp.where(leads_out, weight, _NO_EDGE)
        lightest = jnp.min(candidate, axis=(1, 2, 3), keepdims=True)
        new = (candidate == lightest) & (lightest != _NO_EDGE)
        reached = reached | new[:, 0] | new[:, 1] | _neighbours(new[:, 0], 2, -1) | _neighbours(new[:, 1], 1, -1)
        return reached, passages | new

    first = jnp.broadcast_to((column == 0) & (row == 0), (*stream.shape, max_rooms, max_rooms))
    # Under shard_map the carry must vary over the mesh from the start.
    start = tree.vary_like(stream.k0, (first, jnp.zeros(weight.shape, bool)))
    _, passages = jax.lax.fori_loop(0, max_rooms * max_rooms - 1, grow, start)
    opened = random.bernoulli(random.fold_in(stream, "loops"), passages.shape[1:], loops)
    passages = passages | (opened & possible)
    return passages[:, 0], passages[:, 1]


def _neighbours(plane: jax.Array, axis: int, step: int) -> jax.Array:
    """Returns for every room the value (bool ``[B, n, n]``) of the next (1) or previous (-1) one, False at the end."""
    pad = [(0, 0)] * 3
    pad[axis] = (0, 1) if step > 0 else (1, 0)
    start = max(step, 0)
    return jax.lax.slice_in_dim(jnp.pad(plane, pad), start, start + plane.shape[axis], axis=axis)


def _floor_plane(right: jax.Array, down: jax.Array, rooms: jax.Array) -> jax.Array:
    """Returns the floor of the grid, rooms and passages, bool ``[B, N, N]`` with N = 2 * max_rooms + 1."""
    number = np.arange(right.shape[-1], dtype=np.int32)
    room = (number[None, None, :] < rooms[:, None, None]) & (number[None, :, None] < rooms[:, None, None])
    upper, lower = jnp.stack([room, right], axis=-1), jnp.stack([down, jnp.zeros_like(down)], axis=-1)
    tiles = jnp.stack([upper, lower], axis=2)  # [B, row of rooms, upper or lower, column of rooms, left or right]
    lanes, max_rooms = right.shape[:2]
    # One pair of axes at a time, because JAX refuses to merge both over a mesh of explicit axes.
    rows = tiles.reshape(lanes, max_rooms, 2, 2 * max_rooms).reshape(lanes, 2 * max_rooms, 2 * max_rooms)
    return jnp.pad(rows, ((0, 0), (1, 0), (1, 0)))
