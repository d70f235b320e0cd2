"""Computes the time of impact of a static edge or block and a moving convex polygon: b2TimeOfImpact.

Box2D finds closest features by GJK. With an edge or a block and a few corners all pairs of features can be compared
instead. Functions without a loop are elementwise, one entry per pair of edge or block and polygon.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxenv import tree
from jaxenv.core import in_one_kernel
from jaxenv.envs.physics2d import _vector as vector
from jaxenv.envs.physics2d._block import NORMALS, corners_of_box
from jaxenv.envs.physics2d._broad import Box
from jaxenv.envs.physics2d._contact import Triple
from jaxenv.envs.physics2d._scene import Scene
from jaxenv.envs.physics2d._segment import Corners, Segment, corners_of
from jaxenv.envs.physics2d._settings import LINEAR_SLOP
from jaxenv.envs.physics2d._vector import Transform, Vector, dot, minus, pick, smallest

TARGET = LINEAR_SLOP  # distance of the shapes without their skins at the time of impact
TOLERANCE = np.float32(0.25) * LINEAR_SLOP
_OUTER, _INNER, _ROOT = 20, 16, 50  # most iterations
# The kinds of separating features: two points, the edge or a side of the block, or a side of the polygon.
_POINTS, _EDGE, _SIDE = 0, 1, 2

Pair: TypeAlias = tuple[Array, Array]


@tree.struct
class Motion:
    """An edge or a block, and a body that moves from one pose to another in unit time (b2Sweep)."""

    ground: Segment | Box
    body: Any  # int32, index of the body
    start: Triple
    end: Triple


@tree.struct
class Axis:
    """A direction along which separation is measured (b2SeparationFunction)."""

    kind: Any
    direction: Vector  # in the frame of the polygon for a side, else in the world's
    point: Vector  # the middle of the edge or the side, in the same frame


class Sweep:
    """The polygon of a motion, whose corners are constants of the scene."""

    def __init__(self, scene: Scene, motion: Motion):
        self.corners: Corners = corners_of(scene, motion.body)
        self.centre = scene.centre(motion.body)
        self.ground, self.motion = motion.ground, motion
        ground = motion.ground
        self.points: tuple[Vector, ...] = corners_of_box(ground) if isinstance(ground, Box) else ground

    def transform(self, time: Any) -> Transform:
        """Returns the transform at a fraction of the motion."""
        pose = tuple((1 - time) * a + time * b for a, b in zip(self.motion.start, self.motion.end, strict=True))
        return Transform.from_pose(pose, self.centre)


def time_of_impact(scene: Scene, motion: Motion, live: Array) -> Pair:
    """Returns whether pairs meet during the motion, and at which fraction of it; only where ``live``."""

    def advance(carry: Any) -> Any:
        count, active, time, touching, when = carry
        reached, active, axis = in_one_kernel(_classify, scene, motion, time, active)
        time, found, ended, later = _resolve(scene, motion, axis, time, active)
        when = jnp.where(reached, time, jnp.where(found, later, when))
        return count + 1, active & ~ended, time, touching | reached | found, when

    zero = jnp.zeros_like(live, jnp.float32)
    start = (np.int32(0), live, zero, jnp.zeros_like(live), zero + 1)
    end = lax.while_loop(lambda c: (c[0] < _OUTER) & jnp.any(c[1]), advance, start)
    return end[3], end[4]


def _classify(scene: Scene, motion: Motion, time: Any, active: Any) -> tuple[Any, Any, Axis]:
    """Returns which pairs are at the target distance, which are farther apart, and the axes of separation."""
    sweep = Sweep(scene, motion)
    closest = _closest_to_block if isinstance(motion.ground, Box) else _closest
    distance, kind, index_a, index_b = closest(sweep, time)
    overlap = active & (distance <= 0)
    reached = active & ~overlap & (distance < TARGET + TOLERANCE)
    return reached, active & ~overlap & ~reached, _axis(sweep, time, kind, index_a, index_b)


def _closest(sweep: Sweep, time: Any) -> tuple[Any, Any, Any, Any]:
    """Returns the distance (0 where the shapes overlap), which features are closest, and their indices."""
    first, second = sweep.points
    edge = minus(second, first)
    transform = sweep.transform(time)
    corners = [transform.to_world(v) for v in sweep.corners.vertex]
    normals = [transform.turn(n) for n in sweep.corners.normal]
    size = len(corners)

    # Corners of the polygon against the edge.
    along, squares = [], []
    for corner in corners:
        along.append(dot(minus(corner, first), edge) / dot(edge, edge))
        clipped = jnp.clip(along[-1], 0, 1)
        gap = minus(corner, (first[0] + clipped * edge[0], first[1] + clipped * edge[1]))
        squares.append(dot(gap, gap))
    squares += _to_sides((first, second), corners)
    least, best = smallest(squares)
    index_b = jnp.where(best < size, best, jnp.where(best < 2 * size, best - size, best - 2 * size))
    where_along = pick(index_b, along)
    on_corner = best < size
    inner = (where_along > 0) & (where_along < 1)
    kind = jnp.where(on_corner, jnp.where(inner, np.int32(_EDGE), np.int32(_POINTS)), np.int32(_SIDE))
    index_a = jnp.where(on_corner, where_along >= 1, best >= 2 * size).astype(jnp.int32)

    # The shapes overlap unless a normal of either separates them.
    length = jnp.sqrt(dot(edge, edge))
    out = edge[1] / length, -edge[0] / length
    heights = [dot(out, minus(corner, first)) for corner in corners]
    lowest, highest = smallest(heights)[0], -smallest([-h for h in heights])[0]
    apart = jnp.maximum(lowest, -highest) > 0
    for normal, corner in zip(normals, corners, strict=True):
        apart = apart | (jnp.minimum(*(dot(normal, minus(point, corner)) for point in (first, second))) > 0)
    return jnp.where(apart, jnp.sqrt(least), 0), kind, index_a, index_b


def _to_sides(points: Sequence[Vector], corners: list[Vector]) -> list[Any]:
    """Returns squared distances from each point to each side of the polygon; large where a corner is closer."""
    squares = []
    for point in points:
        for corner, following in zip(corners, corners[1:] + corners[:1], strict=True):
            side = minus(following, corner)
            # Padding gives sides of no length, which are never closest.
            length = dot(side, side)
            part = dot(minus(point, corner), side) / jnp.where(length > 0, length, np.float32(1))
            gap = minus(point, (corner[0] + part * side[0], corner[1] + part * side[1]))
            beside = (part > 0) & (part < 1) & (length > 0)
            squares.append(jnp.where(beside, dot(gap, gap), np.float32(3e38)))
    return squares


def _closest_to_block(sweep: Sweep, time: Any) -> tuple[Any, Any, Any, Any]:
    """Returns the same as `_closest` for a block."""
    block: Any = sweep.ground
    transform = sweep.transform(time)
    corners = [transform.to_world(v) for v in sweep.corners.vertex]
    normals = [transform.turn(n) for n in sweep.corners.normal]
    size = len(corners)

    def beyond(x: Any, low: Any, high: Any) -> Any:
        return jnp.maximum(jnp.maximum(low - x, x - high), 0)

    squares = []
    for x, y in corners:
        gap = beyond(x, block.left, block.right), beyond(y, block.low, block.high)
        squares.append(dot(gap, gap))
    least, best = smallest(squares + _to_sides(sweep.points, corners))
    index_b, run = best % size, best // size
    # The feature of the block that is closest to the corner, numbered from the right as in Box2D.
    x, y = pick(index_b, corners)
    right, above = x >= block.right, y >= block.high
    over, beside = (block.left < x) & ~right, (block.low < y) & ~above
    corner = jnp.where(right, above.astype(jnp.int32), jnp.where(above, np.int32(2), np.int32(3)))
    level = jnp.where(right, np.int32(0), np.int32(2))
    side = jnp.where(over, jnp.where(above, np.int32(1), np.int32(3)), level)
    nearest = jnp.where(over | beside, side, corner)
    kind = jnp.where(run == 0, jnp.where(over | beside, np.int32(_EDGE), np.int32(_POINTS)), np.int32(_SIDE))
    index_a = jnp.where(run == 0, nearest, run - 1)

    apart = best < 0
    for normal, point in zip(NORMALS, sweep.points, strict=True):
        apart = apart | (smallest([dot(normal, minus(v, point)) for v in corners])[0] > 0)
    for normal, v in zip(normals, corners, strict=True):
        apart = apart | (smallest([dot(normal, minus(point, v)) for point in sweep.points])[0] > 0)
    return jnp.where(apart, jnp.sqrt(least), 0), kind, index_a, index_b


def _axis(sweep: Sweep, time: Any, kind: Any, index_a: Any, index_b: Any) -> Axis:
    """Returns the axis that separates the closest features at a time, from edge to polygon or out of the side."""
    vertices = sweep.corners.vertex
    half = np.float32(0.5)
    transform = sweep.transform(time)
    on_edge = _entry(index_a, sweep.points)
    this, following = pick(index_b, vertices), pick(index_b, vertices[1:] + vertices[:1])
    corner = transform.to_world(this)
    across = minus(corner, on_edge)
    distance = jnp.sqrt(dot(across, across))
    distance = jnp.where(distance > 0, distance, np.float32(1))

    middle, out = _facing(sweep, index_a, corner)
    side = minus(following, this)
    length = jnp.sqrt(dot(side, side))
    length = jnp.where(length > 0, length, np.float32(1))
    outward = side[1] / length, -side[0] / length
    centre = half * (this[0] + following[0]), half * (this[1] + following[1])
    seen = dot(minus(on_edge, transform.to_world(centre)), transform.turn(outward))
    turned = jnp.where(seen < 0, np.float32(-1), np.float32(1))

    directions = [(across[0] / distance, across[1] / distance), out]
    direction = vector.where(kind == _EDGE, directions[1], directions[0])
    direction = vector.where(kind == _SIDE, (turned * outward[0], turned * outward[1]), direction)
    return Axis(kind, direction, vector.where(kind == _SIDE, centre, middle))


def _facing(sweep: Sweep, index_a: Any, corner: Vector) -> tuple[Vector, Vector]:
    """Returns the middle of the edge or of a block's side, and its normal towards a corner of the polygon."""
    half = np.float32(0.5)
    if isinstance(sweep.ground, Box):
        points = sweep.points
        pairs = zip(points, points[1:] + points[:1], strict=True)
        middles = [(half * (a[0] + b[0]), half * (a[1] + b[1])) for a, b in pairs]
        return pick(index_a, middles), pick(index_a, NORMALS)
    first, second = sweep.points
    edge = minus(second, first)
    length = jnp.sqrt(dot(edge, edge))
    middle = half * (first[0] + second[0]), half * (first[1] + second[1])
    normal = edge[1] / length, -edge[0] / length
    sign = jnp.where(dot(minus(corner, middle), normal) < 0, np.float32(-1), np.float32(1))
    return middle, (sign * normal[0], sign * normal[1])


