"""Cross a frozen lake from the start to the goal without falling into a hole; the ice may be slippery.

Reference: Gymnasium ``FrozenLake-v1`` and ``FrozenLake8x8-v1`` (tests/envs/toy_text/test_frozen_lake.py).

Observation   int32        row * columns + column
Action        int32        0 left, 1 down, 2 right, 3 up; moves off the map have no effect
Reward        reward_schedule of the tile reached: 1 for the goal, 0 for a hole, 0 for any other tile
Starts        on the tile S, drawn uniformly where the map has several
Terminates    on the goal G or in a hole H
Time limit    100, FrozenLake8x8-v1 200 (registry)
env_info      prob: float32, the probability of the outcome that led here, 1 at the start

On slippery ice the agent moves as intended with probability success_rate, else to a uniformly random side.
"""

from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import specs, tree
from jaxenv.canvas import BLUE, GREY, INK, NIGHT, ORANGE, SKY, WHITE, Canvas, mix
from jaxenv.core import check_choice, check_integer, toward
from jaxenv.envs import _drawing
from jaxenv.envs._bitmap import lookup
from jaxenv.envs._level_text import TextForm, read_cells
from jaxenv.envs.toy_text.tabular import Outcome, State, Tabular, div_mod, slip

MAPS = {
    "4x4": ("SFFF", "FHFH", "FFFH", "HFFG"),
    "8x8": ("SFFFFFFF", "FFFFFFFF", "FFFHFFFF", "FFFFFHFF", "FFFHFFFF", "FHHFFFHF", "FHFFHFHF", "FFFHFFFG"),
}


@tree.struct
class Params:
    """Probabilities and rewards: one value for all lanes, or one per lane."""

    success_rate: float = tree.leaf(default=1 / 3, low=0, high=1, doc="chance of moving as intended on slippery ice")
    reward_schedule: Any = tree.leaf(default=(1.0, 0.0, 0.0), rank=1, doc="[3]: goal, hole, any other tile")


class FrozenLake(Tabular):
    """The frozen lake; the module docstring is the specification."""

    params: Params = Params()
    desc: Any = tree.static(
        default=None,
        doc="the map as text of the letters S, F, H and G with a line per row, as one string per row, or as "
        "Gymnasium's array of single bytes; ``None`` for the map called ``map_name``",
    )
    map_name: str = tree.static(default="4x4", doc='``"4x4"`` or ``"8x8"``')
    is_slippery: bool = tree.static(default=True, doc="whether the agent may move to the side")

    text_form: ClassVar[TextForm] = TextForm(
        text=lambda task, key: "\n".join(task.rows), with_text=lambda task, text: _with_map(task, text)
    )

    # On CPU `cond` keeps XLA from repeating the draw in every fusion.
    reset_strategy = {"cpu": "cond", "default": "select"}
    action_names = ("left", "down", "right", "up")

    def check(self) -> None:
        if self.desc is None:
            check_choice(f"{self}", "map_name", self.map_name, tuple(MAPS))
        if isinstance(self.desc, str):
            read_cells(f"{self}: desc", self.desc, "SFHG")
        rows: Any = self.rows
        if not (isinstance(rows, tuple) and rows and all(isinstance(row, str) and row for row in rows)):
            raise ValueError(f"{self}: desc must contain one string per row, got {rows!r}")
        if len({len(row) for row in rows}) > 1:
            raise ValueError(f"{self}: desc must have rows of equal length, got {rows}")
        if unknown := set("".join(rows)) - set("SFHG"):
            raise ValueError(f"{self}: desc must consist of S, F, H and G, got {min(unknown)!r} in {rows}")
        if "S" not in "".join(rows):
            raise ValueError(f"{self}: desc must contain a start S, got {rows}")
        schedule = self.params.reward_schedule
        if hasattr(schedule, "shape") and schedule.shape[-1] != 3:
            raise ValueError(f"{self}: reward_schedule must be 3 numbers (goal, hole, other), got {schedule.shape[-1]}")

    @property
    def rows(self) -> tuple[str, ...]:
        """The map in use."""
        if self.desc is None:
            return MAPS[self.map_name]
        if isinstance(self.desc, str):
            return tuple(self.desc.split())
        return tuple(map(_as_text, self.desc)) if isinstance(self.desc, tuple) else self.desc

    def outcome(self, index: jax.Array, action: jax.Array, choice: jax.Array) -> Outcome:
        tiles = np.array([list(row) for row in self.rows])
        num_rows, num_columns = tiles.shape
        direction = slip(action, choice) if self.is_slippery else action
        row, column = div_mod(index, num_columns)
        row = jnp.clip(row + toward(direction, 1, 3), 0, num_rows - 1)
        column = jnp.clip(column + toward(direction, 2, 0), 0, num_columns - 1)

        # Goal and holes are absorbing with reward 0, in steps past the end and in the table.
        over = lookup((tiles == "G") | (tiles == "H"), index)
        index = jnp.where(over, index, row * np.int32(num_columns) + column)
        goal, hole = (lookup(tiles == tile, index) for tile in "GH")
        r = self.params.reward_schedule
        reward = jnp.where(goal, r[..., 0], jnp.where(hole, r[..., 1], r[..., 2]))
        prob: Any = np.float32(1)
        if self.is_slippery:
            aside, ahead, _ = self.chances()
            prob = jnp.where(choice == 1, ahead, aside)
        prob = jnp.where(over, np.float32(1), prob)
        return Outcome(index, jnp.where(over, np.float32(0), reward), goal | hole, prob)

    def chances(self, of: Callable[[Any], Any] = lambda param: param) -> tuple[Any, ...]:
        ahead = of(self.params.success_rate)
        aside = (1 - ahead) / 2
        return (aside, ahead, aside) if self.is_slippery else (1.0,)

    def first_states(self) -> np.ndarray:
        return np.flatnonzero([tile == "S" for tile in "".join(self.rows)]).astype(np.int32)

    def observation_spec(self) -> specs.Bounded:
        return specs.discrete(len(self.rows) * len(self.rows[0]), name="observation")

    def action_spec(self) -> specs.Bounded:
        return specs.discrete(4, name="action")

    def draw(self, state: State, canvas: Canvas) -> Canvas:
        tiles = np.array([list(row) for row in self.rows])
        ice = _slippery_ice if self.is_slippery else _ice
        canvas = canvas.fill(NIGHT).tiles(np.zeros((1, *tiles.shape), np.int32), [ice])
        kinds = np.array([["FHSG".index(tile) for tile in row] for row in self.rows], np.int32)
        canvas = canvas.tiles(kinds[None], [None, _hole, lambda c: c.ring(0.5, 0.5, 0.3, 0.1, GREY), _drawing.goal])
        in_hole = lookup(tiles == "H", state.index).astype(jnp.int32)
        walker = _drawing.place(state.index, tiles.shape, 1 + in_hole)
        return canvas.tiles(walker, [None, lambda c: _drawing.person(c, ORANGE), _sunk])


