"""Walk through four rooms, which hallways join, to a goal; steps slip.

Task: Sutton, Precup and Singh (1999), "Between MDPs and semi-MDPs", doi:10.1016/S0004-3702(99)00052-1, section 2.
No package of the authors: tests/envs/misc/test_four_rooms.py holds it to its exact table of transitions.

Observation   float32[4]           row and column of the agent, row and column of the goal, 1 to 11 from the top left
              float32[13, 13, 3]   with use_visual_obs: walls, agent, goal, each 0 or 1
Action        int32                0 up, 1 right, 2 down, 3 left
Reward        1 on reaching the goal, 0 otherwise
Starts        at pos_fixed with the goal at goal_fixed; with resample_init_pos, resample_goal_pos at a uniformly drawn
              free cell, agent and goal never at the same one
Terminates    at the goal
Time limit    500 (registry)

With probability fail_prob the agent moves in one of the three other directions, each as likely. Towards a wall it
stays where it is.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv._checks import is_concrete
from jaxenv.task import Task, Transition

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

# The walls as one string of bits, 32 a word: a handful of words to choose from instead of a table to look up.
_WALL_WORDS = [
    np.uint32(sum(int(wall) << bit for bit, wall in enumerate(WALLS.reshape(-1)[start : start + 32])))
    for start in range(0, WALLS.size, 32)
]
# A free cell's number grows with its place on the map, save for the walls between: where they stand and how many.
_JUMPS = np.diff(FREE_CELLS @ np.array([_SIZE, 1]) - np.arange(len(FREE_CELLS)), prepend=0).astype(np.int32)


@tree.struct
class Params:
    """Scalars and cells, or one more axis for one per lane."""

    fail_prob: float = 1 / 3  # that a step goes in another direction
    goal_fixed: tuple[int, int] = tree.leaf(rank=1, dtype=np.int32, default=(8, 9))  # row and column
    pos_fixed: tuple[int, int] = tree.leaf(rank=1, dtype=np.int32, default=(4, 1))


@tree.struct
class State:
    """Where agent and goal are, each int32 ``[B]``."""

    row: jax.Array
    column: jax.Array
    goal_row: jax.Array
    goal_column: jax.Array


class FourRooms(Task):
    """The four rooms; see the module.

    Attributes:
        use_visual_obs: whether the observation is a map.
        resample_init_pos: whether an episode starts at a drawn cell instead of ``pos_fixed``.
        resample_goal_pos: whether the goal is drawn for each episode instead of being ``goal_fixed``.
    """

    params: Params = Params()
    use_visual_obs: bool = tree.static(default=False)
    resample_init_pos: bool = tree.static(default=False)
    resample_goal_pos: bool = tree.static(default=False)

    def check(self):
        p = self.params
        if is_concrete(p.fail_prob) and np.any((np.asarray(p.fail_prob) < 0) | (np.asarray(p.fail_prob) > 1)):
            raise ValueError(f"{self}: fail_prob must lie in [0, 1], got {p.fail_prob}")
        if not (is_concrete(p.goal_fixed) and is_concrete(p.pos_fixed)):
            return
        goal, position = np.asarray(p.goal_fixed), np.asarray(p.pos_fixed)
        for name, cells in {"goal_fixed": goal, "pos_fixed": position}.items():
            if not _all_free(cells):
                raise ValueError(f"{self}: {name} must be a row and a column without a wall, got {cells.tolist()}")
        drawn = self.resample_init_pos or self.resample_goal_pos
        if not drawn and np.any(np.all(goal == position, axis=-1)):
            raise ValueError(f"{self}: goal_fixed and pos_fixed must differ, got {goal.tolist()} twice")

    def initial(self, stream):
        goal, position = (_lanes(cell, stream.shape) for cell in (self.params.goal_fixed, self.params.pos_fixed))
        if self.resample_goal_pos and self.resample_init_pos:
            first, second = random.separate_bits(stream, 2)
            goal = _free_cell(_below(len(FREE_CELLS), first))
            position = _other_cell(second, goal)
        elif self.resample_goal_pos:
            goal = _other_cell(random.bits(stream), position)
        elif self.resample_init_pos:
            position = _other_cell(random.bits(stream), goal)
        return State(*position, *goal)

    def transition(self, state, action, stream):
        slip, turn = random.separate_bits(stream, 2)
        slips = random.unit(slip) < self.params.fail_prob
        # 30 bits of a word, and the first digit of that fraction in base 3: a quarter turn, a half or three quarters.
        quarters = 1 + (((turn >> np.uint32(2)) * np.uint32(3)) >> np.uint32(30)).astype(jnp.int32)
        state = _move(state, jnp.where(slips, (action + quarters) & 3, action))
        at_goal = (state.row == state.goal_row) & (state.column == state.goal_column)
        return Transition(state, reward=at_goal.astype(jnp.float32), terminated=at_goal)

    def observe(self, state):
        if self.use_visual_obs:
            agent, goal = _plane(state.row, state.column), _plane(state.goal_row, state.goal_column)
            walls = jnp.broadcast_to(WALLS[None], agent.shape)
            return jnp.stack([walls, agent, goal], axis=-1).astype(jnp.float32)
        cells = jnp.stack([state.row, state.column, state.goal_row, state.goal_column], axis=-1)
        return cells.astype(jnp.float32)

    def observation_spec(self):
        if self.use_visual_obs:
            return specs.Bounded((_SIZE, _SIZE, 3), np.float32, 0, 1, "observation")
        return specs.Bounded((4,), np.float32, 1, _SIZE - 2, "observation")

    def action_spec(self):
        return specs.discrete(4, name="action")


def transition_table(fail_prob: float = 1 / 3) -> np.ndarray:
    """The exact probabilities of all steps, for planning and for tests.

    Returns:
        Float64 ``[104, 4, 104]``: ``[i, a, j]`` is the probability to go by action a from ``FREE_CELLS[i]`` to
        ``FREE_CELLS[j]``. Rewards are 1 for arriving at the goal, which ends the episode, and 0 for all else.

    Raises:
        ValueError: unless ``fail_prob`` is a probability.
    """
    if not 0 <= fail_prob <= 1:
        raise ValueError(f"transition_table: fail_prob must lie in [0, 1], got {fail_prob}")
    number = {tuple(cell): i for i, cell in enumerate(FREE_CELLS.tolist())}
    moves = [(-1, 0), (0, 1), (1, 0), (0, -1)]
    direction = (1 - fail_prob) * np.eye(4) + fail_prob / 3 * (1 - np.eye(4))  # [meant, taken]
    table = np.zeros((len(FREE_CELLS), 4, len(FREE_CELLS)))
    for (row, column), i in number.items():
        for taken, (down, right) in enumerate(moves):
            table[i, :, number.get((row + down, column + right), i)] += direction[:, taken]
    return table


def _move(state: State, direction: jax.Array) -> State:
    """One step in ``direction``, unless a wall is there."""
    row = state.row + (direction == 2).astype(jnp.int32) - (direction == 0).astype(jnp.int32)
    column = state.column + (direction == 1).astype(jnp.int32) - (direction == 3).astype(jnp.int32)
    blocked = _is_wall(row, column)
    return tree.rebuild(state, row=jnp.where(blocked, state.row, row), column=jnp.where(blocked, state.column, column))


def _is_wall(row: jax.Array, column: jax.Array) -> jax.Array:
    place = row * np.int32(_SIZE) + column
    word = jnp.zeros_like(place, jnp.uint32)
    for number, bits in enumerate(_WALL_WORDS):
        word = jnp.where((place >> 5) == number, bits, word)
    return ((word >> (place & 31).astype(jnp.uint32)) & np.uint32(1)) == 1


def _below(count: int, word: jax.Array) -> jax.Array:
    """A number from 0 to ``count - 1``, uniform where the word is."""
    return random.high_product(word, jnp.full_like(word, count))


def _free_cell(number: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Row and column of ``FREE_CELLS[number]``; ``number`` is uint32 ``[B]``."""
    number = number.astype(jnp.int32)
    place = number
    for start in np.flatnonzero(_JUMPS).tolist():
        place = place + jnp.where(number >= start, _JUMPS[start], np.int32(0))
    return place // _SIZE, place % _SIZE


