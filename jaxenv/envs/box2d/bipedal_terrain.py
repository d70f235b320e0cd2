"""Generates the ground of BipedalWalker, and finds the part near a walker and the points where rays meet it."""

import functools
import itertools

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxenv import random
from jaxenv.core import in_one_kernel
from jaxenv.envs.physics2d import Chain

SPACING = 14 / 30  # between the points, in metres
POINTS = 200
LEVEL = 10 / 3  # height at the start, in metres
PAD = 20  # points of flat ground at the start
RANGE = 160 / 30  # of the rays, in metres
RAYS = 10

FLAT = 5, 10  # a flat edge comes after 5 to 9 others
_BEHIND, _NEAR = 9, 24  # points near the walker: how many are behind it, and how many there are
_SEEN = 13  # edges within reach of the rays
_ANGLES = 1.5 * np.arange(RAYS)[:, None] / RAYS  # from straight down to almost straight ahead
DIRECTIONS = tuple((RANGE * x).astype(np.float32) for x in (np.sin(_ANGLES), -np.cos(_ANGLES)))  # of rays, in metres


def draw(stream: random.Stream) -> tuple[Array, Array]:
    """Draws bumps and flat edges of new ground, as `heights` takes them."""
    bumps = random.uniform(random.fold_in(stream, "bumps"), (POINTS,), -1.0, 1.0)
    gaps = random.integers(random.fold_in(stream, "gaps"), (POINTS,), *FLAT)
    return bumps, flat_edges(gaps)


def flat_edges(gaps: Array) -> Array:
    """Returns the points before which edges are flat, bool ``[B, 200]``; of ``gaps`` only the entries there count."""
    return one_after_another(jnp.arange(POINTS, dtype=jnp.int32)[None] + jnp.roll(gaps, 1, axis=1))


def one_after_another(following: Array) -> Array:
    """Returns the points at which something begins, bool ``[B, 200]``: ``PAD``, and after each the ``following`` one.

    ``following`` is int32 ``[B, 200]``, at least five points on.
    """

    def hop(at: Array, _: None) -> tuple[Array, Array]:
        index = jnp.minimum(at, np.int32(POINTS - 1))[:, None]
        after = jnp.take_along_axis(following, index, axis=1)[:, 0]
        return jnp.where(at < POINTS, after, at), at

    at = lax.scan(hop, following[:, PAD], None, length=(POINTS - PAD) // FLAT[0])[1]
    index = np.arange(POINTS, dtype=np.int32)[None]
    return jnp.any(at[..., None] == index[None], axis=0) | (index == PAD)


def heights(bumps: Array, flat: Array) -> Array:
    """Returns the heights of the ground, float32 ``[B, 200]`` in metres, where edges before ``flat`` points are flat.

    ``bumps`` change the slope, which decays and turns towards the level of the start; new ones are in [-1, 1].
    """

    def advance(carry: tuple[Array, Array], point: tuple[Array, Array, Array]) -> tuple[tuple[Array, Array], Array]:
        carry = in_one_kernel(_next_point, *carry, *point)
        return carry, carry[1]

    slope = jnp.zeros(bumps.shape[0], jnp.float32)
    count = jnp.arange(POINTS, dtype=jnp.int32)
    return lax.scan(advance, (slope, slope + np.float32(LEVEL)), (count, bumps.T, flat.T))[1].T


def _next_point(slope: Array, height: Array, index: Array, bump: Array, flat: Array) -> tuple[Array, Array]:
    """Returns slope and height at the next point. Elementwise."""
    slope = jnp.where(flat, slope, turned(slope, height, index, bump))
    return slope, jnp.where(flat, height, height + slope)


def turned(slope: Array, height: Array, index: Array, bump: Array) -> Array:
    """Returns the slope of grass before the point ``index``. Elementwise."""
    slope = np.float32(0.8) * slope + np.float32(0.01) * jnp.sign(np.float32(LEVEL) - height)
    return slope + jnp.where(index > PAD, bump / np.float32(30), 0)


def near(ground: Array, x: Array) -> Chain:
    """Returns the part of the ground ``[B, 200]`` near ``x [B]`` that a walker touches or sees."""
    first = jnp.clip(jnp.floor(x / np.float32(SPACING)).astype(jnp.int32) - _BEHIND, 0, POINTS - _NEAR)
    index = first[:, None] + np.arange(_NEAR, dtype=np.int32)[None]
    return Chain(jnp.take_along_axis(ground, index, axis=1).T, SPACING, first)


def lidar(ground: Array, x: Array, y: Array) -> Array:
    """Returns how far rays from ``(x, y)`` reach before the ground, in units of their range: float32 ``[B, 10]``."""
    first = jnp.floor(x / np.float32(SPACING)).astype(jnp.int32)
    index = first[:, None] + np.arange(_SEEN + 1, dtype=np.int32)[None]
    points = jnp.take_along_axis(ground, jnp.clip(index, 0, POINTS - 1), axis=1).T
    return in_one_kernel(_fraction, *DIRECTIONS, x, y, first, tuple(points)).T


def _fraction(dx: Array, dy: Array, x: Array, y: Array, first: Array, points: tuple[Array, ...]) -> Array:
    """Returns the fraction of a ray at which it meets an edge, or 1 (b2EdgeShape::RayCast). Elementwise."""
    least = jnp.ones_like(x)
    for k, (left, right) in enumerate(itertools.pairwise(points)):
        edge = first + np.int32(k)
        # Relative to the left end of the edge.
        from_x, from_y = x - edge.astype(jnp.float32) * np.float32(SPACING), y - left
        rise, run = right - left, np.float32(SPACING)
        across = rise * dx - run * dy
        part = (run * from_y - rise * from_x) / jnp.where(across != 0, across, np.float32(1))
        place = ((from_x + part * dx) * run + (from_y + part * dy) * rise) / (run * run + rise * rise)
        meets = (across != 0) & (part >= 0) & (part < least) & (place >= 0) & (place <= 1)
        least = jnp.where(meets & (edge >= 0) & (edge < POINTS - 1), part, least)
    return least


def height_at(ground: Array, x: Array) -> Array:
    """Returns the height of the ground ``[B, 1, W]`` at ``x [B, 1, W]``, for pictures."""
    place = jnp.clip(x / np.float32(SPACING), 0, POINTS - 1)
    left = jnp.clip(jnp.floor(place).astype(jnp.int32), 0, POINTS - 2)
    at = functools.partial(jnp.take_along_axis, ground[:, None], axis=2)
    part = place - left.astype(jnp.float32)
    return (1 - part) * at(left) + part * at(left + 1)
