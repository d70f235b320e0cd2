"""Find a hidden goal in a maze of pillars, again and again: each time the agent is put elsewhere.

Task: Miconi, Clune and Stanley (2018), "Differentiable plasticity", arXiv:1804.02464, section 4.5; Miconi, Rawal,
Clune and Stanley (2019), "Backpropamine", arXiv:2002.10585, section 4.2, with the code the authors published.
It is a script, no package: tests/envs/misc/test_meta_maze.py holds it to a plain retelling of its rules.

Observation   float32[rf_size**2 + 6]   1 for each wall among the rf_size by rf_size cells around the agent, row by row;
                                        the last action one-hot; the last reward; the time, see ``time_feature``
Action        int32                     0 up, 1 right, 2 down, 3 left
Reward        ``reward`` for reaching the goal, plus ``punishment`` (0 by default) for walking into a wall
Starts        at the centre; the goal at any other free cell, each as likely, for the whole episode
Terminates    never
Time limit    200 (registry), a termination: the task ends with its horizon
env_info      goal_reached: bool, by this step

A maze has maze_size by maze_size cells with walls around them. Every cell with an odd row and an odd column, counted
from 0, is a pillar, the centre excepted. At the goal, which no observation shows, the agent is put at another free
cell, each as likely. At the start of an episode the last action reads as 0, as in the original.
"""

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.envs.misc.time_feature import check_t_max, time_bounds, time_feature
from jaxenv.task import Task, Transition


@tree.struct
class Params:
    """Scalars, or ``[B]`` for one value per lane."""

    reward: float = 10.0  # for reaching the goal
    punishment: float = 0.0  # added for walking into a wall: below 0 to punish
    t_max: float = 200.0  # the step at which normalized time is 1


@tree.struct
class State:
    """Cells count from 0 inside the walls."""

    row: jax.Array  # int32[B]
    column: jax.Array  # int32[B]
    goal_row: jax.Array  # int32[B]
    goal_column: jax.Array  # int32[B]
    last_action: jax.Array  # int32[B]
    last_reward: jax.Array  # float32[B]
    time: jax.Array  # int32[B]


