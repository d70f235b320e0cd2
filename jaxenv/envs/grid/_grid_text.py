"""Levels of MiniGrid's grid worlds as text, for those of walls, lava, one locked door with its key, agent and goal.

    #  wall      .  floor     > v < ^  the agent, by its direction     G  the goal
    L  lava      K  the key   D  the door, locked     d  closed        _  open

Lava is in texts of tasks with lava, door and key in those of tasks with a door.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv.core.levels import sample_level
from jaxenv.envs._level_text import AGENTS, TextForm, as_text, listed, place_of, read_cells
from jaxenv.envs.grid._cell_set import CellSet, plane_of
from jaxenv.envs.grid._view import Pose

_DOORS = "_dD"  # open, closed, locked


def characters(task: Any) -> str:
    """Returns the characters of texts of a task; raises a ``ValueError`` for a task without them."""
    level = _shapes(task)
    if not hasattr(level, "lock"):
        raise ValueError(f"{task}: its levels have no text form, which knows lava, one door and its key alone")
    return ".#G" + AGENTS + "L" * (level.lava is not None) + "KDd_" * (level.lock is not None)


def _shapes(task: Any) -> Any:
    """Returns the shapes of the levels of a task; nothing is computed."""
    return jax.eval_shape(lambda: sample_level(task, jax.random.key(0)))


def parse_levels(task: Any, texts: str | Sequence[str]) -> Any:
    """Reads levels from text, one per lane: ``#``, ``.``, ``>v<^``, ``G``, in some tasks ``L``, or ``K`` and ``D``.

    Smaller grids get walls on the right and below. A ``ValueError`` names text, line, column, rule and character.
    """
    known = characters(task)
    size, planes, places = task.max_size, [], []
    things = {"goal": "G", "agent": AGENTS} | ({"key": "K", "door": _DOORS} if "K" in known else {})
    for i, text in enumerate(listed(texts)):
        owner = f"parse_levels: text {i}"
        cells = read_cells(owner, text, known, size, size)
        _check_border(owner, cells)
        planes.append(np.pad(cells, [(0, size - n) for n in cells.shape], constant_values="#"))
        found = [(*place_of(owner, cells, thing, kinds), kinds) for thing, kinds in things.items()]
        places.append([(x, y, kinds.index(cells[y, x])) for x, y, kinds in found])

    plane = np.stack(planes)
    goal, agent, *lock = np.transpose(np.array(places, np.int32), (1, 2, 0))  # of each thing: x, y and kind, [3, B]
    options: dict[str, Any] = {}
    if "L" in known:
        options["lava"] = CellSet.from_plane(jnp.asarray(plane == "L"))
    if lock:
        key, door = lock
        options["lock"] = type(_shapes(task).lock)(_cell(door), jnp.asarray(door[2]), _cell(key))
    floor = CellSet.from_plane(jnp.asarray(plane != "#"))
    return task.start(floor, _cell(goal), Pose(*map(jnp.asarray, agent)), **options)


def _cell(place: np.ndarray) -> jax.Array:
    return jnp.asarray(place[0] + 32 * place[1])


def _check_border(owner: str, cells: Any) -> None:
    inner = np.zeros(cells.shape, bool)
    inner[1:-1, 1:-1] = True
    if (wrong := np.argwhere(~inner & (cells != "#"))).size:
        y, x = wrong[0]
        place = f"{owner}, line {y + 1}, column {x + 1}"
        raise ValueError(f"{place} must be a wall, #, as all cells at the border, got {str(cells[y, x])!r}")


def format_levels(task: Any, level: Any) -> list[str]:
    """Returns the levels of all lanes as text, which `parse_levels` reads."""
    characters(task)  # raises for a task without texts
    size = task.max_size
    level = jax.tree.map(np.asarray, level)
    texts = []
    for lane in range(level.goal.shape[0]):
        here = jax.tree.map(lambda x, lane=lane: x[lane], level)
        cells = np.where(plane_of(here.floor.rows, size), ".", "#")
        if here.lava is not None:
            cells[plane_of(here.lava.rows, size)] = "L"
        things = [(here.goal, "G", "goal"), (here.agent.x + 32 * here.agent.y, AGENTS[here.agent.direction], "agent")]
        if here.lock is not None:
            if here.lock.key < 0:
                raise ValueError(f"format_levels: the key must lie in a cell, in lane {lane} the agent carries it")
            things += [(here.lock.key, "K", "key"), (here.lock.door, _DOORS[here.lock.door_state], "door")]
        for number, character, name in things:
            y, x = divmod(int(number), 32)
            if cells[y, x] != ".":
                rule = f"the {name} must have a cell of its own"
                raise ValueError(f"format_levels: {rule}, in lane {lane} it is with {cells[y, x]!s}")
            cells[y, x] = character
        texts.append(as_text(cells))
    return texts


TEXT_FORM = TextForm(
    text=lambda task, key: format_levels(task, sample_level(task, key))[0],
    with_text=lambda task, text: task.with_level(parse_levels(task, text)),
)
