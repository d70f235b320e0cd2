"""Time of impact of a static edge and a moving convex polygon: b2TimeOfImpact.

Shapes: ``[K, R]`` for K edges near each of R moving bodies; corners of polygons are ``[V, 1, R]``. Box2D finds closest
features by GJK. With an edge and a few corners all pairs of features can be compared instead.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxenv import tree
from jaxenv._xla import computed_once
from jaxenv.physics2d import _vector as vector
from jaxenv.physics2d._contact import Triple
from jaxenv.physics2d._segment import Segment
from jaxenv.physics2d._settings import LINEAR_SLOP
from jaxenv.physics2d._vector import Transform, Vector, dot, minus

TARGET = LINEAR_SLOP  # distance of the shapes without their skins at the time of impact
TOLERANCE = np.float32(0.25) * LINEAR_SLOP
_OUTER, _INNER, _ROOT = 20, 16, 50  # most iterations
_POINTS, _EDGE, _SIDE = 0, 1, 2  # what separates the shapes: two points, the edge, or a side of the polygon


@tree.struct
class Sweep:
    """A polygon that moves from one pose to another in unit time (b2Sweep); poses ``[1, R]``."""

    start: Triple
    end: Triple
    centre: Vector  # of mass, relative to the origin, [1, R]
    vertex: Vector  # [V, 1, R]
    normal: Vector

    def transform(self, time: jax.Array) -> Transform:
        """At a fraction of the motion, ``[K, R]``."""
        pose = tuple((1 - time) * a + time * b for a, b in zip(self.start, self.end, strict=True))
        return Transform.of_pose(pose, self.centre)

    def vertices(self, time: jax.Array) -> Vector:
        return jax.tree.map(lambda x: x[None], self.transform(time)).to_world(self.vertex)


@tree.struct
class Axis:
    """A direction along which separation is measured (b2SeparationFunction)."""

    kind: jax.Array
    direction: Vector  # in the frame of the polygon for a side, else in the world's
    point: Vector  # a point of the edge or the side, in the same frame


def time_of_impact(segment: Segment, sweep: Sweep, live: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Whether pairs ``[K, R]`` meet during the motion, and the fraction of it at which they do; only where ``live``."""

    def advance(carry):
        count, active, time, touching, when = carry
        distance, kind, index_a, index_b = computed_once(_closest(segment, sweep, time))
        overlap = active & (distance <= 0)
        reached = active & ~overlap & (distance < TARGET + TOLERANCE)
        active = active & ~overlap & ~reached
        axis = computed_once(_axis(segment, sweep, time, kind, index_a, index_b))
        time, found, ended, later = _resolve(segment, sweep, axis, time, active)
        when = jnp.where(reached, time, jnp.where(found, later, when))
        return count + 1, active & ~ended, time, touching | reached | found, when

    zero = jnp.zeros(live.shape, jnp.float32)
    start = (np.int32(0), live, zero, jnp.zeros_like(live), zero + 1)
    end = lax.while_loop(lambda c: (c[0] < _OUTER) & jnp.any(c[1]), advance, start)
    return end[3], end[4]


