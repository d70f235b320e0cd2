"""Cross a frozen lake from the start to the goal without falling into a hole; the ice may be slippery.

Reference: Gymnasium ``FrozenLake-v1`` and ``FrozenLake8x8-v1`` (tests/envs/toy_text/test_frozen_lake.py).

Observation   int32        row * columns + column
Action        int32        0 left, 1 down, 2 right, 3 up; at the edge one stays
Reward        that of the tile reached, from reward_schedule: the goal's (1), a hole's (0), any other's (0)
Starts        on the tile S; on one of them, each as likely, where the map has several
Terminates    on the goal G or in a hole H
Time limit    100, FrozenLake8x8-v1 200 (registry)
env_info      prob: float32, the probability of the outcome that happened

On slippery ice one moves as intended with probability success_rate, else to either side, each as likely.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv._actions import toward
from jaxenv._checks import is_concrete
from jaxenv.envs.toy_text.tabular import Outcome, Tabular, marked, slid, split

MAPS = {
    "4x4": ("SFFF", "FHFH", "FFFH", "HFFG"),
    "8x8": ("SFFFFFFF", "FFFFFFFF", "FFFHFFFF", "FFFFFHFF", "FFFHFFFF", "FHHFFFHF", "FHFFHFHF", "FFFHFFFG"),
}


@tree.struct
class Params:
    """Numbers of the task, the same for all lanes or one each."""

    success_rate: float = 1 / 3  # probability of moving as intended, where the ice is slippery
    reward_schedule: Any = tree.leaf(default=(1.0, 0.0, 0.0), rank=1)  # [3]: goal, hole, any other tile


class FrozenLake(Tabular):
    """The frozen lake; see the module.

    Attributes:
        desc: the map, one text a row of the letters S, F, H and G, or Gymnasium's own array of single bytes; ``None``
            for the one named ``map_name``.
        map_name: ``"4x4"`` or ``"8x8"``.
        is_slippery: whether one may move to the side.
    """

    params: Params = Params()
    desc: Any = tree.static(default=None)
    map_name: str = tree.static(default="4x4")
    is_slippery: bool = tree.static(default=True)

    # Behind the guard the ice is not drawn again in every fusion.
    reset_strategy = {"cpu": "cond", "default": "select"}

    def check(self):
        if self.desc is None and self.map_name not in MAPS:
            raise ValueError(f"{self}: map_name must be one of {', '.join(MAPS)}, got {self.map_name!r}")
        rows = self.rows
        if not (isinstance(rows, tuple) and rows and all(isinstance(row, str) and row for row in rows)):
            raise ValueError(f"{self}: desc must hold one text for each row, got {rows!r}")
        if len({len(row) for row in rows}) > 1:
            raise ValueError(f"{self}: desc must have rows of one length, got {rows}")
        if unknown := set("".join(rows)) - set("SFHG"):
            raise ValueError(f"{self}: desc must be made of S, F, H and G, got {min(unknown)!r} in {rows}")
        if "S" not in "".join(rows):
            raise ValueError(f"{self}: desc must have a start S, got {rows}")
        rate, schedule = self.params.success_rate, self.params.reward_schedule
        if is_concrete(rate) and not np.all((np.asarray(rate) >= 0) & (np.asarray(rate) <= 1)):
            raise ValueError(f"{self}: success_rate must lie in [0, 1], got {rate}")
        if hasattr(schedule, "shape") and schedule.shape[-1] != 3:
            raise ValueError(f"{self}: reward_schedule must be 3 numbers (goal, hole, other), got {schedule.shape[-1]}")

    @property
    def rows(self) -> tuple[str, ...]:
        """The map in use."""
        if self.desc is None:
            return MAPS[self.map_name]
        return tuple(map(_text, self.desc)) if isinstance(self.desc, tuple) else self.desc

    def outcome(self, number, action, choice):
        tiles = np.array([list(row) for row in self.rows])
        num_rows, num_columns = tiles.shape
        direction = slid(action, choice) if self.is_slippery else action
        row, column = split(number, num_columns)
        row = jnp.clip(row + toward(direction, 1, 3), 0, num_rows - 1)
        column = jnp.clip(column + toward(direction, 2, 0), 0, num_columns - 1)

        # Who stands on the goal or in a hole stays there for nothing: past an end, and in the table.
        over = marked((tiles == "G") | (tiles == "H"), number)
        number = jnp.where(over, number, row * np.int32(num_columns) + column)
        goal, hole = (marked(tiles == tile, number) for tile in "GH")
        r = self.params.reward_schedule
        reward = jnp.where(goal, r[..., 0], jnp.where(hole, r[..., 1], r[..., 2]))
        prob = jnp.where(over, np.float32(1), self._prob(choice))
        return Outcome(number, jnp.where(over, np.float32(0), reward), goal | hole, prob)

    def _prob(self, choice):
        if not self.is_slippery:
            return np.float32(1)
        rate = self.params.success_rate
        return jnp.where(choice == 1, rate, (1 - rate) / 2)

    def probabilities(self):
        if not self.is_slippery:
            return np.ones(1)
        rate = np.asarray(self.params.success_rate, np.float64)
        return np.stack([(1 - rate) / 2, rate, (1 - rate) / 2])

    def choose(self, stream):
        if not self.is_slippery:
            return super().choose(stream)
        rate = self.params.success_rate
        aside = (1 - rate) / 2
        u = random.uniform(stream)
        return (u >= aside).astype(jnp.int32) + (u >= aside + rate).astype(jnp.int32)

    def first_states(self):
        return np.flatnonzero([tile == "S" for tile in "".join(self.rows)]).astype(np.int32)

    def observation_spec(self):
        return specs.discrete(len(self.rows) * len(self.rows[0]), name="observation")

    def action_spec(self):
        return specs.discrete(4, name="action")


def generate_random_map(size: int = 8, p: float = 0.8, seed: int | None = None) -> tuple[str, ...]:
    """A random map on which the goal can be reached, for ``FrozenLake(desc=...)``: Gymnasium's for the same seed.

    Args:
        size: tiles along either side, at least 2. Start and goal are the first and the last tile.
        p: probability that a tile is frozen and no hole.
        seed: of NumPy's generator; ``None`` for another map every time.

    Raises:
        ValueError: if no such map exists.
    """
    if not isinstance(size, int | np.integer):
        raise ValueError(f"generate_random_map: size must be a whole number, got {size!r}")
    if size < 2:
        raise ValueError(f"generate_random_map: size must be at least 2, got {size}")
    if not 0 < p <= 1:
        raise ValueError(f"generate_random_map: p must lie in (0, 1], got {p}")
    rng = np.random.default_rng(seed)
    while True:
        tiles = rng.choice(["F", "H"], (size, size), p=[p, 1 - p])
        tiles[0, 0], tiles[-1, -1] = "S", "G"
        if _goal_in_reach(tiles != "H"):
            return tuple("".join(row) for row in tiles.tolist())


def _text(row: Any) -> Any:
    """A row of letters or of bytes as one text; anything else as it is."""
    if isinstance(row, bytes):
        return row.decode("latin-1")
    if isinstance(row, tuple) and all(isinstance(letter, str | bytes) for letter in row):
        return "".join(map(_text, row))
    return row


def _goal_in_reach(free: np.ndarray) -> bool:
    """Whether a way leads from the first to the last tile: what is reached spreads until it spreads no more."""
    reached = np.zeros(np.add(free.shape, 2), bool)  # with a margin, so that every tile has four neighbours
    inside = reached[1:-1, 1:-1]
    inside[0, 0], count = True, 0
    while inside.sum() > count:
        count = int(inside.sum())
        beside = reached[:-2, 1:-1] | reached[2:, 1:-1] | reached[1:-1, :-2] | reached[1:-1, 2:]
        inside |= beside & free
    return bool(inside[-1, -1])
