"""Generates race tracks, closed roads of quadrilateral tiles, and finds the tiles that wheels touch.

Reference: ``CarRacing._create_track`` of Gymnasium (tests/envs/box2d/test_car_track.py). A point moves from one of 12
random checkpoints to the next for five laps, with a limited rate of turning. The last lap is the track if it closes.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxenv import random, tree
from jaxenv.core import in_one_kernel, sin_cos
from jaxenv.envs.box2d._car_dynamics import WHEEL_HALF_WIDTH, WHEEL_RADIUS

SCALE = 6.0
RADIUS = 900 / SCALE  # of the circle that is morphed into a track, m
STEP = 21 / SCALE  # length of a tile
HALF_WIDTH = 40 / SCALE  # of the road
BORDER = 8 / SCALE  # width of a border
MOST = 13 * 32  # tiles; a longer track would be redrawn, but the longest of 200,000 has 410

_CHECKPOINTS = 12
_TURN_RATE = 0.31
_LAPS = 4
_STEPS = 2500
_START = -math.pi / _CHECKPOINTS  # polar angle at which a lap begins
_BORDER_TILES = 4
_SKIN = np.float32(0.02)  # distance at which polygons overlap in Box2D


@tree.struct
class Track:
    """A closed road. Tile i lies between lines i - 1 and i across it, tile 0 begins at the last; ``length`` ends it."""

    points: Array  # float32[B, 4, N]: x and y of the middle of each line (m), cosine and sine of its direction
    side: Array  # int8[B, N]: 1 if the tile has a border on the right, -1 if on the left
    length: Array  # int32[B], number of tiles

    @property
    def exists(self) -> Array:
        """Which tiles exist, bool ``[B, N]``."""
        return self.length[:, None] > np.arange(self.side.shape[1], dtype=np.int32)[None]

    def before(self) -> Array:
        """Returns the points of the line at which each tile begins, float32 ``[B, 4, N]``."""
        last = jnp.take_along_axis(self.points, self.length[:, None, None] - 1, axis=2)
        return jnp.concatenate([last, self.points[:, :, :-1]], axis=2)


def random_track(stream: random.Stream) -> tuple[Track, Array]:
    """Draws a track for each lane; also returns the angle of its first line in rad, float32 ``[B]``."""

    def attempt(carry: Any) -> Any:
        number, done, found = carry
        draws = random.uniform(random.fold_in(stream, number), (2, _CHECKPOINTS))
        new, good = track_of(draws[:, 0], draws[:, 1])
        found = tree.where(done, found, new)
        return number + np.int32(1), done | good, found

    like = (*stream.shape, _CHECKPOINTS)
    start = tree.zeros(jax.eval_shape(lambda: track_of(*(jnp.zeros(like, jnp.float32),) * 2)[0]))
    none = jnp.zeros(stream.shape, bool)
    return lax.while_loop(lambda c: ~jnp.all(c[1]), attempt, (np.int32(0), none, start))[2]


def track_of(angles: Array, radii: Array) -> tuple[tuple[Track, Array], Array]:
    """Returns the track through checkpoints, the angle of its first line, and whether it is closed, bool ``[B]``.

    Places of the checkpoints within their sectors, and their distances from the centre, are from 0 to 1, float32
    ``[B, 12]``. The first and the last checkpoint are fixed.
    """
    sector = np.float32(2 * math.pi / _CHECKPOINTS)
    number: Any = np.arange(_CHECKPOINTS, dtype=np.float32)[None]
    ends = np.isin(number, (0, _CHECKPOINTS - 1))
    angle = sector * (number + jnp.where(ends, 0, angles))
    radius = jnp.where(ends, np.float32(1.5 * RADIUS), np.float32(RADIUS / 3) * (1 + 2 * radii))
    s, c = sin_cos(angle)
    checkpoints = tuple(tuple(x[:, i] for i in range(_CHECKPOINTS)) for x in (angle, radius * c, radius * s))
    lines, first, end = _path(checkpoints)
    length = end - first - 1
    good = (first >= 0) & (length > _BORDER_TILES) & (length <= MOST)
    length = jnp.clip(length, 1, MOST)
    index = jnp.maximum(first, 0)[:, None] + jnp.minimum(np.arange(MOST, dtype=np.int32)[None], length[:, None] - 1)
    x, y, angle = (jnp.take_along_axis(line.T, index, axis=1) for line in lines)
    track = track_through(x, y, angle, length)
    c, s = track.points[:, 2, 0], track.points[:, 3, 0]
    gap_x, gap_y = (track.points[:, i, 0] - track.before()[:, i, 0] for i in (0, 1))
    return (track, angle[:, 0]), good & (jnp.hypot(c * gap_x, s * gap_y) <= np.float32(STEP))


def track_through(x: Array, y: Array, angle: Array, length: Array) -> Track:
    """Returns the track whose tiles end at these lines across the road.

    ``x`` and ``y`` of the middles in m, and the angles in rad, are float32 ``[B, N]``; entries from ``length`` on, the
    number of tiles, int32 ``[B]``, repeat the last one.
    """
    s, c = sin_cos(angle)
    return Track(jnp.stack([x, y, c, s], axis=1), _sides(angle, length), length)


def _path(checkpoints: tuple[Any, ...]) -> tuple[tuple[Array, ...], Array, Array]:
    """Returns lines across the road (x, y, angle: float32 ``[2500, B]``) and the ends of the last lap, or -1.

    ``checkpoints`` are their polar angles, x and y: three tuples of 12 arrays ``[B]``.
    """
    zero = jnp.zeros_like(checkpoints[0][0])
    none = zero.astype(jnp.int32)
    lines = (jnp.zeros((_STEPS, zero.shape[0]), jnp.float32),) * 3
    moving = zero + np.float32(1.5 * RADIUS), zero, zero, none, none, zero > 0, zero - 9, none - 1, none - 1

    def advance(carry: tuple[Any, ...]) -> tuple[Any, ...]:
        i, lines, moving = carry
        *moving, angle = in_one_kernel(_advanced, i, tuple(moving), checkpoints)
        lines = tuple(
            lax.dynamic_update_index_in_dim(x, new, i, 0) for x, new in zip(lines, (*moving[:2], angle), strict=True)
        )
        return i + np.int32(1), lines, tuple(moving)

    start = np.int32(0), lines, moving
    _, lines, moving = lax.while_loop(lambda c: (c[0] < _STEPS) & jnp.any(c[2][4] <= _LAPS), advance, start)
    return lines, moving[7], moving[8]


def _advanced(i: Array, moving: tuple[Array, ...], checkpoints: tuple[Any, ...]) -> tuple[Any, ...]:
    """Returns the point after a step and the direction of the line there. Elementwise."""
    x, y, beta, target, laps, far_side, last_alpha, first, end = moving
    turn = np.float32(2 * math.pi)
    running = laps <= _LAPS
    alpha = jnp.arctan2(y, x)
    laps = laps + (running & far_side & (alpha > 0)).astype(jnp.int32)
    far_side = (far_side & (alpha <= 0)) | (alpha < 0)
    alpha = jnp.where(alpha < 0, alpha + turn, alpha)

    # The next checkpoint from `target` on that lies ahead, or the first one in the next lap.
    angles, xs, ys = checkpoints
    target_x, target_y, ahead = xs[0], ys[0], alpha < -99
    new_target = target & 0
    for k in range(_CHECKPOINTS - 1, -1, -1):
        here = (k >= target) & (alpha <= angles[k])
        new_target = jnp.where(here, np.int32(k), new_target)
        target_x, target_y = jnp.where(here, xs[k], target_x), jnp.where(here, ys[k], target_y)
        ahead = ahead | here
    alpha = jnp.where(ahead, alpha, alpha - turn)

    beta = jnp.where(beta - alpha > np.float32(1.5 * math.pi), beta - turn, beta)
    beta = jnp.where(beta - alpha < np.float32(-1.5 * math.pi), beta + turn, beta)
    s, c = sin_cos(beta)
    aside = np.float32(SCALE) * (c * (target_x - x) + s * (target_y - y))
    change = jnp.minimum(np.float32(_TURN_RATE), np.float32(0.001) * jnp.abs(aside))
    new_beta = jnp.where(jnp.abs(aside) > np.float32(0.3), beta - jnp.sign(aside) * change, beta)
    x, y = x - s * np.float32(STEP), y + c * np.float32(STEP)

    passed = running & (alpha > np.float32(_START)) & (last_alpha <= np.float32(_START)) & (i > 0)
    first, end = jnp.where(passed, end, first), jnp.where(passed, i, end)
    middle = np.float32(0.5) * (beta + new_beta)
    return x, y, new_beta, new_target, laps, far_side, alpha, first, end, middle


def _sides(angle: Array, length: Array) -> Array:
    """Returns the side on which sharp turns and the three tiles before them have a border, int8 ``[B, N]``."""
    number = np.arange(angle.shape[1], dtype=np.int32)[None]
    exists = number < length[:, None]
    change = angle - jnp.take_along_axis(angle, (number - 1) % length[:, None], axis=1)
    sharp = jnp.where(jnp.abs(change) > np.float32(0.2 * _TURN_RATE), jnp.sign(change), 0)
    left, right = exists, exists
    for back in range(_BORDER_TILES):
        before = jnp.take_along_axis(sharp, (number - back) % length[:, None], axis=1)
        left, right = left & (before > 0), right & (before < 0)
    turns = left | right
    # As in the original, turns at the start of the track reach its end twice.
    for i in range(_BORDER_TILES - 1):
        turns = turns | (turns[:, i : i + 1] & (number >= length[:, None] - _BORDER_TILES + 1 + i) & exists)
    near = jnp.pad(turns, ((0, 0), (0, _BORDER_TILES - 1)))
    any_near = near[:, : angle.shape[1]]
    for ahead in range(1, _BORDER_TILES):
        any_near = any_near | near[:, ahead : ahead + angle.shape[1]]
    return jnp.where(any_near & exists, -jnp.sign(change), 0).astype(jnp.int8)


def touching(track: Track, x: Array, y: Array, angle: Array) -> Array:
    """Returns which tiles W wheels at these poses, float32 ``[B, W]``, overlap: bool ``[B, W, N]``.

    Convex polygons are apart if they are apart along the normal of a side. Where corner is opposite to corner, this
    counts distances of up to 0.028 m as an overlap, Box2D up to 0.02 m.
    """
    s, c = sin_cos(angle)
    ahead, behind = ([points[:, None, i] for i in range(4)] for points in (track.points, track.before()))
    return in_one_kernel(_overlap, ahead, behind, *(v[..., None] for v in (x, y, s, c))) & track.exists[:, None]


def _overlap(ahead: list[Array], behind: list[Array], x: Array, y: Array, s: Array, c: Array) -> Array:
    """Returns whether a wheel overlaps a tile. Elementwise."""
    # Corners relative to the wheel's centre.
    corners = [
        (px - x + side * half_x, py - y + side * half_y)
        for px, py, half_x, half_y in ((*v[:2], v[2] * HALF_WIDTH, v[3] * HALF_WIDTH) for v in (ahead, behind))
        for side in (np.float32(-1), np.float32(1))
    ]
    left, right, left_behind, right_behind = corners
    axes = [(c, s), (-s, c), (-ahead[3], ahead[2]), (-behind[3], behind[2])]
    for (ax, ay), (bx, by) in ((left, left_behind), (right, right_behind)):
        dx, dy = ax - bx, ay - by
        shrink = lax.rsqrt(jnp.maximum(dx * dx + dy * dy, np.float32(1e-12)))
        axes.append((dy * shrink, -dx * shrink))
    overlaps = x == x
    for nx, ny in axes:
        reach = np.float32(WHEEL_HALF_WIDTH) * jnp.abs(nx * c + ny * s)
        reach = reach + np.float32(WHEEL_RADIUS) * jnp.abs(ny * c - nx * s) + _SKIN
        along = [nx * px + ny * py for px, py in corners]
        low, high = along[0], along[0]
        for a in along[1:]:
            low, high = jnp.minimum(low, a), jnp.maximum(high, a)
        overlaps = overlaps & (low <= reach) & (high >= -reach)
    return overlaps
