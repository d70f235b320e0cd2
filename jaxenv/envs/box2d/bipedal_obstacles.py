"""The ground of BipedalWalkerHardcore: how stumps, stairs and pits are drawn, and where rays meet their blocks.

Obstacles come after 5 to 9 points of grass. An obstacle is a part of the edges and some blocks: a stump is one on the
edges, stairs are three or four around a slope, and a pit has one on either side.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxenv import random, tree
from jaxenv.core import in_one_kernel
from jaxenv.envs.box2d.bipedal_terrain import DIRECTIONS, FLAT, LEVEL, POINTS, SPACING, one_after_another, turned
from jaxenv.envs.physics2d import Blocks, Box

MOST = 38  # blocks for which the ground has room; tests/envs/box2d/test_hardcore.py counts them
NEAR = 5  # blocks for which there is room near a walker
BEHIND, AHEAD = np.float32(3.5), np.float32(5.3)  # metres from the walker that count as near
GRASS, STUMP, STAIRS, PIT = range(4)  # kinds of obstacles; none begins on grass

_WIDTH = 4  # points from a step of stairs to the next
_DEPTH = np.float32(4 * SPACING)  # of pits
_SHOWN = 10  # blocks for which there is room in a picture
_BEYOND = 3  # points beyond the ground where steps begin that rays can meet


@tree.struct
class Draws:
    """Random numbers for the points of the ground, ``[B, 200]`` each; few of them are used."""

    bump: Any  # float32 in [-1, 1], on grass: changes the slope
    gap: Any  # int32, 5 to 9, at the last point of an obstacle: points of grass after it
    kind: Any  # int32, 1 to 3, at the last point of grass: the next obstacle
    long: Any  # bool, at the first point of an obstacle: whether it has the larger of two sizes
    up: Any  # bool, at the first point of stairs: their direction


@tree.struct
class _Walk:
    """The state of the walk at a point: float32 and int32 ``[B]``, or bool."""

    slope: Any
    height: Any
    left: Any  # points up to the end of the obstacle
    first: Any  # whether the point is the first one of grass after an obstacle
    kind: Any
    size: Any  # of the obstacle: points of a stump or between the blocks of a pit, steps of stairs
    rise: Any  # of stairs per step, 1 or -1
    base: Any  # height before the obstacle


def draw(stream: random.Stream) -> tuple[Array, Array, Array]:
    """Draws bumps, obstacles and their sizes for new ground, as `ground` takes them."""
    bump = random.uniform(random.fold_in(stream, "bumps"), (POINTS,), -1.0, 1.0)
    low, high = FLAT
    number = random.integers(random.fold_in(stream, "obstacles"), (POINTS,), 0, 2 * 2 * 3 * (high - low))
    rest = number // 4
    return placed(Draws(bump, low + rest // 3, 1 + rest % 3, number % 2 == 0, number // 2 % 2 == 0))


def placed(draws: Draws) -> tuple[Array, Array, Array]:
    """Returns bumps, obstacles and their sizes for given draws, as `ground` takes them."""
    kind = jnp.roll(draws.kind, 1, axis=1)
    size = jnp.where(kind == STUMP, np.int32(1), np.int32(3)) + draws.long.astype(jnp.int32)
    end = np.arange(POINTS, dtype=np.int32)[None] + length(kind, size)
    gap = jnp.take_along_axis(draws.gap, jnp.clip(end - 1, 0, POINTS - 1), axis=1)
    begins = one_after_another(end + gap)
    size = jnp.where((kind == STAIRS) & ~draws.up, -size, size)
    return draws.bump, *(jnp.where(begins, x, np.int32(0)).astype(jnp.int8) for x in (kind, size))


def length(kind: Any, size: Any) -> Any:
    """Returns the number of points of an obstacle, int32. Elementwise, for NumPy or for JAX."""
    stump, stairs, pit = ((kind == k).astype(np.int32) for k in (STUMP, STAIRS, PIT))
    return stump * size + stairs * _WIDTH * size + pit * (size + 2)


def ground(bumps: Array, obstacles: Array, sizes: Array) -> tuple[Array, Array]:
    """Returns heights ``[B, 200]`` and blocks ``[B, 4, 38]``, float32 in metres.

    The rows of blocks are their left, lower, right and upper sides. They are in order from left to right; missing ones
    are far away. Arguments ``[B, 200]`` are as in `WalkerLevel`; new ground has ``bumps`` in [-1, 1].
    """

    def advance(carry: Any, point: Any) -> Any:
        walk, count = carry
        walk, exists, block = in_one_kernel(_next_point, walk, *point)
        count = count + exists.astype(jnp.int32)
        return (walk, count), (walk.height, count, jnp.stack(block))

    zero = jnp.zeros(bumps.shape[0], jnp.float32)
    none = zero.astype(jnp.int32)
    start = _Walk(zero, zero + np.float32(LEVEL), none, none > 0, none, none, none, zero)
    given = (bumps, obstacles.astype(jnp.int32), sizes.astype(jnp.int32))
    points = [jnp.pad(x.T, ((0, _BEYOND), (0, 0))) for x in given]
    index = jnp.arange(POINTS + _BEYOND, dtype=jnp.int32)
    heights, count, blocks = lax.scan(advance, (start, none), (index, *points))[1]
    wanted = np.arange(MOST, dtype=np.int32)[:, None]
    place = jnp.sum(count[None] <= wanted[:, None], axis=1, dtype=jnp.int32)
    found = jnp.take_along_axis(blocks, jnp.minimum(place, np.int32(POINTS + _BEYOND - 1))[:, None], axis=0)
    far = np.array(jax.tree.leaves(Box.far()), np.float32)[:, None]
    blocks = jnp.where((wanted < count[-1:])[:, None], found, far)
    return heights[:POINTS].T, jnp.transpose(blocks, (2, 1, 0))


def _next_point(walk: _Walk, index: Any, bump: Any, obstacle: Any, given: Any) -> Any:
    """Returns the walk at the next point, whether a block begins there, and its sides. Elementwise."""
    spacing, one = np.float32(SPACING), np.int32(1)
    starts = (walk.kind == GRASS) & (obstacle != GRASS)
    kind = jnp.where(starts, obstacle, walk.kind)
    grass, stump, stairs, pit = (kind == k for k in (GRASS, STUMP, STAIRS, PIT))
    size = jnp.where(starts, jnp.abs(given), walk.size)
    points = length(kind, size)
    left = jnp.where(starts, points, walk.left)
    rise = jnp.where(starts, jnp.where(given > 0, one, -one), walk.rise)
    base = jnp.where(starts, walk.height, walk.base)
    slope = jnp.where(grass & ~walk.first, turned(walk.slope, walk.height, index, bump), walk.slope)

    done = points - left
    steps = rise.astype(jnp.float32) * (done - rise).astype(jnp.float32) / np.float32(_WIDTH)
    height = jnp.where(grass & ~walk.first, walk.height + slope, walk.height)
    height = jnp.where(stairs & ~starts, base + steps * spacing, height)
    height = jnp.where(pit & ~starts, jnp.where(left > 1, base - _DEPTH, base), height)

    # A step of stairs hangs below its height, a stump stands on it.
    step = base + (rise * (done // _WIDTH)).astype(jnp.float32) * spacing
    wide = jnp.where(stump, size, jnp.where(stairs, np.int32(_WIDTH), one)).astype(jnp.float32) * spacing
    high = jnp.where(stump, base + wide, jnp.where(stairs, step, base))
    low = jnp.where(stump, base, jnp.where(stairs, step - spacing, base - _DEPTH))
    at = index.astype(jnp.float32) * spacing
    begins = starts | (stairs & (done % _WIDTH == 0)) | (pit & (left == 2))

    last = ~grass & (left <= 1)
    kind = jnp.where(last, np.int32(GRASS), kind)
    return _Walk(slope, height, left - 1, last, kind, size, rise, base), begins, (at, low, at + wide, high)


def near(blocks: Array, x: Array) -> Blocks:
    """Returns the blocks ``[B, 4, 38]`` near ``x [B]`` that a walker touches or sees."""
    return _after(blocks, x - BEHIND, NEAR)


def shown(blocks: Array, left: Array) -> list[tuple[Array, ...]]:
    """Returns middle, width and height of the blocks in a picture that begins at ``left [B]``; arrays ``[B]``."""
    half, sides = np.float32(0.5), jax.tree.leaves(_after(blocks, left, _SHOWN).boxes)
    return [(half * (a + c), half * (b + d), c - a, d - b) for a, b, c, d in zip(*sides, strict=True)]


def _after(blocks: Array, x: Array, num: int) -> Blocks:
    """Returns the first ``num`` blocks that end beyond ``x``."""
    first = jnp.sum(blocks[:, 2] < x[:, None], axis=1, dtype=jnp.int32)
    first = jnp.minimum(first, np.int32(MOST - num))
    index = first[:, None, None] + np.arange(num, dtype=np.int32)[None, None]
    return Blocks(Box(*jnp.moveaxis(jnp.take_along_axis(blocks, index, axis=2), 0, -1)), first)


def lidar(blocks: Array, x: Array, y: Array) -> Array:
    """Returns how far rays from ``(x, y)`` reach before a block, in units of their range: float32 ``[B, 10]``."""
    boxes = near(blocks, x).boxes
    each = [jax.tree.map(lambda side, k=k: side[k], boxes) for k in range(NEAR)]
    return in_one_kernel(_fraction, *DIRECTIONS, x, y, each).T


def _fraction(dx: Any, dy: Any, x: Any, y: Any, boxes: Any) -> Any:
    """Returns the fraction of a ray at which it enters a box, or 1 (b2PolygonShape::RayCast). Elementwise.

    Rays look down and, but for the first, to the right. One that begins inside a box does not meet it.
    """
    least = jnp.ones_like(x)
    right = dx > 0
    along = jnp.where(right, dx, np.float32(1))
    for box in boxes:
        beside = (x >= box.left) & (x <= box.right)
        enters = jnp.where(right, (box.left - x) / along, np.float32(0))
        leaves = jnp.where(right, (box.right - x) / along, np.float32(1))
        part = jnp.maximum(jnp.maximum(enters, (box.high - y) / dy), 0)
        meets = (part <= jnp.minimum(leaves, (box.low - y) / dy)) & (part < least) & (right | beside)
        outside = (right & (x < box.left)) | (y > box.high)
        least = jnp.where(meets & outside, part, least)
    return least