class MetaMaze(Task):
    """The maze with pillars; see the module.

    Attributes:
        maze_size: cells along either side, odd.
        rf_size: cells along either side of what the agent sees, odd.
        normalize_time: whether the time runs from -1 to 1 instead of counting steps.
    """

    # Nothing but the limit ends an episode: mostly no lane starts, or all do.
    reset_strategy = {"cpu": "cond", "default": "select"}
    params: Params = Params()
    maze_size: int = tree.static(default=9)
    rf_size: int = tree.static(default=3)
    normalize_time: bool = tree.static(default=False)

    def check(self):
        for name in ("maze_size", "rf_size"):
            if getattr(self, name) < 3 or getattr(self, name) % 2 == 0:
                raise ValueError(f"{self}: {name} must be odd and at least 3, got {getattr(self, name)}")
        check_t_max(str(self), self.params.t_max)

    def initial(self, stream):
        lanes = jnp.zeros(stream.shape, jnp.int32)
        centre = lanes + np.int32(self.maze_size // 2)
        goal = _other_cell(random.bits(stream), (centre, centre), self.maze_size)
        return State(centre, centre, *goal, lanes, jnp.zeros(stream.shape, jnp.float32), lanes)

    def transition(self, state, action, stream):
        elsewhere = _other_cell(random.bits(stream), (state.goal_row, state.goal_column), self.maze_size)
        state, at_goal = _advance(state, action, elsewhere, self.maze_size, self.params)
        return Transition(state, state.last_reward, jnp.zeros_like(at_goal), {"goal_reached": at_goal})

    def observe(self, state):
        reach = np.arange(self.rf_size, dtype=np.int32)[None] - np.int32(self.rf_size // 2)
        seen = _is_wall(
            (state.row[:, None] + reach)[:, :, None], (state.column[:, None] + reach)[:, None, :], self.maze_size
        )
        last_action = state.last_action[:, None] == np.arange(4, dtype=np.int32)[None]
        time = time_feature(state.time, self.params.t_max, self.normalize_time)
        flags = jnp.concatenate([seen.reshape(-1, self.rf_size**2), last_action], axis=-1)
        numbers = jnp.stack([state.last_reward, time], axis=-1)
        return jnp.concatenate([flags.astype(jnp.float32), numbers], axis=-1)

    def observation_spec(self):
        flags = self.rf_size**2 + 4
        first, last = time_bounds(self.normalize_time)
        low, high = [0.0] * flags + [-np.inf, first], [1.0] * flags + [np.inf, last]
        return specs.Bounded((flags + 2,), np.float32, low, high, "observation")

    def action_spec(self):
        return specs.discrete(4, name="action")


def _advance(
    state: State, action: jax.Array, elsewhere: tuple[jax.Array, jax.Array], size: int, p: Params
) -> tuple[State, jax.Array]:
    """The next state and whether the goal was reached, in which case the agent is put ``elsewhere``."""
    row = state.row + (action == 2).astype(jnp.int32) - (action == 0).astype(jnp.int32)
    column = state.column + (action == 1).astype(jnp.int32) - (action == 3).astype(jnp.int32)
    blocked = _is_wall(row, column, size)
    row, column = jnp.where(blocked, state.row, row), jnp.where(blocked, state.column, column)
    at_goal = (row == state.goal_row) & (column == state.goal_column)
    reward = jnp.where(at_goal, p.reward, 0.0) + jnp.where(blocked, p.punishment, 0.0)
    after = tree.rebuild(
        state,
        row=jnp.where(at_goal, elsewhere[0], row),
        column=jnp.where(at_goal, elsewhere[1], column),
        last_action=action,
        last_reward=reward.astype(jnp.float32),
        time=state.time + 1,
    )
    return after, at_goal


def _is_wall(row: jax.Array, column: jax.Array, size: int) -> jax.Array:
    """Whether cells are outside or pillars; a few comparisons cost less than looking up a map."""
    outside = (row < 0) | (row >= size) | (column < 0) | (column >= size)
    pillar = (row & column & 1) == 1
    centre = (row == size // 2) & (column == size // 2)
    return outside | (pillar & ~centre)


def _count(size: int) -> int:
    """How many cells are free."""
    return size**2 - (size // 2) ** 2 + size // 2 % 2


def _cell(number: jax.Array, size: int) -> tuple[jax.Array, jax.Array]:
    """Row and column of a free cell, for numbers (int32) from 0 to ``_count(size) - 1``.

    Two rows, one without and one with pillars, have ``size + size // 2 + 1`` free cells together. The last number is
    that of the last free cell, or of the centre where it would be a pillar.
    """
    pair = size + size // 2 + 1
    above, rest = number // pair, number % pair
    crosses = rest >= size
    row = 2 * above + crosses.astype(jnp.int32)
    column = jnp.where(crosses, 2 * (rest - size), rest)
    if size // 2 % 2 == 1:
        extra, middle = number == _count(size) - 1, np.int32(size // 2)
        row, column = jnp.where(extra, middle, row), jnp.where(extra, middle, column)
    return row, column


def _other_cell(word: jax.Array, taken: tuple[jax.Array, jax.Array], size: int) -> tuple[jax.Array, jax.Array]:
    """A free cell other than ``taken``, uniformly: all but the last are drawn from, which stands in for ``taken``."""
    count = _count(size)
    number = random.high_product(word, jnp.full_like(word, count - 1)).astype(jnp.int32)
    row, column = _cell(number, size)
    last_row, last_column = _cell(jnp.full_like(number, count - 1), size)
    collides = (row == taken[0]) & (column == taken[1])
    return jnp.where(collides, last_row, row), jnp.where(collides, last_column, column)
