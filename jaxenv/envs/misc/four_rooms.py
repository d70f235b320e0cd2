"""Walk to a goal through four rooms connected by hallways, with moves that may slip.

Task: Sutton, Precup and Singh (1999), "Between MDPs and semi-MDPs", doi:10.1016/S0004-3702(99)00052-1, section 2.
The authors published no code: tests/envs/misc/test_four_rooms.py compares it with its exact transition table.

Observation   float32[4]           row and column of the agent, row and column of the goal, 1 to 11 from the top left
              float32[13, 13, 3]   with use_visual_obs: walls, agent, goal, each 0 or 1
Action        int32                0 up, 1 right, 2 down, 3 left
Reward        1 on reaching the goal, 0 otherwise
Starts        at pos_fixed with the goal at goal_fixed; with resample_init_pos or resample_goal_pos at a uniformly
              drawn free cell, agent and goal at different ones
Terminates    at the goal
Time limit    500 (registry)

With probability fail_prob the agent moves in another direction, drawn uniformly. Walls stop it.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.canvas import NIGHT, Canvas
from jaxenv.core import Range, Task, Transition, is_concrete, toward
from jaxenv.envs import _drawing
from jaxenv.envs._bitmap import lookup

MAP = """\
#############
#     #     #
#     #     #
#           #
#     #     #
#     #     #
## ####     #
#     ### ###
#     #     #
#     #     #
#           #
#     #     #
#############"""

WALLS = np.array([[character == "#" for character in row] for row in MAP.splitlines()])  # bool [13, 13]
FREE_CELLS = np.argwhere(~WALLS).astype(np.int32)  # [104, 2]: row and column, row by row
_SIZE = WALLS.shape[0]

# The number of walls between each free cell and the one before it. So no table gives the position of a free cell.
_JUMPS = np.diff(FREE_CELLS @ np.array([_SIZE, 1]) - np.arange(len(FREE_CELLS)), prepend=0).astype(np.int32)


@tree.struct
class Params:
    """A scalar and two cells, or one value per lane with a leading lane axis."""

    fail_prob: float = tree.leaf(default=1 / 3, low=0, high=1, doc="probability of moving in another direction")
    goal_fixed: tuple[int, int] = tree.leaf(rank=1, dtype=np.int32, default=(8, 9), doc="row and column")
    pos_fixed: tuple[int, int] = tree.leaf(rank=1, dtype=np.int32, default=(4, 1))


@tree.struct
class State:
    """Positions of agent and goal, each int32 ``[B]``."""

    row: jax.Array
    column: jax.Array
    goal_row: jax.Array
    goal_column: jax.Array


class FourRooms(Task):
    """The four rooms; the module docstring is the specification."""

    params: Params = Params()
    use_visual_obs: bool = tree.static(default=False, doc="whether the observation is a map")
    resample_init_pos: bool = tree.static(default=False, doc="whether episodes start at random, not in ``pos_fixed``")
    resample_goal_pos: bool = tree.static(default=False, doc="whether goals are random, not ``goal_fixed``")
    action_names = ("up", "right", "down", "left")

    def check(self) -> None:
        p = self.params
        if not (is_concrete(p.goal_fixed) and is_concrete(p.pos_fixed)):
            return
        goal, position = np.asarray(p.goal_fixed), np.asarray(p.pos_fixed)
        for name, cells in {"goal_fixed": goal, "pos_fixed": position}.items():
            inside = cells.shape[-1] == 2 and np.all((cells >= 0) & (cells < _SIZE))
            if not inside or np.any(WALLS[cells[..., 0], cells[..., 1]]):
                raise ValueError(f"{self}: {name} must be the row and column of a free cell, got {cells.tolist()}")
        drawn = self.resample_init_pos or self.resample_goal_pos
        if not drawn and np.any(np.all(goal == position, axis=-1)):
            raise ValueError(f"{self}: goal_fixed and pos_fixed must differ, got {goal.tolist()} for both")

    def initial(self, stream: random.Stream) -> State:
        cells = (jnp.asarray(cell) for cell in (self.params.goal_fixed, self.params.pos_fixed))
        goal, position = (tuple(jnp.broadcast_to(cell[..., i], stream.shape) for i in (0, 1)) for cell in cells)
        if self.resample_goal_pos and self.resample_init_pos:
            first, second = random.separate_bits(stream, 2)
            goal = _free_cell(_below(len(FREE_CELLS), first))
            position = _other_cell(second, goal)
        elif self.resample_goal_pos:
            goal = _other_cell(random.bits(stream), position)
        elif self.resample_init_pos:
            position = _other_cell(random.bits(stream), goal)
        return State(*position, *goal)

    def transition(self, state: State, action: jax.Array, stream: random.Stream) -> Transition:
        state = _move(state, _slip(action, self.params.fail_prob, stream))
        at_goal = (state.row == state.goal_row) & (state.column == state.goal_column)
        return Transition(state, reward=at_goal.astype(jnp.float32), terminated=at_goal)

    def observe(self, state: State) -> jax.Array:
        if self.use_visual_obs:
            agent, goal = _plane(state.row, state.column), _plane(state.goal_row, state.goal_column)
            walls = jnp.broadcast_to(WALLS[None], agent.shape)
            return jnp.stack([walls, agent, goal], axis=-1).astype(jnp.float32)
        cells = jnp.stack([state.row, state.column, state.goal_row, state.goal_column], axis=-1)
        return cells.astype(jnp.float32)

    def observation_spec(self) -> specs.Bounded:
        if self.use_visual_obs:
            return specs.Bounded((_SIZE, _SIZE, 3), np.float32, 0, 1, "observation")
        return specs.Bounded((4,), np.float32, 1, _SIZE - 2, "observation")

    def action_spec(self) -> specs.Bounded:
        return specs.discrete(4, name="action")

    def draw(self, state: State, canvas: Canvas) -> Canvas:
        canvas = canvas.fill(NIGHT).tiles(WALLS[None].astype(np.int32), [_drawing.floor, _drawing.wall])
        agent, goal = _plane(state.row, state.column), _plane(state.goal_row, state.goal_column)
        canvas = canvas.tiles(goal.astype(jnp.int32), [None, _drawing.goal])
        return canvas.tiles(agent.astype(jnp.int32), [None, _drawing.walker])


