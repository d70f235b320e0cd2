"""Watch two rectangles that bounce off the image border and off each other: a stream of images without a goal.

Reference: ALF's ``BouncingSquares`` (tests/envs/probes/test_bouncing_squares.py).

Observation   uint8[side, side, 3]   the image, side is size * pixels_per_cell; one channel with color=False
Action        int32   0 or 1; neither has an effect
Reward        0
Starts        side lengths of a quarter or a fifth of the size; the upper left corner anywhere that keeps a rectangle
              off the last row and column, the second rectangle not overlapping the first; speeds of -3 to 3 cells per
              step along each axis; one of eight colours, white with color=False; all uniform
Terminates    never
Time limit    10 (registry)

A rectangle that would leave the image stays where it is and reverses its speed: the vertical one if it would leave
across the top or bottom, otherwise the horizontal one, never both. If the rectangles would overlap, both stay and swap
speeds. As in the original, noise is redrawn for every image and added to the rectangles only, its negative half is
clipped to 0, and bytes overflow: white plus a little noise is black.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.canvas import BLUE, GOLD, GREEN, GREY, NIGHT, PINK, PURPLE, SKY, TEAL, WHITE, Canvas, mix
from jaxenv.core import Task, Transition, take_rows

_HEX = "00ff00 0000ff 787878 ffff00 00ffff ff00ff 780078 007878"
COLOURS = np.array([list(bytes.fromhex(colour)) for colour in _HEX.split()], np.uint8)


@tree.struct
class Square:
    """A rectangle: int32 ``[B]`` each, in cells; rows count from the top."""

    row: jax.Array  # of the upper left corner
    column: jax.Array
    height: jax.Array
    width: jax.Array
    row_speed: jax.Array
    column_speed: jax.Array
    colour: jax.Array  # index into COLOURS; 0 without colours


@tree.struct
class State:
    """The two rectangles and the seed of the noise."""

    first: Square
    second: Square
    noise: tuple[jax.Array, ...]  # two words, uint32[B], that seed the noise of this image; empty without noise


class BouncingSquares(Task):
    """Two bouncing rectangles; see the module docstring."""

    size: int = tree.static(default=64, low=5, doc="side length of the image in cells, at least 5")
    pixels_per_cell: int = tree.static(default=1, low=1, doc="side length of a cell in pixels")
    noise_level: float = tree.static(default=0.0, low=0, below=np.inf, doc="deviation of the noise, a part of 255")
    color: bool = tree.static(default=False, doc="whether the image has colours")

    def initial(self, stream: random.Stream) -> State:
        flags, speeds, row, column, position = random.separate_bits(stream, 5)
        sides = [jnp.where(_digit(flags, 2, i) == 0, np.int32(self.size // 4), self.size // 5) for i in range(4)]
        height, width, other_height, other_width = sides
        row, column = _below(row, self.size - height), _below(column, self.size - width)
        digits = _below(speeds, np.uint32(7**4))
        velocity = [digits // 7**i % 7 - 3 for i in range(4)]
        colours = [_digit(flags, 8, 2 + i) if self.color else jnp.zeros_like(row) for i in range(2)]
        first = Square(row, column, height, width, velocity[0], velocity[1], colours[0])
        row, column = _place_without_overlap(first, other_height, other_width, self.size, position)
        second = Square(row, column, other_height, other_width, velocity[2], velocity[3], colours[1])
        return State(first, second, self._noise_words(stream))

    def transition(self, state: State, action: jax.Array, stream: random.Stream) -> Transition:
        first, second = _move(state.first, self.size), _move(state.second, self.size)
        collide = _overlap(first, second)
        collided = _collide(collide, state.first, first, second), _collide(collide, state.second, second, first)
        after = State(*collided, noise=self._noise_words(stream))
        zero = jnp.zeros(collide.shape, jnp.float32)
        return Transition(after, reward=zero, terminated=zero > 0)

    def observe(self, state: State) -> jax.Array:
        # The rectangles never overlap, so the bitwise or of their images shows both.
        image = self._draw(state.first) | self._draw(state.second)
        image = image.reshape(-1, self.size, self.size, 3 if self.color else 1)
        if self.noise_level > 0:
            first, second = state.noise
            zeros = jnp.zeros_like(first)
            noise = random.normal(random.Stream(first, second, zeros, zeros), image.shape[1:])
            noise = (jnp.maximum(noise, 0) * np.float32(255 * self.noise_level)).astype(jnp.int32) & 255
            # Every colour has a nonzero channel, so this selects the cells of the rectangles.
            image = jnp.where(jnp.any(image > 0, axis=-1, keepdims=True), image + noise.astype(jnp.uint8), image)
        for axis in (1, 2):
            image = jnp.repeat(image, self.pixels_per_cell, axis) if self.pixels_per_cell > 1 else image
        return image

    def observation_spec(self) -> specs.Bounded:
        side = self.size * self.pixels_per_cell
        return specs.Bounded((side, side, 3 if self.color else 1), np.uint8, 0, 255, "observation")

    def action_spec(self) -> specs.Bounded:
        return specs.discrete(2, name="action")

    def _draw(self, square: Square) -> jax.Array:
        """Draws one rectangle, uint8 ``[B, size, size * channels]``."""
        cell = np.arange(self.size, dtype=np.int32)[None]
        rows = jnp.where(_within(cell, square.row, square.height), np.uint8(255), np.uint8(0))
        columns = _within(cell, square.column, square.width)
        if self.color:
            chosen = square.colour[:, None] == np.arange(len(COLOURS), dtype=np.int32)[None]
            colour = jnp.max(jnp.where(chosen[:, :, None], COLOURS[None], np.uint8(0)), axis=1)
            pixels = jnp.where(columns[:, :, None], colour[:, None], np.uint8(0))
            pixels = pixels.reshape(columns.shape[0], 3 * self.size)
        else:
            pixels = jnp.where(columns, np.uint8(255), np.uint8(0))
        return rows[:, :, None] & pixels[:, None]

    def _noise_words(self, stream: random.Stream) -> tuple[jax.Array, ...]:
        return random.separate_bits(random.fold_in(stream, "noise"), 2) if self.noise_level > 0 else ()

    def draw(self, state: State, canvas: Canvas) -> Canvas:
        """Paints the rectangles without noise, in the nearest colours of the palette, with arrows for their speeds."""
        size = self.size
        canvas = canvas.fill(NIGHT).view((0, size), (0, size), margin=0.02)
        canvas = canvas.box(size / 2, size / 2, size, size, mix(NIGHT, WHITE, 0.05))
        for square in (state.first, state.second):
            names = ("row", "column", "height", "width", "row_speed", "column_speed")
            row, column, height, width, down, right = (getattr(square, x).astype(jnp.float32) for x in names)
            x, y = column + width / 2, size - row - height / 2
            canvas = canvas.box(x, y, width, height, take_rows(_PAINTS, square.colour) if self.color else WHITE)
            right, down = (np.float32(size / 40) * speed for speed in (right, down))
            canvas = canvas.arrow(x - right, y + down, x + right, y - down, size / 30, NIGHT)
        return canvas


def _move(square: Square, size: int) -> Square:
    """Moves a rectangle by its speeds, or keeps it in place and reverses one speed if it would leave the image."""
    row, column = square.row + square.row_speed, square.column + square.column_speed
    row_out = (row < 0) | (row + square.height > size)
    column_out = ((column < 0) | (column + square.width > size)) & ~row_out
    stays = row_out | column_out
    row, column = jnp.where(stays, square.row, row), jnp.where(stays, square.column, column)
    row_speed = jnp.where(row_out, -square.row_speed, square.row_speed)
    column_speed = jnp.where(column_out, -square.column_speed, square.column_speed)
    return tree.rebuild(square, row=row, column=column, row_speed=row_speed, column_speed=column_speed)


def _collide(collide: jax.Array, before: Square, moved: Square, other: Square) -> Square:
    """Keeps a rectangle in place with the speeds of the other one, in the lanes of ``collide``."""
    sources = {"row": before, "column": before, "row_speed": other, "column_speed": other}
    fields = {name: jnp.where(collide, getattr(x, name), getattr(moved, name)) for name, x in sources.items()}
    return tree.rebuild(moved, **fields)


def _overlap(a: Square, b: Square) -> jax.Array:
    rows = (a.row < b.row + b.height) & (b.row < a.row + a.height)
    return rows & (a.column < b.column + b.width) & (b.column < a.column + a.width)


def _within(cell: np.ndarray, start: jax.Array, length: jax.Array) -> jax.Array:
    """Returns which cells along an axis belong to a rectangle, bool ``[B, size]``."""
    return (start[:, None] <= cell) & ((start + length)[:, None] > cell)


# --- position of the second rectangle --------------------------------------------------------------------------------

# The original draws positions until one is free. The free positions can be counted, so a single draw suffices: of the
# R * C positions of the corner, those in r rows and c columns around the first rectangle overlap it. The positions in
# rows without overlap are numbered first, (R - r) * C of them, then the C - c free ones of each of the other r rows.


def _place_without_overlap(
    first: Square, height: jax.Array, width: jax.Array, size: int, word: jax.Array
) -> tuple[Any, ...]:
    """Returns row and column of a rectangle that does not overlap the first, uniform over all free positions."""
    num_rows, num_columns = size - height, size - width
    first_row, taken_rows = _overlapping(first.row, first.height, height, num_rows)
    first_column, taken_columns = _overlapping(first.column, first.width, width, num_columns)
    number = _below(word, num_rows * num_columns - taken_rows * taken_columns)
    beyond = number - (num_rows - taken_rows) * num_columns
    row, column = number // num_columns, number % num_columns
    row = row + jnp.where(row >= first_row, taken_rows, 0)
    free_columns = jnp.maximum(num_columns - taken_columns, 1)
    free_column = beyond % free_columns
    free_column = free_column + jnp.where(free_column >= first_column, taken_columns, 0)
    return (jnp.where(beyond < 0, row, first_row + beyond // free_columns), jnp.where(beyond < 0, column, free_column))


def _overlapping(
    start: jax.Array, length: jax.Array, other_length: jax.Array, num_positions: jax.Array
) -> tuple[Any, ...]:
    """Returns the first of ``num_positions`` along an axis at which rectangles overlap, and the number of these."""
    low = jnp.maximum(start - other_length + 1, 0)
    return low, jnp.maximum(jnp.minimum(start + length, num_positions) - low, 0)


def _below(word: jax.Array, bound: jax.Array | np.uint32) -> jax.Array:
    """Maps a random word to a uniform int32 in [0, bound)."""
    bound = jnp.broadcast_to(jnp.asarray(bound).astype(jnp.uint32), word.shape)
    return random.high_product(word, bound).astype(jnp.int32)


def _digit(word: jax.Array, base: int, position: int) -> jax.Array:
    """Returns one digit of a random word in a base that is a power of two, a uniform int32 in [0, base)."""
    width = base.bit_length() - 1
    return ((word >> np.uint32(width * position)) & np.uint32(base - 1)).astype(jnp.int32)


# --- the picture -----------------------------------------------------------------------------------------------------

_PAINTS = np.stack([GREEN, BLUE, GREY, GOLD, SKY, PINK, PURPLE, TEAL])  # the colours of the picture
