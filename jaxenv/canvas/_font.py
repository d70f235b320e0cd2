"""A font of strokes: each character consists of lines on a grid 4 wide and 6 high."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv._util.xla import take_rows

ADVANCE = 5.6 / 6  # from one character to the next, as a fraction of the height
GAP = 1.6 / 6  # the free part of it
_WEIGHT = 0.9  # width of a stroke, in units of the grid

# Strokes are separated by blanks. A stroke is a row of points, two digits each: x from 0 to 4, y from 0 to 6.
# fmt: off
_STROKES = {
    "0": "103041453616050110", "1": "052620 1030", "2": "05163645440040", "3": "05163645443313 334241301001",
    "4": "30360242", "5": "460603334241301001", "6": "36160501103041423303", "7": "064610",
    "8": "13040516364544331302011030414233", "9": "10304145361605041343", "A": "002640 1232",
    "B": "00063645443303 3342413000", "C": "4536160501103041", "D": "00062644422000", "E": "46060040 0333",
    "F": "460600 0333", "G": "45361605011030414323", "H": "0006 4046 0343", "I": "2026 1030 1636", "J": "4641301001",
    "K": "0006 460340", "L": "060040", "M": "0006234640", "N": "00064046", "O": "103041453616050110",
    "P": "00063645443303", "Q": "103041453616050110 2240", "R": "00063645443303 2340",
    "S": "453616050413334241301001", "T": "0646 2620", "U": "060110304146", "V": "062046", "W": "0610233046",
    "X": "0046 0640", "Y": "062346 2320", "Z": "06460040", " ": "", ".": "1010", ",": "2110", ":": "1111 1414",
    ";": "2110 2424", "+": "1333 2224", "-": "1333", "=": "1232 1434", "/": "0046", "%": "0046 0505 4141",
    "(": "36252130", ")": "16252110", "!": "2622 2020", "?": "051636454422 2020",
}
# fmt: on


def coverage(text: str, x: np.ndarray, y: np.ndarray, height: float, scale: float, align: float = 0.0) -> np.ndarray:
    """Returns the fraction of each pixel that a line of text covers, float32 ``[H, W]``.

    ``x``, ``[1, 1, W]``, and ``y``, ``[1, H, 1]``, are coordinates of the pixels relative to the position of the text,
    which has the fraction ``align`` of its length on the left, on its base line. A letter is ``height`` high in the
    same units, of ``scale`` pixels each.
    """
    unit = height / 6
    x, y = x[0, 0] + align * (len(text) * ADVANCE - GAP) * height, y[0, :, 0]
    covered = np.zeros((len(y), len(x)), np.float32)
    # Thin strokes of small letters are widened to a pixel.
    radius = max(_WEIGHT / 2 * unit, 0.5 / scale)
    for i, character in enumerate(text.upper()):
        if character not in _STROKES:
            raise ValueError(f"text: no character {character!r}, the font has {''.join(_STROKES)}")
        left = i * ADVANCE * height
        reach = radius + 1 / scale
        columns = np.flatnonzero((x >= left - reach) & (x <= left + 4 * unit + reach))
        rows = np.flatnonzero((y >= -reach) & (y <= height + reach))
        if not (len(columns) and len(rows)):
            continue
        distance = _distance(character, (x[columns] - left)[None] / unit, y[rows][:, None] / unit) * unit
        ink = np.clip(0.5 - (distance - radius) * scale, 0, 1)
        window = np.ix_(rows, columns)
        covered[window] = np.maximum(covered[window], ink)
    return covered


def number(
    value: jax.Array, digits: int, x: np.ndarray, y: np.ndarray, height: float, scale: float, align: float
) -> jax.Array:
    """Returns the fraction of each pixel that a number covers, float32 ``[B, H, W]``.

    The last ``digits`` digits of ``value``, int32 ``[B]``, are shown without leading zeros. All else is as for
    `coverage`.
    """
    powers = 10 ** np.arange(digits, dtype=np.int32)
    longer = jnp.sum(value[:, None] >= powers[None, 1:], axis=-1, dtype=jnp.int32)  # digits after the first
    covered = jnp.zeros((), jnp.float32)
    for place, power in enumerate(powers):
        ink, rows, columns = _cropped(_digits(place, digits, x, y, height, scale, align))
        shown = take_rows(ink, longer * np.int32(10) + value // power % 10)
        covered = covered + jnp.pad(shown, ((0, 0), rows, columns))
    return covered


def _digits(
    place: int, most: int, x: np.ndarray, y: np.ndarray, height: float, scale: float, align: float
) -> np.ndarray:
    """Returns the coverage of each digit in numbers of 1 to ``most`` digits: float32 ``[most * 10, H, W]``.

    ``place`` counts from the end of a number. Numbers with fewer digits cover nothing there.
    """
    covered = np.zeros((most, 10, y.shape[1], x.shape[2]), np.float32)
    for count in range(place + 1, most + 1):
        left = (count - 1 - place) * ADVANCE * height - align * (count * ADVANCE - GAP) * height
        covered[count - 1] = [coverage(str(i), x - np.float32(left), y, height, scale) for i in range(10)]
    return covered.reshape(most * 10, *covered.shape[2:])


def _cropped(covered: np.ndarray) -> tuple[np.ndarray, tuple[int, int], tuple[int, int]]:
    """Crops pictures ``[N, H, W]`` to the part covered in any; also returns the rows and columns cut around it."""
    margins = []
    for axis in (1, 2):
        (used,) = np.nonzero(covered.any(axis=(0, 3 - axis)))
        first, end = (int(used[0]), int(used[-1]) + 1) if len(used) else (0, 1)
        margins.append((first, covered.shape[axis] - end))
        covered = covered.take(range(first, end), axis)
    return covered, margins[0], margins[1]


def _distance(character: str, x: Any, y: Any) -> np.ndarray:
    """Returns the distances of points of the grid to the strokes of a character."""
    distance = np.full(np.broadcast_shapes(x.shape, y.shape), np.inf)
    for stroke in _STROKES[character].split():
        points = [(int(stroke[i]), int(stroke[i + 1])) for i in range(0, len(stroke), 2)]
        for (a, b), (c, d) in zip(points, points[1:] or points, strict=False):
            along = ((x - a) * (c - a) + (y - b) * (d - b)) / max((c - a) ** 2 + (d - b) ** 2, 1)
            along = np.clip(along, 0, 1)
            distance = np.minimum(distance, np.hypot(x - a - along * (c - a), y - b - along * (d - b)))
    return distance