def transition_table(fail_prob: float = 1 / 3) -> np.ndarray:
    """Returns the exact transition probabilities, for planning and for tests, float64 ``[104, 4, 104]``.

    ``[i, a, j]`` is the probability of moving from ``FREE_CELLS[i]`` to ``FREE_CELLS[j]`` by action a. Reaching the
    goal gives a reward of 1 and terminates.
    """
    Range(0, 1).check("transition_table", "fail_prob", fail_prob)
    number = {tuple(cell): i for i, cell in enumerate(FREE_CELLS.tolist())}
    moves = [(-1, 0), (0, 1), (1, 0), (0, -1)]
    direction = (1 - fail_prob) * np.eye(4) + fail_prob / 3 * (1 - np.eye(4))  # [intended, taken]
    table = np.zeros((len(FREE_CELLS), 4, len(FREE_CELLS)))
    for (row, column), i in number.items():
        for taken, (down, right) in enumerate(moves):
            table[i, :, number.get((row + down, column + right), i)] += direction[:, taken]
    return table


def _slip(direction: jax.Array, fail_prob: Any, stream: random.Stream) -> jax.Array:
    """Replaces a direction by one of the three others with probability ``fail_prob``."""
    slip, turn = random.separate_bits(stream, 2)
    slips = random.unit(slip) < fail_prob
    # The first base-3 digit of a 30-bit fraction: a quarter turn, a half turn or three quarters.
    quarters = 1 + (((turn >> np.uint32(2)) * np.uint32(3)) >> np.uint32(30)).astype(jnp.int32)
    return jnp.where(slips, (direction + quarters) & 3, direction)


def _move(state: State, direction: jax.Array) -> State:
    row, column = state.row + toward(direction, 2, 0), state.column + toward(direction, 1, 3)
    blocked = lookup(WALLS, row * np.int32(_SIZE) + column)
    return tree.rebuild(state, row=jnp.where(blocked, state.row, row), column=jnp.where(blocked, state.column, column))


def _below(count: int, word: jax.Array) -> jax.Array:
    """Maps a uniform random word to a uniform integer from 0 to ``count - 1``."""
    return random.high_product(word, jnp.full_like(word, count))


def _free_cell(index: jax.Array) -> tuple[jax.Array, ...]:
    index = index.astype(jnp.int32)
    position = index
    for start in np.flatnonzero(_JUMPS).tolist():
        position = position + jnp.where(index >= start, _JUMPS[start], np.int32(0))
    return position // _SIZE, position % _SIZE


def _other_cell(word: jax.Array, taken: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
    """Returns a uniform free cell other than ``taken``: one of all but the last, which stands in for ``taken``."""
    row, column = _free_cell(_below(len(FREE_CELLS) - 1, word))
    collides = (row == taken[0]) & (column == taken[1])
    last_row, last_column = FREE_CELLS[-1]
    return jnp.where(collides, last_row, row), jnp.where(collides, last_column, column)


def _plane(row: jax.Array, column: jax.Array) -> jax.Array:
    """Returns a map that is true at the given cell only, bool ``[B, 13, 13]``."""
    lines = np.arange(_SIZE, dtype=np.int32)[None]
    return (row[:, None] == lines)[:, :, None] & (column[:, None] == lines)[:, None, :]
