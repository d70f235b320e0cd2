"""Elementwise arithmetic with exact gradients and known accuracy."""

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


# One program: ``jax_debug_infs`` would report infinite bounds as results of separate programs.
@functools.partial(jax.jit, inline=True)
def clip(x: jax.Array, low: Any, high: Any) -> jax.Array:
    """Clips ``x`` to [low, high] in its dtype; NaN stays NaN. Bounds broadcast to ``x``.

    The derivative of ``jnp.clip`` compares result and argument. It is wrong where the compiler computes ``x`` twice
    and rounds differently, as XLA's CPU back end does when it contracts product and sum in one of two consumers.
    The derivative of ``clamp`` compares the argument with the bounds.
    """
    low, high = (jnp.broadcast_to(jnp.asarray(bound, x.dtype), x.shape) for bound in (low, high))
    return jax.lax.clamp(low, x, high)


def sin_cos(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Returns sine and cosine of float32 angles in radians, within 1.2e-7 of the exact values for |x| up to 10,000.

    XLA's CPU back end calls a scalar library routine for each of ``jnp.sin`` and ``jnp.cos``; it vectorises the few
    products and sums here. The argument is reduced by multiples of pi/2 in three parts (Cody and Waite), and the
    remainder of at most pi/4 goes into polynomials. Beyond 10,000 the results stay within [-1, 1] but lose accuracy.
    NaN and infinities give NaN.
    """
    turns = jnp.round(x * np.float32(2 / np.pi))
    r = ((x - turns * _HALF_PI[0]) - turns * _HALF_PI[1]) - turns * _HALF_PI[2]
    r = clip(r, -0.8, 0.8)  # a little over pi/4: bounds the remainder of an angle too large to be reduced
    square = r * r
    sine = r + r * square * _polynomial(square, _SIN)
    cosine = 1 - 0.5 * square + square * square * _polynomial(square, _COS)
    quadrant = turns.astype(jnp.int32) & 3
    swapped = (quadrant & 1) == 1
    first, second = jnp.where(swapped, cosine, sine), jnp.where(swapped, sine, cosine)
    return jnp.where(quadrant >= 2, -first, first), jnp.where((quadrant == 1) | (quadrant == 2), -second, second)


def wrap_angle(angle: jax.Array) -> jax.Array:
    """Returns the equivalent angle in [-pi, pi), for float32 angles within a few turns of 0."""
    return angle - 2 * math.pi * jnp.floor((angle + math.pi) / (2 * math.pi))


# pi/2 in three parts; products of the first two with whole numbers below 2**13 are exact.
_HALF_PI = (np.float32(1.5703125), np.float32(4.837512969970703e-4), np.float32(7.54978995489188e-8))
# Minimax polynomials of sin(r)/r and cos(r) on [-pi/4, pi/4], lowest power first.
_SIN = (-1.6666654611e-1, 8.3321608736e-3, -1.9515295891e-4)
_COS = (4.166664568298827e-2, -1.388731625493765e-3, 2.443315711809948e-5)


def _polynomial(x: jax.Array, coefficients: tuple[float, ...]) -> jax.Array:
    total = jnp.full_like(x, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        total = total * x + np.float32(c)
    return total
