"""Draws the chains of this family, 10 wide and 10 high, and fair coins from random words, 32 per word."""

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv.canvas import BLUE, GOLD, GREY, INK, ORANGE, PAPER, PURPLE, SILVER, TEAL, WHITE, Canvas, turn
from jaxenv.envs._drawing import person, timeline

# --- discounting chain -----------------------------------------------------------------------------------------------


def discounting(
    canvas: Canvas, time: jax.Array, choice: jax.Array, bonus: jax.Array, reward_steps: np.ndarray
) -> Canvas:
    """Paints the chains from the first step, at the left, to the last, on a logarithmic scale.

    ``time`` counts the steps taken, ``choice`` is the chosen chain or -1, ``bonus`` the chain with the larger reward,
    and ``reward_steps`` has the step that gives the reward in each chain.
    """
    canvas = canvas.view((0, 10), (0, 10))
    first, width, end = 2.1, 7.2, float(np.log1p(reward_steps[-1]))
    at = first + width * jnp.minimum(jnp.log1p(time.astype(jnp.float32)) / end, 1.0)
    heights = np.linspace(8.6, 2.0, len(reward_steps)).tolist()
    here = jnp.float32(5.3)
    for number, (y, step) in enumerate(zip(heights, reward_steps.tolist(), strict=True)):
        chosen = choice == number
        canvas = canvas.path([(0.8, 5.3), (first, y), (first + width, y)], 0.16, SILVER)
        canvas = canvas.path([(0.8, 5.3), (first, y), (at, y)], 0.24, ORANGE, alpha=chosen)
        here = jnp.where(chosen, np.float32(y), here)
        # The reward, and its step above it. A reward that has been paid is hollow.
        x = first + width * math.log1p(step) / end
        more = jnp.broadcast_to(bonus == number, time.shape)
        paid = chosen & (time >= step)
        canvas = canvas.disc(x, y, 0.62, GREY).disc(x, y, 0.62, GOLD, more).disc(x, y, 0.46, PAPER, paid)
        canvas = canvas.text("1", x, y - 0.22, 0.44, INK, align=0.5, alpha=~more)
        canvas = canvas.text("1.1", x, y - 0.18, 0.36, INK, align=0.5, alpha=more)
        canvas = canvas.text(str(step), x, y + 0.7, 0.44, GREY, align=0.5)
    at = jnp.where(choice < 0, np.float32(0.8), at)
    canvas = canvas.disc(0.8, 5.3, 0.3, SILVER).disc(at, here, 0.42, INK).disc(at, here, 0.32, ORANGE)
    return canvas.text("STEP", 0.4, 0.4, 0.5, GREY).number(time, 4.1, 0.4, 0.5, INK, digits=3, align=1)


# --- memory chain ----------------------------------------------------------------------------------------------------