def _entry(index: Any, points: tuple[Vector, ...]) -> Vector:
    return vector.where(index == 0, *points) if len(points) == 2 else pick(index, points)


def _resolve(scene: Scene, motion: Motion, axis: Axis, time: Array, active: Array) -> tuple[Array, Array, Array, Array]:
    """Follows one axis: returns the new time, whether and when it reaches the target distance, and whether to stop."""

    def push_back(carry: Any) -> Any:
        count, open_, time, later, found, ended, when = carry
        compared = in_one_kernel(_compare, scene, motion, axis, open_, time, later)
        open_, new_time, reached, ends, features, separations = compared
        root = _root(scene, motion, axis, features, (time, later), separations, open_)
        when = jnp.where(reached, time, when)
        later = jnp.where(open_, root, later)
        return count + 1, open_, new_time, later, found | reached, ended | ends, when

    no = jnp.zeros_like(active)
    start = (np.int32(0), active, time, jnp.ones_like(time), no, no, time)
    end = lax.while_loop(lambda c: (c[0] < _INNER) & jnp.any(c[1]), push_back, start)
    return end[2], end[4], end[5], end[6]


def _compare(scene: Scene, motion: Motion, axis: Axis, open_: Any, time: Any, later: Any) -> tuple[Any, ...]:
    """Compares the separations at two times."""
    sweep = Sweep(scene, motion)
    after, index_a, index_b = _smallest(sweep, axis, later)
    apart = open_ & (after > TARGET + TOLERANCE)
    open_ = open_ & ~apart
    advanced = open_ & (after > TARGET - TOLERANCE)
    open_ = open_ & ~advanced
    before = _separation(sweep, axis, index_a, index_b, time)
    failed = open_ & (before < TARGET - TOLERANCE)
    reached = open_ & ~failed & (before <= TARGET + TOLERANCE)
    ends, time = apart | failed | reached, jnp.where(advanced, later, time)
    return open_ & ~failed & ~reached, time, reached, ends, (index_a, index_b), (before, after)


