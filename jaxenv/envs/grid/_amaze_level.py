"""Levels of AMaze, and mazes as text.

A text has a line per row of the maze, with one of these characters per cell, as in jaxued's ``Level.from_str``:

    #  wall      .  free      > v < ^  the agent, by its direction      G  the goal
"""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from jaxenv import tree
from jaxenv.core import check_integer
from jaxenv.envs._level_text import AGENTS, as_text, listed, place_of, read_cells

LARGEST = 24  # a row of cells is a word of 32 bits, and the view extends 4 cells beyond the grid on either side


@tree.struct
class MazeLevel:
    """Mazes of N by N cells, with the fields of jaxued's ``Level``. Positions are x and y, from the upper left cell."""

    wall_map: jax.Array  # bool[B, N, N], row by row
    goal_pos: jax.Array  # int32[B, 2]
    agent_pos: jax.Array  # int32[B, 2]
    agent_dir: jax.Array  # int32[B], 0 right, 1 down, 2 left, 3 up


def parse_levels(texts: str | Sequence[str], size: int = 13) -> MazeLevel:
    """Reads mazes from text, one per lane, as levels of ``size`` by ``size`` cells.

    A smaller maze gets walls on the right and below, which an agent cannot tell from the end of the maze.
    """
    check_integer("parse_levels", "size", size, 2, LARGEST)
    parsed = [_parsed(text, size, f"parse_levels: text {i}") for i, text in enumerate(listed(texts))]
    return jax.tree.map(lambda *fields: np.stack(fields), *parsed)


def format_levels(level: MazeLevel) -> list[str]:
    """Returns the mazes of all lanes as text, which `parse_levels` reads."""
    texts = []
    fields = map(np.asarray, jax.tree.leaves(level))
    for walls, (goal_x, goal_y), (x, y), direction in zip(*fields, strict=True):
        cells = np.where(walls, "#", ".")
        cells[y, x] = AGENTS[direction]
        cells[goal_y, goal_x] = "G"
        texts.append(as_text(cells))
    return texts


def _parsed(text: str, size: int, owner: str) -> MazeLevel:
    """Returns the level of one lane, without an axis for lanes."""
    cells = read_cells(owner, text, "#.G" + AGENTS, size, size)
    goal, agent = place_of(owner, cells, "goal", "G"), place_of(owner, cells, "agent", AGENTS)
    walls = np.ones((size, size), bool)
    walls[: cells.shape[0], : cells.shape[1]] = cells == "#"
    direction = AGENTS.index(cells[agent[::-1]])
    fields: list[Any] = [walls, *(np.array(x, np.int32) for x in (goal, agent, direction))]
    return MazeLevel(*fields)