def _with_map(task: FrozenLake, text: str) -> FrozenLake:
    changed = tree.rebuild(task, desc=text.strip())
    changed.check()
    return changed


def generate_random_map(size: int = 8, p: float = 0.8, seed: int | None = None) -> tuple[str, ...]:
    """Draws a map with a reachable goal for ``FrozenLake(desc=...)``; equals Gymnasium's map for the same seed.

    ``size`` is the number of rows and of columns, at least 2; start and goal are the first and the last tile. A tile is
    frozen with probability ``p``, else a hole. ``seed`` seeds NumPy's generator; ``None`` draws a new map each time.
    """
    check_integer("generate_random_map", "size", size, 2)
    if not 0 < p <= 1:
        raise ValueError(f"generate_random_map: p must be in (0, 1], got {p}")
    rng = np.random.default_rng(seed)
    while True:
        tiles = rng.choice(["F", "H"], (size, size), p=[p, 1 - p])
        tiles[0, 0], tiles[-1, -1] = "S", "G"
        if _is_solvable(tiles != "H"):
            return tuple("".join(row) for row in tiles.tolist())


def _as_text(row: Any) -> Any:
    """Joins a row of letters or bytes into one string; returns anything else unchanged."""
    if isinstance(row, bytes):
        return row.decode("latin-1")
    if isinstance(row, tuple) and all(isinstance(letter, str | bytes) for letter in row):
        return "".join(map(_as_text, row))
    return row


def _is_solvable(free: np.ndarray) -> bool:
    """Returns whether free tiles connect the first tile to the last, by flood fill."""
    reached = np.zeros(np.add(free.shape, 2), bool)  # with a margin, so that every tile has four neighbours
    inside = reached[1:-1, 1:-1]
    inside[0, 0], count = True, 0
    while inside.sum() > count:
        count = int(inside.sum())
        adjacent = reached[:-2, 1:-1] | reached[2:, 1:-1] | reached[1:-1, :-2] | reached[1:-1, 2:]
        inside |= adjacent & free
    return bool(inside[-1, -1])


# --- the picture -----------------------------------------------------------------------------------------------------

_WATER = mix(BLUE, NIGHT, 0.45)


def _ice(canvas: Canvas) -> Canvas:
    return _drawing.floor(canvas, SKY)


def _slippery_ice(canvas: Canvas) -> Canvas:
    """Paints ice that shines."""
    canvas = _ice(canvas).line(0.2, 0.6, 0.4, 0.8, 0.05, WHITE)
    return canvas.line(0.56, 0.18, 0.8, 0.42, 0.05, WHITE).line(0.72, 0.18, 0.8, 0.26, 0.05, WHITE)


def _hole(canvas: Canvas) -> Canvas:
    canvas = canvas.ellipse(0.5, 0.47, 0.8, 0.68, mix(SKY, BLUE, 0.45))
    return canvas.ellipse(0.5, 0.44, 0.74, 0.56, _WATER)


def _sunk(canvas: Canvas) -> Canvas:
    """Paints a walker in a hole."""
    for border, paint in ((0.05, INK), (0.0, ORANGE)):
        canvas = canvas.box(0.5, 0.44, 0.56 + 2 * border, 0.24 + 2 * border, paint, corner=0.12)
        canvas = canvas.disc(0.5, 0.68, 0.18 + border, paint)
    return canvas.ellipse(0.5, 0.31, 0.68, 0.22, _WATER)