def _closest(segment: Segment, sweep: Sweep, time: jax.Array):
    """Distance (0 where the shapes overlap), which features are closest, and their indices."""
    first, second = segment
    edge = minus(second, first)
    transform = jax.tree.map(lambda x: x[None], sweep.transform(time))
    corners, normals = computed_once((transform.to_world(sweep.vertex), transform.turn(sweep.normal)))
    size = corners[0].shape[0]
    lifted = [(v[0][None], v[1][None]) for v in (first, second, edge)]

    # Corners of the polygon against the edge.
    along = dot(minus(corners, lifted[0]), lifted[2]) / dot(edge, edge)[None]
    clipped = jnp.clip(along, 0, 1)
    gap = minus(corners, (lifted[0][0] + clipped * lifted[2][0], lifted[0][1] + clipped * lifted[2][1]))
    squares = [dot(gap, gap)]
    # Ends of the edge against the sides. Padding gives sides of no length, which are never closest.
    sides = tuple(jnp.roll(x, -1, axis=0) - x for x in corners)
    lengths = dot(sides, sides)
    for point in lifted[:2]:
        part = dot(minus(point, corners), sides) / jnp.where(lengths > 0, lengths, np.float32(1))
        gap = minus(point, (corners[0] + part * sides[0], corners[1] + part * sides[1]))
        squares.append(jnp.where((part > 0) & (part < 1) & (lengths > 0), dot(gap, gap), np.float32(3e38)))
    every, along = computed_once((jnp.concatenate(squares), along))
    best = computed_once(jnp.argmin(every, axis=0).astype(jnp.int32))
    index_b = jnp.where(best < size, best, jnp.where(best < 2 * size, best - size, best - 2 * size))
    where_along = computed_once(_pick(index_b, along))
    on_corner = best < size
    inner = (where_along > 0) & (where_along < 1)
    kind = jnp.where(on_corner, jnp.where(inner, np.int32(_EDGE), np.int32(_POINTS)), np.int32(_SIDE))
    index_a = jnp.where(on_corner, where_along >= 1, best >= 2 * size).astype(jnp.int32)

    # The shapes overlap unless a normal of either separates them.
    out = edge[1][None], -edge[0][None]
    heights = dot(out, minus(corners, lifted[0])) / jnp.sqrt(dot(edge, edge))[None]
    of_edge = jnp.maximum(jnp.min(heights, axis=0), -jnp.max(heights, axis=0))
    of_sides = jnp.minimum(*(dot(normals, minus(point, corners)) for point in lifted[:2]))
    apart = jnp.maximum(of_edge, jnp.max(of_sides, axis=0)) > 0
    return jnp.where(apart, jnp.sqrt(jnp.min(every, axis=0)), 0), kind, index_a, index_b


def _axis(segment: Segment, sweep: Sweep, time: jax.Array, kind, index_a, index_b) -> Axis:
    """The axis of separation of the closest features at a time, pointing from edge to polygon, or out of the side."""
    first, second = segment
    half = np.float32(0.5)
    transform = sweep.transform(time)
    on_edge = vector.where(index_a == 0, first, second)
    corner = transform.to_world((_pick(index_b, sweep.vertex[0]), _pick(index_b, sweep.vertex[1])))
    corner, on_edge = computed_once((corner, on_edge))
    across = minus(corner, on_edge)
    distance = jnp.sqrt(dot(across, across))
    distance = jnp.where(distance > 0, distance, np.float32(1))

    edge = minus(second, first)
    length = jnp.sqrt(dot(edge, edge))
    middle = half * (first[0] + second[0]), half * (first[1] + second[1])
    normal = edge[1] / length, -edge[0] / length
    sign = jnp.where(dot(minus(corner, middle), normal) < 0, np.float32(-1), np.float32(1))

    this = tuple(_pick(index_b, x) for x in sweep.vertex)
    following = tuple(_pick(index_b, jnp.roll(x, -1, axis=0)) for x in sweep.vertex)
    this, following = computed_once((this, following))
    side = minus(following, this)
    length = jnp.sqrt(dot(side, side))
    length = jnp.where(length > 0, length, np.float32(1))
    outward = side[1] / length, -side[0] / length
    centre = half * (this[0] + following[0]), half * (this[1] + following[1])
    seen = dot(minus(on_edge, transform.to_world(centre)), transform.turn(outward))
    turned = jnp.where(seen < 0, np.float32(-1), np.float32(1))

    directions = [(across[0] / distance, across[1] / distance), (sign * normal[0], sign * normal[1])]
    direction = vector.where(kind == _EDGE, directions[1], directions[0])
    direction = vector.where(kind == _SIDE, (turned * outward[0], turned * outward[1]), direction)
    return Axis(kind, direction, vector.where(kind == _SIDE, centre, middle))