def _root(
    scene: Scene, motion: Motion, axis: Axis, features: Pair, times: Pair, separations: Pair, active: Array
) -> Array:
    """Returns when two features are at the target distance, by secant and bisection in turns."""

    def step(carry: Any) -> Any:
        return carry[0] + 1, *in_one_kernel(_narrow, scene, motion, axis, features, *carry)

    start = (jnp.int32(0), active, *times, *separations, times[1])
    return lax.while_loop(lambda c: (c[0] < _ROOT) & jnp.any(c[1]), step, start)[6]


def _narrow(scene: Scene, motion: Motion, axis: Axis, features: Pair, *carry: Array) -> tuple[Array, ...]:
    count, open_, low, high, at_low, at_high, root = carry
    span = jnp.where(at_high != at_low, at_high - at_low, np.float32(1))
    secant = low + (TARGET - at_low) * (high - low) / span
    time = jnp.where(count % 2 == 1, secant, np.float32(0.5) * (low + high))
    index_a, index_b = features
    value = _separation(Sweep(scene, motion), axis, index_a, index_b, time)
    done = open_ & (jnp.abs(value - TARGET) < TOLERANCE)
    open_ = open_ & ~done
    up, down = open_ & (value > TARGET), open_ & (value <= TARGET)
    low, at_low = vector.where(up, (time, value), (low, at_low))
    high, at_high = vector.where(down, (time, value), (high, at_high))
    return open_, low, high, at_low, at_high, jnp.where(done, time, root)


