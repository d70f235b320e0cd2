"""Find a hidden goal in a maze of pillars repeatedly, each time from a new random position.

Task: Miconi, Clune and Stanley (2018), "Differentiable plasticity", arXiv:1804.02464, section 4.5; Miconi, Rawal,
Clune and Stanley (2019), "Backpropamine", arXiv:2002.10585, section 4.2, with the code the authors published.
That code is a script: tests/envs/misc/test_meta_maze.py compares this task with a plain implementation of its rules.

Observation   float32[rf_size**2 + 6]   1 for each wall among the rf_size by rf_size cells around the agent, row by row;
                                        the last action one-hot; the last reward; the time
Action        int32                     0 up, 1 right, 2 down, 3 left
Reward        ``reward`` for reaching the goal, plus ``punishment`` (0 by default) for walking into a wall
Starts        at the centre, with a goal drawn uniformly among the other free cells for the whole episode
Terminates    never
Time limit    200 (registry), a termination: the horizon is part of the task
env_info      goal_reached: bool, whether this step reached the goal

A maze has maze_size by maze_size cells surrounded by walls. Every cell with an odd row and an odd column, counted from
0, is a pillar, except for the centre. The goal is not visible. An agent that reaches it is moved to another free cell,
drawn uniformly. At the start of an episode the last action is 0, as in the original. The time in the observation counts
steps, or with normalize_time ranges from -1 at the start to 1 at step t_max.
"""

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.canvas import NIGHT, Canvas
from jaxenv.core import Task, Transition, toward
from jaxenv.envs import _drawing
from jaxenv.envs.misc._time_feature import time_bounds, time_feature


@tree.struct
class Params:
    """Scalars, or ``[B]`` for one value per lane."""

    reward: float = tree.leaf(default=10.0, doc="for reaching the goal")
    punishment: float = tree.leaf(default=0.0, doc="added for walking into a wall; negative to punish")
    t_max: float = tree.leaf(default=200.0, unit="steps", above=0, doc="the step at which the normalized time is 1")


@tree.struct
class State:
    """Positions of agent and goal, counted from 0 inside the outer walls, and the last step."""

    row: jax.Array  # int32[B]
    column: jax.Array  # int32[B]
    goal_row: jax.Array  # int32[B]
    goal_column: jax.Array  # int32[B]
    last_action: jax.Array  # int32[B]
    last_reward: jax.Array  # float32[B]
    time: jax.Array  # int32[B], steps taken