def _resolve(segment: Segment, sweep: Sweep, axis: Axis, time: jax.Array, active: jax.Array):
    """Follows one axis: the new time, whether and when the target distance is reached, whether the search ends."""

    def push_back(carry):
        count, open_, time, later, found, ended, when = carry
        separation, index_a, index_b = computed_once(_smallest(segment, sweep, axis, later))
        apart = open_ & (separation > TARGET + TOLERANCE)
        open_ = open_ & ~apart
        advanced = open_ & (separation > TARGET - TOLERANCE)
        open_ = open_ & ~advanced
        before = computed_once(_separation(segment, sweep, axis, index_a, index_b, time))
        failed = open_ & (before < TARGET - TOLERANCE)
        reached = open_ & ~failed & (before <= TARGET + TOLERANCE)
        open_ = open_ & ~failed & ~reached
        root = _root(segment, sweep, axis, index_a, index_b, time, later, open_)
        new_time = jnp.where(advanced, later, time)
        when = jnp.where(reached, time, when)
        return (
            count + 1,
            open_,
            new_time,
            jnp.where(open_, root, later),
            found | reached,
            ended | apart | failed | reached,
            when,
        )

    no = jnp.zeros_like(active)
    start = (np.int32(0), active, time, jnp.ones_like(time), no, no, time)
    end = lax.while_loop(lambda c: (c[0] < _INNER) & jnp.any(c[1]), push_back, start)
    return end[2], end[4], end[5], end[6]


def _root(segment, sweep, axis, index_a, index_b, early, late, active) -> jax.Array:
    """When two features are at the target distance: secant and bisection in turns."""

    def narrow(carry):
        count, open_, low, high, at_low, at_high, root = carry
        span = jnp.where(at_high != at_low, at_high - at_low, np.float32(1))
        secant = low + (TARGET - at_low) * (high - low) / span
        time = jnp.where(count % 2 == 1, secant, np.float32(0.5) * (low + high))
        value = computed_once(_separation(segment, sweep, axis, index_a, index_b, time))
        done = open_ & (jnp.abs(value - TARGET) < TOLERANCE)
        open_ = open_ & ~done
        up, down = open_ & (value > TARGET), open_ & (value <= TARGET)
        low, at_low = vector.where(up, (time, value), (low, at_low))
        high, at_high = vector.where(down, (time, value), (high, at_high))
        return count + 1, open_, low, high, at_low, at_high, jnp.where(done, time, root)

    ends = [_separation(segment, sweep, axis, index_a, index_b, t) for t in (early, late)]
    start = (np.int32(0), active, early, late, *ends, late)
    return lax.while_loop(lambda c: (c[0] < _ROOT) & jnp.any(c[1]), narrow, start)[6]


def _smallest(segment: Segment, sweep: Sweep, axis: Axis, time: jax.Array):
    """The smallest separation of any features along the axis, and these features."""
    first, second = segment
    transform = sweep.transform(time)
    of_side = axis.kind == _SIDE
    out = vector.where(of_side, transform.turn(axis.direction), axis.direction)
    towards = jnp.where(of_side, np.float32(-1), np.float32(1))
    index_a = (towards * dot(out, second) > towards * dot(out, first)).astype(jnp.int32)
    heights = dot((out[0][None], out[1][None]), sweep.vertices(time))
    index_a, index_b = computed_once((index_a, jnp.argmin(heights, axis=0).astype(jnp.int32)))
    return _separation(segment, sweep, axis, index_a, index_b, time), index_a, index_b


def _separation(segment: Segment, sweep: Sweep, axis: Axis, index_a, index_b, time: jax.Array) -> jax.Array:
    """The separation of two features along the axis."""
    transform = sweep.transform(time)
    of_side = axis.kind == _SIDE
    out = vector.where(of_side, transform.turn(axis.direction), axis.direction)
    corner = transform.to_world((_pick(index_b, sweep.vertex[0]), _pick(index_b, sweep.vertex[1])))
    on_edge = vector.where(index_a == 0, *segment)
    origin = vector.where(axis.kind == _POINTS, on_edge, axis.point)
    moving = minus(corner, origin)
    still = minus(on_edge, transform.to_world(axis.point))
    return dot(vector.where(of_side, still, moving), out)


def _pick(index: jax.Array, values: Any) -> jax.Array:
    """The entry ``index`` (``[K, R]``) of values ``[V, K or 1, R]``."""
    chosen = np.arange(values.shape[0], dtype=np.int32).reshape(-1, 1, 1) == index[None]
    return jnp.sum(jnp.where(chosen, values, np.float32(0)), axis=0)
