"""Draws a kitchen from above, with its cooks."""

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv.canvas import BLACK, BROWN, GOLD, GREEN, GREY, INK, NIGHT, ORANGE, SAND, SILVER, WHITE, Canvas, mix, turn
from jaxenv.envs.grid._overcooked_layout import COUNTER, POT, Layout
from jaxenv.envs.grid._overcooked_view import EMPTY_POT, FULL_POT

_WOOD, _CRUST, _CREAM = mix(BROWN, SAND, 0.3), mix(BROWN, INK, 0.35), mix(SAND, WHITE, 0.35)


def draw(state: Any, kitchen: Layout, colours: tuple[np.ndarray, np.ndarray], canvas: Canvas) -> Canvas:
    """Paints states of `overcooked.Overcooked`, the cooks in two colours."""
    shape = kitchen.kinds.shape

    def at(cells: np.ndarray, kinds: list[jax.Array]) -> jax.Array:
        """Returns int32 ``[B, H, W]``: the kinds, ``[B]`` each, in these cells, and 0 elsewhere."""
        found = jnp.zeros((canvas.lanes, kitchen.cells.size), jnp.int32)
        found = found.at[:, cells].set(jnp.stack(kinds, axis=1).astype(jnp.int32)) if kinds else found
        return found.reshape(-1, *shape)

    counters = kitchen.where(COUNTER)
    items = [state.counters[i // 16] >> np.uint32(2 * (i % 16)) & np.uint32(3) for i in range(len(counters))]
    canvas = canvas.fill(NIGHT).tiles(kitchen.kinds[None], _CELLS)
    canvas = canvas.tiles(at(counters, items), [None, _onion, _plate, _soup])
    canvas = canvas.tiles(at(kitchen.where(POT), [EMPTY_POT - pot for pot in state.pots]), _POTS)
    cells = np.arange(kitchen.cells.size, dtype=np.int32).reshape(1, *shape)
    for cook, colour in zip(state.cooks, colours, strict=True):
        looks = (1 + 4 * cook.item + cook.direction)[:, None, None]
        painters = [partial(_cook, colour=colour, item=i // 4, direction=i % 4) for i in range(16)]
        canvas = canvas.tiles(jnp.where(cells == cook.cell[:, None, None], looks, 0), [None, *painters])
    return canvas


# --- cells -----------------------------------------------------------------------------------------------------------


def _floor(canvas: Canvas) -> Canvas:
    canvas = canvas.fill(mix(SAND, BROWN, 0.35))
    for x, y in ((0.25, 0.25), (0.75, 0.75), (0.25, 0.75), (0.75, 0.25)):
        canvas = canvas.box(x, y, 0.47, 0.47, _CREAM if x == y else mix(_CREAM, SAND, 0.6), corner=0.02)
    return canvas


def _counter(canvas: Canvas) -> Canvas:
    return canvas.fill(_CRUST).box(0.5, 0.53, 0.96, 0.9, _WOOD, corner=0.08)


def _onions(canvas: Canvas) -> Canvas:
    canvas = _counter(canvas).box(0.5, 0.5, 0.84, 0.76, _CRUST, corner=0.08)
    for x, y in ((0.3, 0.64), (0.68, 0.66), (0.5, 0.5), (0.28, 0.34), (0.7, 0.34)):
        canvas = _onion(canvas, x, y, 0.62)
    return canvas


def _plates(canvas: Canvas) -> Canvas:
    canvas = _counter(canvas)
    for i in range(3):
        canvas = _plate(canvas, 0.5, 0.44 + 0.07 * i, 1.05)
    return canvas


def _stove(canvas: Canvas) -> Canvas:
    canvas = _counter(canvas).box(0.5, 0.5, 0.9, 0.84, INK, corner=0.08)
    for x in (0.1, 0.9):
        canvas = canvas.box(x, 0.5, 0.14, 0.16, GREY, corner=0.06)
    return canvas.disc(0.5, 0.5, 0.38, GREY).disc(0.5, 0.5, 0.31, BLACK)


def _delivery(canvas: Canvas) -> Canvas:
    canvas = _counter(canvas).box(0.5, 0.53, 0.84, 0.78, mix(GREEN, INK, 0.35), corner=0.08)
    canvas = canvas.box(0.5, 0.53, 0.74, 0.68, GREEN, corner=0.06)
    for y in (0.28, 0.5):
        canvas = canvas.path([(0.3, y), (0.5, y + 0.2), (0.7, y)], 0.1, WHITE)
    return canvas


_CELLS = (_floor, _counter, _onions, _plates, _stove, _delivery)  # in the order of the kinds


# --- items and pots --------------------------------------------------------------------------------------------------


def _onion(canvas: Canvas, x: float = 0.5, y: float = 0.5, size: float = 1.0) -> Canvas:
    for border, colour in ((0.04, mix(GOLD, INK, 0.55)), (0.0, GOLD)):
        canvas = canvas.disc(x, y - 0.03 * size, (0.2 + border) * size, colour)
        canvas = canvas.line(x, y, x, y + 0.24 * size, (0.09 + 1.4 * border) * size, colour)
    return canvas.arc(x, y - 0.03 * size, 0.12 * size, 2.2, 4.1, 0.045 * size, mix(GOLD, WHITE, 0.6))


def _plate(canvas: Canvas, x: float = 0.5, y: float = 0.5, size: float = 1.0) -> Canvas:
    canvas = canvas.disc(x, y, 0.29 * size, mix(GREY, INK, 0.3)).disc(x, y, 0.26 * size, WHITE)
    return canvas.ring(x, y, 0.17 * size, 0.03 * size, SILVER)


def _soup(canvas: Canvas, x: float = 0.5, y: float = 0.5, size: float = 1.0) -> Canvas:
    canvas = _plate(canvas, x, y, size).disc(x, y, 0.19 * size, mix(ORANGE, INK, 0.25)).disc(x, y, 0.165 * size, ORANGE)
    return canvas.disc(x - 0.05 * size, y + 0.05 * size, 0.05 * size, GOLD)


def _pot(canvas: Canvas, age: int) -> Canvas:
    """Paints a pot by its number of onions, and from 3 on by the steps since it has been full."""
    if age < EMPTY_POT - FULL_POT:
        for x in (0.39, 0.61)[:age]:
            canvas = _onion(canvas, x, 0.5, 0.55)
        return canvas
    cooked = (age - EMPTY_POT + FULL_POT) / FULL_POT
    canvas = canvas.disc(0.5, 0.5, 0.31, mix(mix(GOLD, WHITE, 0.4), ORANGE, cooked))
    if cooked < 1:
        canvas = canvas.disc(0.42, 0.56, 0.05, WHITE, alpha=0.5).disc(0.6, 0.44, 0.04, WHITE, alpha=0.5)
        return canvas.arc(0.5, 0.5, 0.38, math.pi / 2 - 2 * math.pi * max(cooked, 0.01), math.pi / 2, 0.09, GREEN)
    canvas = canvas.ring(0.5, 0.5, 0.38, 0.1, GREEN)
    for x in (0.38, 0.5, 0.62):
        canvas = canvas.path([(x, 0.36), (x + 0.05, 0.45), (x - 0.03, 0.55), (x + 0.03, 0.66)], 0.05, WHITE)
    return canvas


_POTS = [None, *(partial(_pot, age=age) for age in range(1, EMPTY_POT + 1))]


# --- cooks -----------------------------------------------------------------------------------------------------------


def _cook(canvas: Canvas, colour: np.ndarray, item: int, direction: int) -> Canvas:
    angle = (math.pi / 2, -math.pi / 2, 0.0, math.pi)[direction]

    def place(ahead: float, left: float) -> tuple[float, float]:
        x, y = turn(ahead, left, angle)
        return 0.5 + x, 0.5 + y

    for border, paint in ((0.035, INK), (0.0, colour)):
        canvas = canvas.ellipse(*place(-0.1, 0), 0.42 + 2 * border, 0.72 + 2 * border, paint, angle=angle)
        for side in (-1, 1):
            hand = place(0.22, 0.17 * side)
            canvas = canvas.line(*place(-0.04, 0.28 * side), *hand, 0.13 + 2 * border, paint)
            canvas = canvas.disc(*hand, 0.085 + border, INK if border else SAND)
    if item:
        canvas = (_onion, _plate, _soup)[item - 1](canvas, *place(0.27, 0), 0.75)
    for radius, paint in ((0.14, SILVER), (0.115, WHITE)):
        for x, y in ((0.06, 0.1), (0.06, -0.1), (-0.1, 0.14), (-0.1, -0.14), (-0.2, 0.0)):
            canvas = canvas.disc(*place(x - 0.06, y), radius, paint)
    return canvas.disc(*place(-0.1, 0), 0.13, WHITE).ring(*place(-0.1, 0), 0.09, 0.025, colour)
