"""Contact manifolds of fixed axis-aligned blocks and convex polygons: b2CollidePolygons with the block as first shape.

Functions on a single block are elementwise: scalars or arrays of one shape, one entry per pair of block and polygon.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv.envs.physics2d import _vector as vector
from jaxenv.envs.physics2d._broad import Box
from jaxenv.envs.physics2d._scene import Scene
from jaxenv.envs.physics2d._segment import FACE, VERTEX, Corners, Manifold, Reference, clipped, feature_key, following
from jaxenv.envs.physics2d._settings import TOTAL_RADIUS
from jaxenv.envs.physics2d._vector import Transform, Vector, dot, minus, pick, smallest

MARGIN = np.float32(0.6)  # how far a body may move in one step, in metres

# Sides and corners in Box2D's order. Side 0 is on the right and goes from corner 0, at the bottom, up to corner 1.
_ONE, _NONE = np.float32(1), np.float32(0)
NORMALS = ((_ONE, _NONE), (_NONE, _ONE), (-_ONE, _NONE), (_NONE, -_ONE))


@tree.struct
class Blocks:
    """Fixed boxes from left to right, starting with box ``first``. No box lies inside another."""

    boxes: Box  # float32 [M, B] each, metres; a missing one is far on the right
    first: Any = np.int32(0)  # int32 [B], the index of the first box


def window(scene: Scene, blocks: Blocks, x: jax.Array) -> tuple[jax.Array, Box]:
    """Returns the ``scene.blocks`` boxes near bodies at ``x [n, B]``: indices and boxes ``[n, scene.blocks, B]``."""
    num = blocks.boxes.left.shape[0]
    reach = (scene.radius + MARGIN)[:, None]
    passed = blocks.boxes.right[None] < (x - reach)[:, None]
    place = jnp.sum(passed, axis=1, dtype=jnp.int32)[:, None] + np.arange(scene.blocks, dtype=np.int32)[None, :, None]
    sides = jnp.stack(jax.tree.leaves(blocks.boxes))[:, None]
    found = jnp.take_along_axis(sides, jnp.minimum(place, np.int32(num - 1))[None], axis=2)
    boxes = jax.tree.map(lambda far, x: jnp.where(place < num, x, far), Box.far(), Box(*found))
    return place + jnp.broadcast_to(blocks.first, x.shape[-1:])[None, None], boxes


def corners_of_box(box: Box) -> tuple[Vector, ...]:
    """Returns the corners of a box, counterclockwise from the lower right one."""
    return (box.right, box.low), (box.right, box.high), (box.left, box.high), (box.left, box.low)


def collide(box: Box, transform: Transform, corners: Corners, centre: Vector) -> Manifold:
    """Returns the manifold of a box and a polygon, whose centroid is ``centre`` in the coordinates of its body."""
    points = corners_of_box(box)
    vertices = [transform.to_world(v) for v in corners.vertex]
    normals = [transform.turn(n) for n in corners.normal]
    gaps = [_edge_separation(normal, point, vertices) for normal, point in zip(NORMALS, points, strict=True)]
    body_gaps = [_edge_separation(normal, vertex, points) for normal, vertex in zip(normals, vertices, strict=True)]

    half = np.float32(0.5)
    middle = half * (box.left + box.right), half * (box.low + box.high)
    away = minus(transform.to_world(centre), middle)
    side, separation = _max_separation(gaps, _best_normal(away, NORMALS), np.int32(len(gaps)))
    face, body_separation = _max_separation(body_gaps, _best_normal((-away[0], -away[1]), normals), corners.count)
    near = (separation <= TOTAL_RADIUS) & (body_separation <= TOTAL_RADIUS)
    on_body = body_separation > np.float32(0.98) * separation + np.float32(0.001)

    out = vector.where(on_body, pick(face, normals), pick(side, NORMALS))
    inward = -out[0], -out[1]
    opposed, opposed_side = _best_normal(inward, normals), _best_normal(inward, NORMALS)
    after = following(opposed, corners.count), following(opposed_side, np.int32(len(points)))
    pairs = (opposed, opposed_side), after
    incident = [vector.where(on_body, pick(second, points), pick(first, vertices)) for first, second in pairs]
    index = jnp.where(on_body, face, side)
    first, second = jnp.where(on_body, opposed_side, opposed), jnp.where(on_body, after[1], after[0])
    keys = [feature_key(index, i, FACE, VERTEX) for i in (first, second)]
    next_face, next_side = following(face, corners.count), following(side, np.int32(len(points)))
    start = vector.where(on_body, pick(face, vertices), pick(side, points))
    end = vector.where(on_body, pick(next_face, vertices), pick(next_side, points))
    reference = Reference(on_body, face, (start, end), (index, jnp.where(on_body, next_face, next_side)), out)
    return clipped(near, reference, incident, keys, transform, corners, TOTAL_RADIUS)


def _edge_separation(normal: Vector, origin: Vector, points: Any) -> Any:
    """Returns the smallest distance of points from the line through ``origin`` along ``normal`` (b2EdgeSeparation)."""
    return smallest([dot(normal, minus(p, origin)) for p in points])[0]


def _best_normal(direction: Vector, normals: Any) -> Any:
    """Returns the index of the normal that points most in a direction."""
    return smallest([-dot(n, direction) for n in normals])[1]


def _max_separation(gaps: list[Any], start: Any, count: Any) -> tuple[Any, Any]:
    """Returns the side with the largest gap found from ``start``, and that gap (b2FindMaxSeparation).

    Box2D walks from side to side while the gap grows, so it may stop at a local maximum.
    """
    before, after = jnp.where(start > 0, start - 1, count - 1), following(start, count)
    here, back, on = (pick(i, gaps) for i in (start, before, after))
    goes_back = (back > here) & (back > on)
    goes_on = ~goes_back & (on > here)
    best = jnp.where(goes_back, before, jnp.where(goes_on, after, start))
    gap = jnp.where(goes_back, back, jnp.where(goes_on, on, here))
    going = goes_back | goes_on
    for _ in range(len(gaps) - 3):
        further = jnp.where(goes_back, jnp.where(best > 0, best - 1, count - 1), following(best, count))
        found = pick(further, gaps)
        going = going & (found > gap)
        best, gap = jnp.where(going, further, best), jnp.where(going, found, gap)
    return best, gap
