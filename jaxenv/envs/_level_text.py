"""Levels as text: one character per cell, one line per row.

A task with a text form declares ``text_form = TextForm(...)``, by which ``jaxenv play --level FILE`` plays a text.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

AGENTS = ">v<^"  # by their direction, from right clockwise


class TextForm(NamedTuple):
    """How levels of a task are written: functions of the task and a key, or a text."""

    text: Callable[[Any, Any], str]  # the level in which a task with one lane starts
    with_text: Callable[[Any, str], Any]  # the task in that level; a ``ValueError`` names line, column and character


def listed(texts: Any) -> list[str]:
    """Returns the texts of several levels as a list; one text is one level."""
    given = [texts] if isinstance(texts, str) else texts
    if not isinstance(given, list | tuple) or not given or not all(isinstance(text, str) for text in given):
        raise ValueError(f"parse_levels: texts must be one or several texts, got {texts!r}")
    return list(given)


def read_cells(owner: str, text: str, characters: str, columns: int | None = None, rows: int | None = None) -> Any:
    """Returns the characters of a text by row and column, ``str[rows, columns]``, without white space around it.

    ``owner`` begins the error messages. A text has only some ``characters``, at most ``columns`` of them in a line and
    at most ``rows`` lines; ``None`` is no limit.
    """
    lines = text.strip().splitlines()
    if not lines or (rows is not None and len(lines) > rows):
        most = "at least 1" if rows is None else f"1 to {rows}"
        raise ValueError(f"{owner} must have {most} lines, got {len(lines)}")
    for y, line in enumerate(lines):
        if len(line) != len(lines[0]) or (columns is not None and len(line) > columns):
            most = "" if columns is None else f" and at most {columns}"
            rule = f"have as many characters as line 1{most}"
            raise ValueError(f"{owner}, line {y + 1} must {rule}, got {len(line)}: {line!r}")
        for x, character in enumerate(line):
            if character not in characters:
                rule = f"be one of {' '.join(characters)}"
                raise ValueError(f"{owner}, line {y + 1}, column {x + 1} must {rule}, got {character!r}")
    return np.array([list(line) for line in lines])


def place_of(owner: str, cells: Any, kind: str, characters: str) -> tuple[int, int]:
    """Returns x and y of the one cell with one of the ``characters``; raises a ``ValueError`` unless there is one."""
    found = np.argwhere(np.isin(cells, list(characters))).tolist()
    if not found:
        raise ValueError(f"{owner} must have one {kind}, {' '.join(characters)}, got none")
    if len(found) > 1:
        (first_y, first_x), (y, x) = found[:2]
        first = f"line {first_y + 1}, column {first_x + 1}"
        rule = f"must not be a second {kind} after the first in {first}"
        raise ValueError(f"{owner}, line {y + 1}, column {x + 1} {rule}, got {str(cells[y, x])!r}")
    return found[0][1], found[0][0]


def as_text(cells: Any) -> str:
    """Returns characters by row and column as text."""
    return "\n".join("".join(row) for row in cells.tolist())