def _other_cell(word: jax.Array, taken: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
    """A free cell other than ``taken``, uniformly: all but the last are drawn from, which stands in for ``taken``."""
    row, column = _free_cell(_below(len(FREE_CELLS) - 1, word))
    collides = (row == taken[0]) & (column == taken[1])
    last_row, last_column = FREE_CELLS[-1]
    return jnp.where(collides, last_row, row), jnp.where(collides, last_column, column)


def _plane(row: jax.Array, column: jax.Array) -> jax.Array:
    """Bool ``[B, 13, 13]``, true at one cell."""
    lines = np.arange(_SIZE, dtype=np.int32)[None]
    return (row[:, None] == lines)[:, :, None] & (column[:, None] == lines)[:, None, :]


def _lanes(cell: Any, shape: tuple[int, ...]) -> tuple[jax.Array, jax.Array]:
    """Row and column of a cell ``[2]`` or of one per lane ``[B, 2]``, each ``[B]``."""
    cell = jnp.asarray(cell)
    return jnp.broadcast_to(cell[..., 0], shape), jnp.broadcast_to(cell[..., 1], shape)


def _all_free(cells: np.ndarray) -> bool:
    inside = np.all((cells >= 0) & (cells < _SIZE))
    return cells.shape[-1] == 2 and bool(inside) and not np.any(WALLS[cells[..., 0], cells[..., 1]])
