"""Agents walk through a field and load food: together if its level is higher than the level of each of them.

Reference: lbforaging 2.0.0, ``Foraging-*-v3`` (tests/envs/grid/test_foraging.py).
Papers: Christianos, Schäfer and Albrecht (2020), "Shared Experience Actor-Critic for Multi-Agent Reinforcement
Learning", arXiv:2006.07169; Papoudakis, Christianos, Schäfer and Albrecht (2021), "Benchmarking Multi-Agent Deep
Reinforcement Learning Algorithms in Cooperative Tasks", arXiv:2006.07869.

Agents        A = agents, all in every step: observation, action, reward and env_info lead with them
Observation   float32[A, 3 (foods + A)]   row, column and level of each food in sight, row by row, then of the agent
              itself, then of each other agent in sight; -1, -1, 0 for those out of sight and for food that is loaded.
              Rows and columns count from the first ones in sight
Action        int32[A]        0 stays, 1 up, 2 down, 3 left, 4 right, 5 loads
Reward        float32[A]      each agent's own, where it helps to load food: its level times the food's; with
                              normalize_reward divided by the sum of the levels of those who load it and by the sum of
                              the levels of all food at the start, so that an episode pays 1 in total; -penalty if the
                              levels of those who load the food do not reach its level
Starts        agents in random cells, with random levels in 1 .. max_agent_level; food in random cells that are free,
              not at the edge, not next to other food (diagonally included), and not two cells from it in the same row
              or column, with random levels in 1 .. max_food_level, or all of max_food_level with force_coop. All draws
              are uniform. A max_food_level of 0 stands for the sum of the three lowest levels of agents
Terminates    when all food is loaded
Time limit    50 (registry), a termination as in the original
env_info      action_mask: bool[A, 6], the actions that can have an effect: to stay, to move within the field to a cell
              without food, and to load next to food

An agent that moves to a cell where another agent stays, or to which another one moves as well, remains where it is.
Agents may swap cells. As in the original, an agent that follows another one, which then is blocked, shares its cell.
With a sight of n an agent sees food at most n rows and columns away, and agents in the 2 n + 1 rows and columns that
start n before its own or at the edge, as in the original. Food that finds no free cell is left out; the original gives
up after 1000 attempts. In the original an agent also avoids the cells in which it and later ones ended the last
episode; here episodes are independent.
"""

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial, reduce
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.canvas import BLUE, BROWN, GREEN, INK, ORANGE, PINK, PURPLE, RED, SAND, TEAL, WHITE, Canvas, Colour, mix
from jaxenv.core import Task, Transition
from jaxenv.envs.grid._cell_set import nth_cell
from jaxenv.envs.grid.grid_world import choice

_UP, _DOWN, _LEFT, _RIGHT, _LOAD = (np.int32(i) for i in range(1, 6))
_ZERO, _ONE, _MISSING = np.int32(0), np.int32(1), np.int32(-1)
# Cells around one, as `_around` reads them: the cell itself, and where food is too near to food in the cell.
_CELL, _TOO_NEAR = (0b00100,), (0b11111, 0b01110, 0b00100)


@tree.struct
class Params:
    """Parameters of the task: scalars, or ``[B]`` for one value per lane."""

    penalty: float = tree.leaf(default=0.0, doc="subtracted from the reward of agents that load food in vain")


@tree.struct
class Things:
    """Agents or food. Each number is an array of its own, int32 ``[B]``."""

    rows: tuple[jax.Array, ...]
    columns: tuple[jax.Array, ...]
    levels: tuple[jax.Array, ...]  # 0 for food that is loaded

    def each(self) -> Iterator[tuple[Any, Any, Any]]:
        """Yields row, column and level of every one."""
        return zip(self.rows, self.columns, self.levels, strict=True)


@tree.struct
class State:
    """The field."""

    agents: Things
    foods: Things  # row by row
    total: jax.Array  # int32[B], the sum of the levels of all food at the start