def memory(canvas: Canvas, time: jax.Array, bits: jax.Array, query: jax.Array, length: Any) -> Canvas:
    """Paints the ``bits [B, num_bits]``, pale while the agent does not see them, with a frame around the queried one.

    ``time`` counts the steps taken, of ``length`` from the bits to the query.
    """
    canvas = canvas.view((0, 10), (0, 10))
    # As in the observation, which lags by one step.
    seen, asked, over = time <= 1, jnp.maximum(time, 1) == length, time > length
    count = bits.shape[1]
    columns = math.ceil(math.sqrt(2 * count)) if count > 4 else count
    rows = -(-count // columns)
    side = min(8.8 / columns, 5.0 / rows, 3.4)
    bright = jnp.where(seen, np.float32(1), np.float32(0.3))
    known = jnp.where(asked | over, np.float32(1), np.float32(0.3))
    for number in range(count):
        row, column = divmod(number, columns)
        x = 5 + side * (column - (columns - 1) / 2)
        y = 6.7 - side * (row - (rows - 1) / 2)
        bit, queried = bits[:, number].astype(jnp.float32), (query == number).astype(jnp.float32)
        canvas = canvas.box(x, y, 0.98 * side, 0.98 * side, ORANGE, corner=0.2 * side, alpha=queried * known)
        canvas = canvas.box(x, y, 0.78 * side, 0.78 * side, PAPER, corner=0.12 * side)
        canvas = canvas.box(x, y, 0.74 * side, 0.74 * side, INK, corner=0.12 * side, alpha=bright * (1 - bit))
        canvas = canvas.box(x, y, 0.74 * side, 0.74 * side, TEAL, corner=0.12 * side, alpha=bright * bit)
        canvas = canvas.number(bit.astype(jnp.int32), x, y - 0.2 * side, 0.4 * side, WHITE, digits=1, align=0.5)
    for text, colour, shown in (
        ("SHOWN", TEAL, seen & ~asked),
        ("HIDDEN", GREY, ~(seen | asked | over)),
        ("WHICH BIT?", ORANGE, asked),
        ("ANSWERED", INK, over),
    ):
        canvas = canvas.text(text, 5, 2.5, 0.8, colour, align=0.5, alpha=shown)
    return steps_left(canvas, time, length + 1)


# --- umbrella chain --------------------------------------------------------------------------------------------------

_GROUND = 2.1
_CANOPY_X, _CANOPY_Y, _CANOPY_RADIUS = 5.3, 4.5, 2.2


def umbrella(canvas: Canvas, needed: jax.Array, held: jax.Array) -> Canvas:
    """Paints the weather, rain where an umbrella is ``needed``, and a person with or without one, bool ``[B]`` each."""
    canvas = canvas.view((0, 10), (0, 10))
    canvas = _rain(canvas, held).where(needed, _sun(canvas)).box(5, _GROUND - 0.1, 8.8, 0.16, INK, corner=0.08)
    canvas = person(canvas, ORANGE, 5.0, _GROUND + 0.9, 2.2)
    angles = np.linspace(0, math.pi, 17)
    rim = [turn(_CANOPY_RADIUS, 0.0, angle) for angle in angles.tolist()]
    open_umbrella = canvas.line(5.6, _GROUND + 0.7, 5.6, _CANOPY_Y + 2.4, 0.16, INK)
    open_umbrella = open_umbrella.polygon([(_CANOPY_X + x, _CANOPY_Y + y) for x, y in rim], PURPLE)
    return open_umbrella.where(held, canvas)


def _sun(canvas: Canvas) -> Canvas:
    canvas = canvas.disc(2.3, 8.2, 0.9, GOLD)
    for angle in (np.arange(8) * math.pi / 4).tolist():
        (x, y), (to_x, to_y) = turn(1.2, 0.0, angle), turn(1.55, 0.0, angle)
        canvas = canvas.line(2.3 + x, 8.2 + y, 2.3 + to_x, 8.2 + to_y, 0.18, GOLD)
    return canvas


def _rain(canvas: Canvas, held: jax.Array) -> Canvas:
    """Paints a cloud and drops, except below an umbrella that is ``held``."""
    for number in range(9):
        x = 1.1 + 0.9 * number
        beyond = _CANOPY_RADIUS**2 - (x - _CANOPY_X) ** 2
        top = _CANOPY_Y + math.sqrt(beyond) if beyond > 0 else 0.0
        for y in (6.5, 5.1, 3.7) if number % 2 else (7.2, 5.8, 4.4, 3.0):
            shown = ~held if y - 0.6 < top else 1.0
            canvas = canvas.line(x + 0.08, y, x - 0.08, y - 0.6, 0.16, BLUE, alpha=shown)
    for x, y, radius in ((3.2, 8.2, 0.9), (4.6, 8.7, 1.1), (6.1, 8.6, 1.0), (7.2, 8.1, 0.8)):
        canvas = canvas.disc(x, y, radius, GREY)
    return canvas.box(5.2, 7.8, 5.2, 1.1, GREY, corner=0.5)


def coins(canvas: Canvas, heads: jax.Array) -> Canvas:
    """Paints the coins that carry no information, bool ``[B, N]``, on the right."""
    for number in range(heads.shape[1]):
        column, row = divmod(number, 20)
        x, y = 9.7 - 0.4 * column, 9.7 - 0.4 * row
        canvas = canvas.disc(x, y, 0.15, SILVER).disc(x, y, 0.15, INK, heads[:, number])
    return canvas


# --- time ------------------------------------------------------------------------------------------------------------


def steps_left(canvas: Canvas, time: jax.Array, last: Any) -> Canvas:
    """Paints a bar for the ``time`` passed of ``last`` steps, and the number of remaining steps."""
    last = jnp.asarray(last, jnp.int32)
    canvas = timeline(canvas, 0.8, 7.2, 0.95, time.astype(jnp.float32) / last.astype(jnp.float32))
    return canvas.number(jnp.maximum(last - time, 0), 9.6, 0.6, 0.75, INK, digits=3, align=1)


def num_words(num: int) -> int:
    """Returns the number of words that hold ``num`` coins."""
    return -(-num // 32)


def flips(words: Sequence[jax.Array], num: int) -> jax.Array:
    """Returns the first ``num`` bits of ``words`` (each uint32 ``[B]``), lowest bit first: bool ``[B, num]``."""
    places = [np.arange(min(32, num - start), dtype=np.uint32)[None] for start in range(0, num, 32)]
    bits = [(word[:, None] >> place) & np.uint32(1) for word, place in zip(words, places, strict=True)]
    return jnp.concatenate(bits, axis=-1) != 0
