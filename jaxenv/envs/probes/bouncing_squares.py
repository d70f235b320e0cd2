"""Watch two rectangles that bounce off the borders of the image and off each other: a stream of images, no task.

Reference: ALF's ``BouncingSquares`` (tests/envs/probes/test_bouncing_squares.py).

Observation   uint8[side, side, 3]   the image, side is size * pixels_per_cell; one channel without color
Action        int32   0 or 1: neither does anything
Reward        0
Starts        sides of a quarter or a fifth of the size, the corner anywhere but in the last place to the right and
              below, the second where it does not overlap the first, speeds of -3 to 3 cells a step along either axis,
              any of eight colours, white without color; all uniform
Terminates    never
Time limit    10 (registry)

A rectangle that would leave the image stays where it is and turns round, along the rows first: both ways at once it
never turns. If the two would overlap both stay and change speeds. Noise, as in the original, is drawn anew for every
image, on the rectangles alone, its negative half is cut off and bytes overflow: white with a little noise is black.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.random import Stream
from jaxenv.task import Task, Transition

COLOURS = np.array(
    [
        [0, 255, 0],
        [0, 0, 255],
        [120, 120, 120],
        [255, 255, 0],
        [0, 255, 255],
        [255, 0, 255],
        [120, 0, 120],
        [0, 120, 120],
    ],
    np.uint8,
)


@tree.struct
class Square:
    """A rectangle, each number int32 ``[B]``, in cells; rows are counted from the top."""

    row: jax.Array  # of the corner nearest to the origin
    column: jax.Array
    height: jax.Array
    width: jax.Array
    row_speed: jax.Array
    column_speed: jax.Array
    colour: jax.Array  # place in COLOURS; 0 without colours


@tree.struct
class State:
    """``noise``: two words uint32 ``[B]`` from which the noise of this image is drawn, or none."""

    first: Square
    second: Square
    noise: tuple[jax.Array, ...]


class BouncingSquares(Task):
    """Two bouncing rectangles; see the module.

    Attributes:
        size: of the image in cells, at least 5.
        pixels_per_cell: along either axis.
        noise_level: standard deviation of the noise, as a share of 255; 0 for none.
        color: whether the image has colours.
    """

    size: int = tree.static(default=64)
    pixels_per_cell: int = tree.static(default=1)
    noise_level: float = tree.static(default=0.0)
    color: bool = tree.static(default=False)

    def check(self):
        for name, least in (("size", 5), ("pixels_per_cell", 1), ("noise_level", 0)):
            value = getattr(self, name)
            if not isinstance(value, int | float | np.number):
                raise ValueError(f"{self}: {name} must be one number, got {value}")
            if not value >= least:
                raise ValueError(f"{self}: {name} must be at least {least}, got {value}")
        if not math.isfinite(self.noise_level):
            raise ValueError(f"{self}: noise_level must be finite, got {self.noise_level}")

    def initial(self, stream):
        flags, speeds, row, column, place = random.separate_bits(stream, 5)
        sides = [jnp.where(_digit(flags, 2, i) == 0, np.int32(self.size // 4), self.size // 5) for i in range(4)]
        height, width, other_height, other_width = sides
        row, column = _below(row, self.size - height), _below(column, self.size - width)
        digits = _below(speeds, np.uint32(7**4))
        velocity = [digits // 7**i % 7 - 3 for i in range(4)]
        colours = [_digit(flags, 8, 2 + i) if self.color else jnp.zeros_like(row) for i in range(2)]
        first = Square(row, column, height, width, velocity[0], velocity[1], colours[0])
        row, column = _place_beside(first, other_height, other_width, self.size, place)
        second = Square(row, column, other_height, other_width, velocity[2], velocity[3], colours[1])
        return State(first, second, self._noise_words(stream))

    def transition(self, state, action, stream):
        first, second = _moved(state.first, self.size), _moved(state.second, self.size)
        together = _overlap(first, second)
        first, second = (
            tree.rebuild(
                moved,
                row=jnp.where(together, before.row, moved.row),
                column=jnp.where(together, before.column, moved.column),
                row_speed=jnp.where(together, other.row_speed, moved.row_speed),
                column_speed=jnp.where(together, other.column_speed, moved.column_speed),
            )
            for before, moved, other in ((state.first, first, second), (state.second, second, first))
        )
        nothing = jnp.zeros(together.shape, jnp.float32)
        return Transition(State(first, second, self._noise_words(stream)), nothing, terminated=nothing > 0)

    def observe(self, state):
        # They never overlap: what both rows and columns show is one of them, as a byte for each channel.
        image = self._shown(state.first) | self._shown(state.second)
        image = image.reshape(-1, self.size, self.size, 3 if self.color else 1)
        if self.noise_level > 0:
            image = self._noisy(image, state)
        for axis in (1, 2):
            image = jnp.repeat(image, self.pixels_per_cell, axis) if self.pixels_per_cell > 1 else image
        return image

    def observation_spec(self):
        side = self.size * self.pixels_per_cell
        return specs.Bounded((side, side, 3 if self.color else 1), np.uint8, 0, 255, "observation")

    def action_spec(self):
        return specs.discrete(2, name="action")

    def _shown(self, square: Square) -> jax.Array:
        """The image of one rectangle: uint8 ``[B, size, size * channels]``."""
        cell = np.arange(self.size, dtype=np.int32)[None]
        rows = jnp.where(_within(cell, square.row, square.height), np.uint8(255), np.uint8(0))
        columns = _within(cell, square.column, square.width)
        if self.color:
            chosen = square.colour[:, None] == np.arange(len(COLOURS), dtype=np.int32)[None]
            colour = jnp.max(jnp.where(chosen[:, :, None], COLOURS[None], np.uint8(0)), axis=1)
            shown = jnp.where(columns[:, :, None], colour[:, None], np.uint8(0)).reshape(len(columns), 3 * self.size)
        else:
            shown = jnp.where(columns, np.uint8(255), np.uint8(0))
        return rows[:, :, None] & shown[:, None]

    def _noise_words(self, stream: Stream) -> tuple[jax.Array, ...]:
        return random.separate_bits(random.fold_in(stream, "noise"), 2) if self.noise_level > 0 else ()

    def _noisy(self, image: jax.Array, state: State) -> jax.Array:
        first, second = state.noise
        zeros = jnp.zeros_like(first)
        noise = random.normal(Stream(first, second, zeros, zeros), image.shape[1:])
        noise = (jnp.maximum(noise, 0) * np.float32(255 * self.noise_level)).astype(jnp.int32) & 255
        # Every colour has a channel that is not 0.
        return jnp.where(jnp.any(image > 0, axis=-1, keepdims=True), image + noise.astype(jnp.uint8), image)


def _moved(square: Square, size: int) -> Square:
    row, column = square.row + square.row_speed, square.column + square.column_speed
    row_out = (row < 0) | (row + square.height > size)
    column_out = ((column < 0) | (column + square.width > size)) & ~row_out
    stays = row_out | column_out
    return tree.rebuild(
        square,
        row=jnp.where(stays, square.row, row),
        column=jnp.where(stays, square.column, column),
        row_speed=jnp.where(row_out, -square.row_speed, square.row_speed),
        column_speed=jnp.where(column_out, -square.column_speed, square.column_speed),
    )


def _overlap(a: Square, b: Square) -> jax.Array:
    rows = (a.row < b.row + b.height) & (b.row < a.row + a.height)
    return rows & (a.column < b.column + b.width) & (b.column < a.column + a.width)


def _within(cell: np.ndarray, start: jax.Array, length: jax.Array) -> jax.Array:
    """Which cells of a row or column belong to a rectangle: bool ``[B, size]``."""
    return (start[:, None] <= cell) & ((start + length)[:, None] > cell)


# --- where the second is put -----------------------------------------------------------------------------------------

# The original draws places until one is free. The free ones can be counted, so that one draw does: of R rows and C
# columns for the corner, those in r rows and c columns around the first are taken. Rows without a taken place are
# counted first, (R - r) * C places, then the r others, which have C - c each.


def _place_beside(first: Square, height: jax.Array, width: jax.Array, size: int, word: jax.Array) -> tuple:
    """Row and column of a rectangle that does not overlap the first, each free place as likely."""
    num_rows, num_columns = size - height, size - width
    first_row, taken_rows = _taken(first.row, first.height, height, num_rows)
    first_column, taken_columns = _taken(first.column, first.width, width, num_columns)
    number = _below(word, num_rows * num_columns - taken_rows * taken_columns)
    beyond = number - (num_rows - taken_rows) * num_columns
    row, column = number // num_columns, number % num_columns
    row = row + jnp.where(row >= first_row, taken_rows, 0)
    free_columns = jnp.maximum(num_columns - taken_columns, 1)
    beside = beyond % free_columns
    beside = beside + jnp.where(beside >= first_column, taken_columns, 0)
    return (
        jnp.where(beyond < 0, row, first_row + beyond // free_columns),
        jnp.where(beyond < 0, column, beside),
    )


def _taken(start: jax.Array, length: jax.Array, own_length: jax.Array, num_places: jax.Array) -> tuple:
    """The first of the places along one axis at which one would overlap the other, and their number."""
    low = jnp.maximum(start - own_length + 1, 0)
    return low, jnp.maximum(jnp.minimum(start + length, num_places) - low, 0)


def _below(word: jax.Array, bound: jax.Array | np.uint32) -> jax.Array:
    """A random word as int32 in [0, bound)."""
    bound = jnp.broadcast_to(jnp.asarray(bound).astype(jnp.uint32), word.shape)
    return random.high_product(word, bound).astype(jnp.int32)


def _digit(word: jax.Array, base: int, place: int) -> jax.Array:
    """A digit of a random word in a base that is a power of two: int32, each value as likely."""
    width = base.bit_length() - 1
    return ((word >> np.uint32(width * place)) & np.uint32(base - 1)).astype(jnp.int32)