class Foraging(Task):
    """The field; the module docstring is the specification."""

    # Placing agents and food in every lane at every step would take longer than the step itself.
    reset_strategy = {"cpu": "compact", "default": "select"}
    params: Params = Params()
    size: int = tree.static(default=8, low=4, high=28, doc="rows and columns of the field")
    agents: int = tree.static(default=2, low=2, high=16, doc="number of agents")
    foods: int = tree.static(default=2, low=1, high=32, doc="number of foods")
    sight: int = tree.static(default=0, low=0, doc="rows and columns that an agent sees in each direction; 0 for all")
    force_coop: bool = tree.static(default=False, doc="whether all food has the highest level")
    max_agent_level: int = tree.static(default=2, low=1, doc="highest level of an agent")
    max_food_level: int = tree.static(default=0, low=0, doc="of food; 0 for the sum of the three lowest of agents")
    normalize_reward: bool = tree.static(default=True, doc="whether the rewards of an episode add up to 1")

    action_names = ("stay", "up", "down", "left", "right", "load")

    @property
    def agent_names(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(f"agent_{i}" for i in range(self.agents))

    def initial(self, stream: random.Stream) -> State:
        line = np.arange(self.size, dtype=np.int32)[None]
        inside = np.where((line > 0) & (line < self.size - 1), 2 ** (self.size - 1) - 2, 0).astype(np.uint32)
        words = random.separate_bits(stream, 2 * (self.agents + self.foods))
        free = jnp.full((*stream.shape, self.size), np.uint32(2**self.size - 1))
        agents, foods = [], []
        for word in words[: self.agents]:
            row, column, _ = _placed(free, word)
            free = free & ~_around(line, row, column, _CELL)
            agents.append((row, column))
        free = free & inside
        for word in words[self.agents : self.agents + self.foods]:
            row, column, found = _placed(free, word)
            free = free & ~_around(line, row, column, _TOO_NEAR)
            foods.append(jnp.where(found, row * self.size + column, self.size**2))
        return self._started(agents, foods, words[self.agents + self.foods :])

    def _started(
        self, agents: Sequence[Sequence[jax.Array]], foods: Sequence[jax.Array], words: Sequence[jax.Array]
    ) -> State:
        """Returns the state with agents in these rows and columns, and food in these cells, of random levels."""
        agent_levels = tuple(_ONE + choice(word, np.int32(self.max_agent_level)) for word in words[: len(agents)])
        highest = np.int32(self.max_food_level) if self.max_food_level else _sum(_sorted(agent_levels)[:3])
        cells, food_levels = _sorted(foods), list[Any]()
        for cell, word in zip(cells, words[len(agents) :], strict=True):
            level = highest if self.force_coop else _ONE + choice(word, highest)
            food_levels.append(jnp.where(cell < self.size**2, level, _ZERO))
        rows, columns = zip(*agents, strict=True)
        places = tuple(cell // self.size for cell in cells), tuple(cell % self.size for cell in cells)
        return State(Things(rows, columns, agent_levels), Things(*places, tuple(food_levels)), _sum(food_levels))

    def transition(self, state: State, action: jax.Array, stream: random.Stream) -> Transition:
        actions = [action[:, i] for i in range(self.agents)]
        state, rewards, terminated = _stepped(state, actions, self.params.penalty, self.size, self.normalize_reward)
        return Transition(state, jnp.stack(rewards, axis=1), terminated)

    def observe(self, state: State) -> jax.Array:
        columns = _seen(state.agents, state.foods, 0 if self.sight >= self.size - 1 else self.sight)
        return jnp.stack(columns, axis=1).reshape(-1, *self.observation_spec().shape).astype(jnp.float32)

    def state_info(self, state: State) -> dict[str, jax.Array]:
        flags = _effective(state.agents, state.foods, self.size)
        return {"action_mask": jnp.stack(flags, axis=1).reshape(-1, self.agents, len(self.action_names))}

    def observation_spec(self) -> specs.Bounded:
        last = self.size - 1
        low, high = [-1, -1, 0] * (self.foods + self.agents), [last, last, self._highest_food] * self.foods
        high += [last, last, self.max_agent_level] * self.agents
        return specs.Bounded((self.agents, len(low)), np.float32, [low], [high], "observation")

    def action_spec(self) -> specs.Bounded:
        return specs.Bounded((self.agents,), np.int32, 0, len(self.action_names) - 1, "action")

    @property
    def _highest_food(self) -> int:
        return self.max_food_level or min(self.agents, 3) * self.max_agent_level

    def draw(self, state: State, canvas: Canvas) -> Canvas:
        # Of agents that share a cell it shows the last one.
        size, highest_agent, highest_food = self.size, self.max_agent_level, self._highest_food
        painters: list[Callable[[Canvas], Canvas]] = [_grass]
        painters += [partial(_apple, level=level) for level in range(1, highest_food + 1)]
        levels = range(1, highest_agent + 1)
        painters += [partial(_person, colour=colour, level=level) for colour in _COLOURS for level in levels]
        firsts = [1] * len(state.foods.rows)
        firsts += [1 + highest_food + i % len(_COLOURS) * highest_agent for i in range(len(state.agents.rows))]
        cells, kinds = np.arange(size * size, dtype=np.int32)[None], jnp.zeros((canvas.lanes, size * size), jnp.int32)
        for first, (row, column, level) in zip(firsts, (*state.foods.each(), *state.agents.each()), strict=True):
            here = (cells == (size * row + column)[:, None]) & (level > 0)[:, None]
            kinds = jnp.where(here, (first + level - 1)[:, None], kinds)
        return canvas.fill(_LINE).tiles(kinds.reshape(-1, size, size), painters)


def _placed(free: jax.Array, word: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Draws a cell of a set, a word per row (uint32 ``[B, size]``): row, column, and whether the set has a cell."""
    count = jnp.sum(jax.lax.population_count(free), axis=1, dtype=jnp.uint32).astype(jnp.int32)
    column, row = nth_cell(free, choice(word, count))
    return row, column, count > 0


def _around(line: np.ndarray, row: jax.Array, column: jax.Array, pattern: Sequence[int]) -> jax.Array:
    """Returns a set of cells around a cell: ``pattern[i]`` has those of the rows ``i`` away, bit 2 its own column."""
    away = jnp.abs(line - row[:, None])
    bits = jnp.zeros_like(away, jnp.uint32)
    for distance, word in enumerate(pattern):
        bits = jnp.where(away == distance, np.uint32(word), bits)
    return bits << column.astype(jnp.uint32)[:, None] >> np.uint32(2)


def _stepped(
    state: State, actions: Sequence[Any], penalty: Any, size: int, normalize: bool
) -> tuple[State, list[Any], Any]:
    """Returns the state after a step, the reward of each agent, and whether all food is loaded."""
    agents, foods, total = state.agents, state.foods, jnp.maximum(state.total, _ONE)
    numbers = range(len(agents.rows))
    goals = []
    for row, column, action in zip(agents.rows, agents.columns, actions, strict=True):
        to_row = row + jnp.where(action == _UP, -_ONE, jnp.where(action == _DOWN, _ONE, _ZERO))
        to_column = column + jnp.where(action == _LEFT, -_ONE, jnp.where(action == _RIGHT, _ONE, _ZERO))
        free = _is_free(to_row, to_column, foods, size)
        goals.append((jnp.where(free, to_row, row), jnp.where(free, to_column, column)))
    rows, columns = list(agents.rows), list(agents.columns)
    for i in numbers:
        alone = ~_any((goals[i][0] == goals[j][0]) & (goals[i][1] == goals[j][1]) for j in numbers if j != i)
        rows[i], columns[i] = (jnp.where(alone, to, at) for to, at in zip(goals[i], (rows[i], columns[i]), strict=True))
    agents = Things(tuple(rows), tuple(columns), agents.levels)

    rewards, levels = [jnp.zeros_like(total, jnp.float32) for _ in numbers], list[Any]()
    for row, column, level in foods.each():
        helps = [(actions[i] == _LOAD) & (level > 0) & _is_next(rows[i], columns[i], row, column) for i in numbers]
        strength = _sum([jnp.where(helps[i], agents.levels[i], _ZERO) for i in numbers])
        enough = strength >= level
        shares = jnp.maximum(strength, _ONE) * total if normalize else _ONE
        for i in numbers:
            pay = (agents.levels[i] * level).astype(jnp.float32) / shares.astype(jnp.float32)
            rewards[i] = rewards[i] + jnp.where(helps[i], jnp.where(enough, pay, -penalty), np.float32(0))
        levels += [jnp.where(enough, _ZERO, level)]
    foods = Things(foods.rows, foods.columns, tuple(levels))
    return State(agents, foods, state.total), rewards, ~_any(level > 0 for level in levels)


def _effective(agents: Things, foods: Things, size: int) -> list[Any]:
    """Returns whether each action of each agent has an effect."""
    flags = []
    for row, column, _ in agents.each():
        moves = [(row - _ONE, column), (row + _ONE, column), (row, column - _ONE), (row, column + _ONE)]
        loads = _any((level > 0) & _is_next(row, column, *at) for *at, level in foods.each())
        flags += [jnp.ones_like(loads), *(_is_free(*to, foods, size) for to in moves), loads]
    return flags


def _seen(agents: Things, foods: Things, sight: int) -> list[Any]:
    """Returns the observations of all agents, one after the other; ``sight`` is 0 for the whole field."""
    seen = list[Any]()
    nearest = _packed([(food, food[2] > 0) for food in foods.each()])
    for i, (row, column, level) in enumerate(agents.each()):
        others = [other for j, other in enumerate(agents.each()) if j != i]
        met = [number for other in others for number in other]
        if sight:
            top, left = jnp.maximum(row - sight, _ZERO), jnp.maximum(column - sight, _ZERO)
            near, close = [], []
            for y, x, food in foods.each():
                visible = (food > 0) & (jnp.abs(y - row) <= sight) & (jnp.abs(x - column) <= sight)
                near.append(((y - top, x - left, food), visible))
            for y, x, other in others:
                y, x = y - top, x - left
                close.append(((y, x, other), (jnp.minimum(y, x) >= 0) & (jnp.maximum(y, x) <= 2 * sight)))
            nearest, met, row, column = _packed(near), _packed(close), row - top, column - left
        seen += [*nearest, row, column, level, *met]
    return seen


def _packed(things: Sequence[tuple[Sequence[Any], Any]]) -> list[Any]:
    """Returns the numbers of things, those that are visible first."""
    slots: list[list[Any]] = [[_MISSING, _MISSING, _ZERO] for _ in things]
    before: Any = _ZERO
    for i, (numbers, visible) in enumerate(things):
        for j in range(i + 1):
            here = visible & (before == j)
            slots[j] = [jnp.where(here, new, old) for new, old in zip(numbers, slots[j], strict=True)]
        before = before + visible.astype(jnp.int32)
    return [number for slot in slots for number in slot]


def _is_free(row: Any, column: Any, foods: Things, size: int) -> Any:
    """Returns whether a cell is in the field and without food."""
    taken = _any((level > 0) & (y == row) & (x == column) for y, x, level in foods.each())
    return (row >= 0) & (row < size) & (column >= 0) & (column < size) & ~taken


def _is_next(row: Any, column: Any, other_row: Any, other_column: Any) -> Any:
    return jnp.abs(row - other_row) + jnp.abs(column - other_column) == 1


def _sorted(numbers: Sequence[Any]) -> list[Any]:
    """Sorts a few numbers in each lane, by exchanges of neighbours."""
    numbers = list(numbers)
    for end in range(len(numbers) - 1, 0, -1):
        for i in range(end):
            first, second = numbers[i], numbers[i + 1]
            numbers[i], numbers[i + 1] = jnp.minimum(first, second), jnp.maximum(first, second)
    return numbers


def _any(flags: Iterable[Any]) -> Any:
    return reduce(operator.or_, flags)


def _sum(numbers: Iterable[Any]) -> Any:
    return reduce(operator.add, numbers)


# --- the picture -----------------------------------------------------------------------------------------------------

_COLOURS = (BLUE, ORANGE, PURPLE, TEAL, PINK, INK)  # of the agents, in turn
_GRASS, _LINE = mix(GREEN, SAND, 0.75), mix(GREEN, SAND, 0.55)


def _grass(canvas: Canvas) -> Canvas:
    return canvas.box(0.5, 0.5, 0.94, 0.94, _GRASS, corner=0.08)


def _apple(canvas: Canvas, level: int) -> Canvas:
    canvas = _grass(canvas).line(0.5, 0.7, 0.56, 0.9, 0.06, BROWN).ellipse(0.68, 0.84, 0.24, 0.12, GREEN, angle=0.5)
    for x in (0.38, 0.62):
        canvas = canvas.ellipse(x, 0.44, 0.46, 0.62, RED)
    return canvas.text(str(level), 0.5, 0.3, 0.3, WHITE, align=0.5)


def _person(canvas: Canvas, colour: Colour, level: int) -> Canvas:
    canvas = _grass(canvas).disc(0.5, 0.5, 0.42, mix(colour, INK, 0.4)).disc(0.5, 0.5, 0.37, colour)
    return canvas.text(str(level), 0.5, 0.33, 0.34, WHITE, align=0.5)
