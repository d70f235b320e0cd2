"""Kitchens as text."""

import functools
from typing import NamedTuple

import numpy as np

# The first five layouts of Carroll et al. (2019), with the symbols of JaxMARL but for the cooks.
LAYOUTS = {
    "cramped_room": """
        WWPWW
        O0 1O
        W   W
        WBWXW""",
    "asymm_advantages": """
        WWWWWWWWW
        O WXWOW X
        W   P   W
        W 0 P1  W
        WWWBWBWWW""",
    "coord_ring": """
        WWWPW
        W 0 P
        B1W W
        O   W
        WOXWW""",
    "forced_coord": """
        WWWPW
        O W1P
        O0W W
        B W W
        WWWXW""",
    "counter_circuit": """
        WWWPPWWW
        W 0    W
        B WWWW X
        W     1W
        WWWOOWWW""",
}
# What a cell is. Counters and pots are numbered, row by row.
FLOOR, COUNTER, ONIONS, PLATES, POT, DELIVERY = range(6)
_KINDS = {" ": FLOOR, "0": FLOOR, "1": FLOOR, "W": COUNTER, "O": ONIONS, "B": PLATES, "P": POT, "X": DELIVERY}
_LARGEST = 64  # cells; an observation codes a cell and two bits in a byte
_NUMBERS = 8  # `Layout.cells` has the kind below the number


class Layout(NamedTuple):
    """A kitchen."""

    kinds: np.ndarray  # int32 [H, W]
    cells: np.ndarray  # int32 [H * W], the kind of a cell plus 8 times the number of the counter or pot
    cooks: tuple[int, int]  # the cells in which the cooks start, x + W * y

    def where(self, kind: int) -> np.ndarray:
        """Returns the cells of a kind, in the order of their numbers: int32 ``[N]``."""
        return np.flatnonzero(self.kinds == kind).astype(np.int32)


@functools.lru_cache(maxsize=64)
def parse(layout: str) -> Layout:
    """Returns the kitchen of a name in `LAYOUTS`, or of a text with a line per row."""

    def check(valid: bool, rule: str) -> None:
        if not valid:
            raise ValueError(f"Overcooked: layout {rule}, got {layout!r}")

    check("\n" in layout or layout in LAYOUTS, f"must be a text of several lines or one of {', '.join(LAYOUTS)}")
    rows = [row.strip() for row in LAYOUTS.get(layout, layout).strip().split("\n")]
    symbols = "".join(rows)
    check(len({len(row) for row in rows}) == 1, "must have rows of the same length")
    check(set(symbols) <= set(_KINDS), f"must consist of {', '.join(map(repr, _KINDS))}")
    check(len(symbols) <= _LARGEST, f"must have at most {_LARGEST} cells")
    check(symbols.count("0") == symbols.count("1") == 1, "must have one cook 0 and one cook 1")
    kinds = np.array([[_KINDS[symbol] for symbol in row] for row in rows], np.int32)
    border = np.concatenate([kinds[0], kinds[-1], kinds[:, 0], kinds[:, -1]])
    check(bool((border != FLOOR).all()), "must have no floor in its outer rows and columns")

    numbers = np.zeros(kinds.size, np.int32)
    for kind in (COUNTER, POT):
        of_kind = kinds.ravel() == kind
        numbers[of_kind] = np.arange(of_kind.sum())
    return Layout(kinds, kinds.ravel() + _NUMBERS * numbers, (symbols.index("0"), symbols.index("1")))
