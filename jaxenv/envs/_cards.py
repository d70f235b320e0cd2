"""Draws the table of a card game: cards, and a scale for their sum."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv.canvas import BLUE, GOLD, GREEN, INK, NIGHT, RED, SILVER, WHITE, Canvas, mix

WIDTH, HEIGHT = 2.5, 3.3  # of a card; the table is 10 wide and 10 high
_FELT = mix(GREEN, NIGHT, 0.6)
_LIMIT, _MOST = 21, 31
_LEFT, _RIGHT, _Y = 0.9, 9.1, 1.5  # of the scale


def table(canvas: Canvas) -> Canvas:
    """Paints the table and chooses the view."""
    return canvas.fill(NIGHT).view((0, 10), (0, 10)).box(5, 5, 9.7, 9.7, _FELT, corner=1.2)


def card(canvas: Canvas, x: float, y: float, angle: float = 0.0, alpha: jax.Array | float = 1.0) -> Canvas:
    """Paints an empty card, ``angle`` radians counterclockwise from upright."""
    canvas = canvas.box(x, y, WIDTH + 0.16, HEIGHT + 0.16, INK, angle, 0.4, alpha)
    return canvas.box(x, y, WIDTH, HEIGHT, WHITE, angle, 0.32, alpha)


def closed_card(canvas: Canvas, x: float, y: float) -> Canvas:
    """Paints a card face down."""
    canvas = card(canvas, x, y).box(x, y, WIDTH - 0.3, HEIGHT - 0.3, BLUE, corner=0.22)
    return canvas.box(x, y, 0.75, 0.75, SILVER, np.pi / 4, 0.1)


def open_card(canvas: Canvas, value: jax.Array, x: float, y: float) -> Canvas:
    """Paints a card from 1, an ace, to 10."""
    canvas = card(canvas, x, y)
    ace = (value == 1).astype(jnp.float32)
    canvas = canvas.text("A", x, y - 0.65, 1.3, INK, align=0.5, alpha=ace)
    return canvas.number(value, x, y - 0.65, 1.3, INK, digits=2, align=0.5, alpha=1 - ace)


def hand(canvas: Canvas, total: jax.Array, x: float, y: float) -> Canvas:
    """Paints a fan of cards with their sum, int32 ``[B]``, red above 21; an empty place if the sum is 0."""
    canvas = canvas.box(x, y, WIDTH + 0.16, HEIGHT + 0.16, mix(_FELT, SILVER, 0.4), corner=0.4)
    canvas = canvas.box(x, y, WIDTH - 0.1, HEIGHT - 0.1, _FELT, corner=0.3)
    held = (total > 0).astype(jnp.float32)
    canvas = card(canvas, x - 0.62, y - 0.12, 0.28, held)
    canvas = card(card(canvas, x + 0.62, y - 0.12, -0.28, held), x, y, 0.0, held)
    bust = (total > _LIMIT).astype(jnp.float32)
    for colour, opacity in ((INK, 1 - bust), (RED, bust)):
        canvas = canvas.number(total, x, y - 0.65, 1.3, colour, digits=2, align=0.5, alpha=held * opacity)
    return canvas


def scale(canvas: Canvas, total: jax.Array) -> Canvas:
    """Paints a bar for the sum, int32 ``[B]``, with a mark at 21: gold below, green at and red above it."""
    step = (_RIGHT - _LEFT) / _MOST
    limit, end = _LEFT + step * _LIMIT, _LEFT + step * total.astype(jnp.float32)
    canvas = canvas.box((limit + _RIGHT) / 2, _Y, _RIGHT - limit, 0.5, mix(_FELT, RED, 0.45))
    canvas = canvas.box((_LEFT + limit) / 2, _Y, limit - _LEFT, 0.5, mix(_FELT, NIGHT, 0.6))
    for colour, shown in ((GOLD, total < _LIMIT), (GREEN, total == _LIMIT), (RED, total > _LIMIT)):
        canvas = canvas.box((_LEFT + end) / 2, _Y, end - _LEFT, 0.5, colour, alpha=shown & (total > 0))
    canvas = canvas.box(limit, _Y, 0.14, 0.9, WHITE, corner=0.07)
    return canvas.text("21", limit, _Y - 1.0, 0.45, WHITE, align=0.5)


def label(canvas: Canvas, text: str, x: float, y: float, alpha: jax.Array) -> Canvas:
    """Paints a golden label of up to seven characters around ``(x, y)``."""
    canvas = canvas.box(x, y, 2.5, 0.75, GOLD, corner=0.25, alpha=alpha)
    return canvas.text(text, x, y - 0.17, 0.34, INK, align=0.5, alpha=alpha)