def _smallest(sweep: Sweep, axis: Axis, time: Any) -> tuple[Any, Any, Any]:
    """Returns the smallest separation of any features along the axis, and these features."""
    transform = sweep.transform(time)
    of_side = axis.kind == _SIDE
    out = vector.where(of_side, transform.turn(axis.direction), axis.direction)
    towards = jnp.where(of_side, np.float32(-1), np.float32(1))
    along = [towards * dot(out, point) for point in sweep.points]
    index_a = (along[1] > along[0]).astype(jnp.int32) if len(along) == 2 else smallest([-x for x in along])[1]
    _, index_b = smallest([dot(out, transform.to_world(v)) for v in sweep.corners.vertex])
    return _separation(sweep, axis, index_a, index_b, time), index_a, index_b


def _separation(sweep: Sweep, axis: Axis, index_a: Any, index_b: Any, time: Any) -> Any:
    """Returns the separation of two features along the axis."""
    transform = sweep.transform(time)
    of_side = axis.kind == _SIDE
    out = vector.where(of_side, transform.turn(axis.direction), axis.direction)
    corner = transform.to_world(pick(index_b, sweep.corners.vertex))
    on_edge = _entry(index_a, sweep.points)
    origin = vector.where(axis.kind == _POINTS, on_edge, axis.point)
    moving = minus(corner, origin)
    still = minus(on_edge, transform.to_world(axis.point))
    return dot(vector.where(of_side, still, moving), out)
