"""Find the way through a maze that is new in every episode.

Original to this library; rules and observation are those of MiniGrid (world.py). Tested by search: every maze has
exactly one way between any two cells (tests/envs/grid/test_maze.py).

Observation   as in world.py
Action        as in world.py; the last four do nothing
Reward        as in world.py
Starts        a random maze; agent and goal in two random cells at odd coordinates, the agent facing any way
Terminates    on the goal
Time limit    4 * size**2: 676 for 13 by 13 (registry)

Cells at odd coordinates are the rooms of the maze, those between two of them are passages or walls. The passages are
the minimum spanning tree of independent uniform random weights, the distribution that Kruskal's and Prim's algorithms
make ("randomised Kruskal"). Every tree can come; trees are not equally likely, those with many short dead ends are
likelier. With ``loops`` above 0 each wall that could be a passage is opened with that probability: more ways than one.
"""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import _xla, random, tree
from jaxenv._checks import is_concrete
from jaxenv.envs.grid.lines import from_plane
from jaxenv.envs.grid.view import Pose
from jaxenv.envs.grid.world import GridWorld, Params, cell, choice

_NEVER = np.uint32(2**32 - 1)


@tree.struct
class MazeParams(Params):
    """Numbers of the task: scalars, or ``[B]`` for one value per lane."""

    loops: float = 0.0  # probability that a wall between two rooms of the maze is opened all the same


class Maze(GridWorld):
    """Mazes of odd size; see the module."""

    # Making a maze takes as long as tens of steps: only lanes that need one are given one (figures in docs/grid.md).
    # On an accelerator, which was not measured, blocks one after another should take longer than all lanes at once.
    reset_strategy = {"cpu": "compact", "default": "select"}

    params: MazeParams = MazeParams()
    max_size: int = tree.static(default=13)

    smallest: ClassVar[int] = 5
    odd: ClassVar[bool] = True

    def check(self):
        super().check()
        if is_concrete(self.params.loops):
            loops = np.asarray(self.params.loops)
            if np.any((loops < 0) | (loops > 1)):
                raise ValueError(f"{self}: loops must lie in [0, 1], got {self.params.loops}")

    def initial(self, stream):
        size = self.sizes(stream.shape)
        rooms = (size - 1) // 2
        right, down = _random_tree(stream, rooms, (self.max_size - 1) // 2, self.params.loops)

        count = rooms * rooms
        words = random.bits(random.fold_in(stream, "places"), (3,))
        start = choice(words[:, 0], count)
        goal = choice(words[:, 1], count - 1)
        goal = goal + (goal >= start).astype(jnp.int32)  # any but the agent's
        direction = choice(words[:, 2], np.full(size.shape, 4, np.int32))
        return self.start(
            from_plane(_plane(right, down, rooms)),
            goal=cell(1 + 2 * (goal % rooms), 1 + 2 * (goal // rooms)),
            agent=Pose(1 + 2 * (start % rooms), 1 + 2 * (start // rooms), direction),
        )


def _random_tree(stream: random.Stream, rooms: jax.Array, most: int, loops: Any) -> tuple[jax.Array, jax.Array]:
    """Passages to the right of every room and down from it: bool ``[B, most, most]`` each, rows first.

    Prim's algorithm in all lanes at once: the tree grows from the first room by the lightest passage that leads out of
    it, once for each other room. Rooms beyond ``rooms`` (int32 ``[B]``) by ``rooms`` stay closed.
    """
    number = np.arange(most, dtype=np.int32)
    column, row = number[None, None, :], number[None, :, None]
    last = rooms[:, None, None] - 1
    possible = jnp.stack([(column < last) & (row <= last), (row < last) & (column <= last)], axis=1)
    # Their own number in the lower bits makes all weights of a lane differ.
    edge = np.arange(2 * most * most, dtype=np.uint32).reshape(1, 2, most, most)
    low = np.uint32(2 ** int(2 * most * most - 1).bit_length() - 1)
    weight = jnp.where(possible, (random.bits(stream, (2, most, most)) & ~low) | edge, _NEVER)

    def grow(_, carry):
        reached, passages = carry
        right, down = _behind(reached, 2), _behind(reached, 1)
        out = jnp.stack([reached ^ right, reached ^ down], axis=1)
        candidate = jnp.where(out, weight, _NEVER)
        lightest = jnp.min(candidate, axis=(1, 2, 3), keepdims=True)
        new = (candidate == lightest) & (lightest != _NEVER)
        reached = reached | new[:, 0] | new[:, 1] | _ahead(new[:, 0], 2) | _ahead(new[:, 1], 1)
        return reached, passages | new

    first = jnp.broadcast_to((column == 0) & (row == 0), (*stream.shape, most, most))
    # Under shard_map the loop wants to be told that what it begins with belongs to this shard's lanes.
    start = _xla.vary_like(stream.k0, (first, jnp.zeros(weight.shape, bool)))
    _, passages = jax.lax.fori_loop(0, most * most - 1, grow, start)
    opened = random.bernoulli(random.fold_in(stream, "loops"), passages.shape[1:], loops)
    passages = passages | (opened & possible)
    return passages[:, 0], passages[:, 1]


def _behind(plane: jax.Array, axis: int) -> jax.Array:
    """At every room what the plane (bool ``[B, n, n]``) holds one room further along an axis; False at the end."""
    pad = [(0, 0)] * 3
    pad[axis] = (0, 1)
    return jax.lax.slice_in_dim(jnp.pad(plane, pad), 1, None, axis=axis)


def _ahead(plane: jax.Array, axis: int) -> jax.Array:
    """At every room what the plane holds one room earlier along an axis; False at the start."""
    pad = [(0, 0)] * 3
    pad[axis] = (1, 0)
    return jax.lax.slice_in_dim(jnp.pad(plane, pad), 0, -1, axis=axis)


def _plane(right: jax.Array, down: jax.Array, rooms: jax.Array) -> jax.Array:
    """The floor of the grid, rooms and passages: bool ``[B, N, N]`` with N = 2 * most + 1."""
    number = np.arange(right.shape[-1], dtype=np.int32)
    room = (number[None, None, :] < rooms[:, None, None]) & (number[None, :, None] < rooms[:, None, None])
    upper, lower = jnp.stack([room, right], axis=-1), jnp.stack([down, jnp.zeros_like(down)], axis=-1)
    tiles = jnp.stack([upper, lower], axis=2)  # [B, row of rooms, upper or lower, column of rooms, left or right]
    lanes, most = right.shape[:2]
    return jnp.pad(tiles.reshape(lanes, 2 * most, 2 * most), ((0, 0), (1, 0), (1, 0)))