class MetaMaze(Task):
    """The maze with pillars; the module docstring is the specification."""

    # Only the time limit ends an episode, so on most steps no lane ends, and then all lanes end together.
    reset_strategy = {"cpu": "cond", "default": "select"}
    params: Params = Params()
    maze_size: int = tree.static(default=9, doc="number of cells along each side of the maze, odd")
    rf_size: int = tree.static(default=3, doc="number of cells along each side of the agent's field of view, odd")
    normalize_time: bool = tree.static(default=False, doc="whether the observed time is from -1 to 1, not a count")
    action_names = ("up", "right", "down", "left")
    summed_entries = frozenset({"goal_reached"})

    def check(self) -> None:
        for name in ("maze_size", "rf_size"):
            if getattr(self, name) < 3 or getattr(self, name) % 2 == 0:
                raise ValueError(f"{self}: {name} must be odd and at least 3, got {getattr(self, name)}")

    def initial(self, stream: random.Stream) -> State:
        lanes = jnp.zeros(stream.shape, jnp.int32)
        centre = lanes + np.int32(self.maze_size // 2)
        goal = _other_cell(random.bits(stream), (centre, centre), self.maze_size)
        return State(centre, centre, *goal, lanes, jnp.zeros(stream.shape, jnp.float32), lanes)

    def transition(self, state: State, action: jax.Array, stream: random.Stream) -> Transition:
        p = self.params
        elsewhere = _other_cell(random.bits(stream), (state.goal_row, state.goal_column), self.maze_size)
        row, column = state.row + toward(action, 2, 0), state.column + toward(action, 1, 3)
        blocked = _is_wall(row, column, self.maze_size)
        row, column = jnp.where(blocked, state.row, row), jnp.where(blocked, state.column, column)
        at_goal = (row == state.goal_row) & (column == state.goal_column)
        reward = jnp.where(at_goal, p.reward, 0.0) + jnp.where(blocked, p.punishment, 0.0)
        state = tree.rebuild(
            state,
            row=jnp.where(at_goal, elsewhere[0], row),
            column=jnp.where(at_goal, elsewhere[1], column),
            last_action=action,
            last_reward=reward.astype(jnp.float32),
            time=state.time + 1,
        )
        return Transition(state, state.last_reward, jnp.zeros_like(at_goal), {"goal_reached": at_goal})

    def observe(self, state: State) -> jax.Array:
        reach = np.arange(self.rf_size, dtype=np.int32)[None] - np.int32(self.rf_size // 2)
        rows, columns = state.row[:, None] + reach, state.column[:, None] + reach
        seen = _is_wall(rows[:, :, None], columns[:, None, :], self.maze_size)
        last_action = state.last_action[:, None] == np.arange(4, dtype=np.int32)[None]
        time = time_feature(state.time, self.params.t_max, self.normalize_time)
        flags = jnp.concatenate([seen.reshape(-1, self.rf_size**2), last_action], axis=-1)
        numbers = jnp.stack([state.last_reward, time], axis=-1)
        return jnp.concatenate([flags.astype(jnp.float32), numbers], axis=-1)

    def observation_spec(self) -> specs.Bounded:
        flags = self.rf_size**2 + 4
        first, last = time_bounds(self.normalize_time)
        low, high = [0.0] * flags + [-np.inf, first], [1.0] * flags + [np.inf, last]
        return specs.Bounded((flags + 2,), np.float32, low, high, "observation")

    def action_spec(self) -> specs.Bounded:
        return specs.discrete(4, name="action")

    def draw(self, state: State, canvas: Canvas) -> Canvas:
        line = jnp.arange(-1, self.maze_size + 1, dtype=jnp.int32)  # with the outer walls
        rows, columns = line[None, :, None], line[None, None, :]
        places = (state.row, state.column, state.goal_row, state.goal_column)
        row, column, goal_row, goal_column = (x[:, None, None] for x in places)
        walls = _is_wall(rows, columns, self.maze_size).astype(jnp.int32)
        seen = jnp.maximum(jnp.abs(rows - row), jnp.abs(columns - column)) <= self.rf_size // 2
        things = jnp.where((rows == goal_row) & (columns == goal_column), np.int32(1), np.int32(0))
        things = jnp.where((rows == row) & (columns == column), np.int32(2), things)
        canvas = canvas.fill(NIGHT).tiles(walls, [_drawing.floor, _drawing.wall])
        canvas = canvas.tiles(seen.astype(jnp.int32), [None, _drawing.sight])
        return canvas.tiles(things, [None, _drawing.hidden_goal, _drawing.walker])


def _is_wall(row: jax.Array, column: jax.Array, size: int) -> jax.Array:
    """Returns whether cells are outside the maze or pillars. A few comparisons are cheaper than a lookup in a map."""
    outside = (row < 0) | (row >= size) | (column < 0) | (column >= size)
    pillar = (row & column & 1) == 1
    centre = (row == size // 2) & (column == size // 2)
    return outside | (pillar & ~centre)


def _num_free_cells(size: int) -> int:
    return size**2 - (size // 2) ** 2 + size // 2 % 2


def _cell(number: jax.Array, size: int) -> tuple[jax.Array, jax.Array]:
    """Returns row and column of a free cell, for numbers (int32) from 0 to ``_num_free_cells(size) - 1``.

    A row without and a row with pillars together have ``size + size // 2 + 1`` free cells. The last number denotes the
    last free cell, or the centre if that would otherwise be a pillar.
    """
    pair = size + size // 2 + 1
    above, rest = number // pair, number % pair
    crosses = rest >= size
    row = 2 * above + crosses.astype(jnp.int32)
    column = jnp.where(crosses, 2 * (rest - size), rest)
    if size // 2 % 2 == 1:
        extra, middle = number == _num_free_cells(size) - 1, np.int32(size // 2)
        row, column = jnp.where(extra, middle, row), jnp.where(extra, middle, column)
    return row, column


def _other_cell(word: jax.Array, taken: tuple[jax.Array, jax.Array], size: int) -> tuple[jax.Array, jax.Array]:
    """Returns a uniform free cell other than ``taken``: one of all but the last, which stands in for ``taken``."""
    count = _num_free_cells(size)
    number = random.high_product(word, jnp.full_like(word, count - 1)).astype(jnp.int32)
    row, column = _cell(number, size)
    last_row, last_column = _cell(jnp.full_like(number, count - 1), size)
    collides = (row == taken[0]) & (column == taken[1])
    return jnp.where(collides, last_row, row), jnp.where(collides, last_column, column)
