"""The colours of all pictures, float32 ``[3]`` from 0 to 1."""

import numpy as np

from jaxenv._util.checks import check_array, check_real


def rgb(code: str) -> np.ndarray:
    """Converts a code such as ``"#3b7dd8"`` to a colour."""
    return np.array([int(code[i : i + 2], 16) for i in (1, 3, 5)], np.float32) / np.float32(255)


def mix(first: np.ndarray, second: np.ndarray, fraction: float) -> np.ndarray:
    """Mixes two colours; ``fraction`` is the weight of the second."""
    for name, colour in (("first", first), ("second", second)):
        check_array("mix", name, colour)
        if np.shape(colour) != (3,):
            raise ValueError(f"mix: {name} must be a colour, three numbers, got shape {np.shape(colour)}")
    check_real("mix", "fraction", fraction, 0, 1)
    return (first + (second - first) * np.float32(fraction)).astype(np.float32)


# Grounds
PAPER = rgb("#f6f3ec")
SKY = rgb("#dbe8f3")
NIGHT = rgb("#171b26")
# Neutral
WHITE = rgb("#ffffff")
SILVER = rgb("#cfd4da")
GREY = rgb("#8e97a3")
INK = rgb("#2d3240")
BLACK = rgb("#0c0e13")
# Things
BLUE = rgb("#3a78c9")
TEAL = rgb("#2f9e97")
GREEN = rgb("#55a860")
GOLD = rgb("#efbd43")
ORANGE = rgb("#ec8537")
RED = rgb("#dc4c48")
PINK = rgb("#e284ab")
PURPLE = rgb("#8a67bd")
BROWN = rgb("#8b6447")
SAND = rgb("#dccaa2")
