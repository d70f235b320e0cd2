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

LARGEST = 24  # a row of cells is a word of 32 bits, and the view extends 4 cells beyond the grid on either side
_AGENTS = ">v<^"


@tree.struct
class MazeLevel:
    """Mazes of N by N cells, with the fields of jaxued's ``Level``. Positions are x and y, from the upper left cell."""

    wall_map: jax.Array  # bool[B, N, N], row by row
    goal_pos: jax.Array  # int32[B, 2]
    agent_pos: jax.Array  # int32[B, 2]
    agent_dir: jax.Array  # int32[B], 0 right, 1 down, 2 left, 3 up


def parse_levels(texts: str | Sequence[str], size: int = 13) -> MazeLevel:
    """Reads mazes from text, one per lane.

    A maze that is smaller than ``size`` is filled up with walls on the right and below, which an agent cannot tell from
    the end of the maze.

    Args:
        texts: one or several mazes. White space around a text is left out.
        size: N, the number of cells per side.

    Raises:
        ValueError: for a text that is not a maze; it names text, line, column, rule and character.
    """
    check_integer("parse_levels", "size", size, 2, LARGEST)
    texts = [texts] if isinstance(texts, str) else list(texts)
    if not texts:
        raise ValueError("parse_levels: texts must hold at least one maze, got none")
    parsed = [_parsed(text, size, f"parse_levels: text {i}") for i, text in enumerate(texts)]
    return jax.tree.map(lambda *fields: np.stack(fields), *parsed)


def format_levels(level: MazeLevel) -> list[str]:
    """Returns the mazes of all lanes as text, which `parse_levels` reads."""
    texts = []
    level = jax.tree.map(np.asarray, level)
    for walls, (goal_x, goal_y), (x, y), direction in zip(
        level.wall_map, level.goal_pos, level.agent_pos, level.agent_dir, strict=True
    ):
        cells = np.where(walls, "#", ".")
        cells[y, x] = _AGENTS[direction]
        cells[goal_y, goal_x] = "G"
        texts.append("\n".join("".join(row) for row in cells))
    return texts


def _parsed(text: str, size: int, owner: str) -> MazeLevel:
    """Returns the level of one lane, without an axis for lanes."""
    lines = text.strip().splitlines()
    walls = np.ones((size, size), bool)
    found: dict[str, tuple[int, int]] = {}  # goal and agent
    direction = 0
    if not 1 <= len(lines) <= size:
        raise ValueError(f"{owner} must have 1 to {size} lines, got {len(lines)}")
    for y, line in enumerate(lines):
        if len(line) != len(lines[0]) or len(line) > size:
            rule = f"have as many characters as line 1 and at most {size}"
            raise ValueError(f"{owner}, line {y + 1} must {rule}, got {len(line)}: {line!r}")
        for x, character in enumerate(line):
            place = f"{owner}, line {y + 1}, column {x + 1}"
            if character not in "#.G" + _AGENTS:
                raise ValueError(f"{place} must be one of # . G {' '.join(_AGENTS)}, got {character!r}")
            walls[y, x] = character == "#"
            if character in "#.":
                continue
            kind = "goal" if character == "G" else "agent"
            if kind in found:
                first = f"line {found[kind][1] + 1}, column {found[kind][0] + 1}"
                raise ValueError(f"{place} must not be a second {kind} after that of {first}, got {character!r}")
            found[kind] = (x, y)
            direction = direction if kind == "goal" else _AGENTS.index(character)
    for kind, characters in (("goal", "G"), ("agent", " ".join(_AGENTS))):
        if kind not in found:
            raise ValueError(f"{owner} must have one {kind}, {characters}, got none")
    fields: list[Any] = [walls, *(np.array(x, np.int32) for x in (found["goal"], found["agent"], direction))]
    return MazeLevel(*fields)
