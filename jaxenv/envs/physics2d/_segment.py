"""Computes contact manifolds of static edges and convex polygons: b2EPCollider without neighbouring edges.

All functions are elementwise: scalars or arrays of one shape, one entry per pair of edge and polygon.
"""

import dataclasses
from typing import Any, TypeAlias

import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxenv import tree
from jaxenv.envs.physics2d import _vector as vector
from jaxenv.envs.physics2d._scene import Scene
from jaxenv.envs.physics2d._settings import POLYGON_RADIUS, TOTAL_RADIUS
from jaxenv.envs.physics2d._vector import Transform, Vector, dot, minus, pick, smallest

Segment: TypeAlias = tuple[Vector, Vector]  # the ends of an edge
Pair: TypeAlias = tuple[Any, Any]  # a value for each of two contact points

# Kinds of features in the keys that identify contact points (b2ContactFeature).
VERTEX, FACE = 0, 1


@tree.struct
class Corners:
    """Corners and outward normals of a polygon in the coordinates of its body, and their number."""

    vertex: tuple[Vector, ...]
    normal: tuple[Vector, ...]
    count: Any  # int32, without padding


@tree.struct
class Manifold:
    """Up to two contact points of a pair of edge and polygon (b2Manifold)."""

    count: Any  # int32: points, 0 if the pair does not touch
    on_body: Any  # bool: whether the reference face belongs to the polygon, not to the edge
    normal: Vector  # of the reference face, in the coordinates of its owner
    origin: Vector  # a point of the reference face, in the same coordinates
    points: tuple[Vector, Vector]  # in the coordinates of the other shape
    keys: Pair  # int32: which features meet in the point


def corners_of(scene: Scene, body: Any) -> Corners:
    """Returns the corners of the body with this index, a number or an array of them."""
    p = scene.polygons

    def each(x: np.ndarray, y: np.ndarray) -> tuple[tuple[Array, Array], ...]:
        return tuple((pick(body, list(i)), pick(body, list(j))) for i, j in zip(x, y, strict=True))

    return Corners(each(p.x, p.y), each(p.normal_x, p.normal_y), pick(body, list(p.count)))


def collide(segment: Segment, transform: Transform, corners: Corners, centre: Vector) -> Manifold:
    """Returns the manifold of an edge and a polygon; its ``centre`` decides which side of the edge faces it."""
    first, second = segment
    along = minus(second, first)
    length = jnp.sqrt(dot(along, along))
    normal = along[1] / length, -along[0] / length
    front = dot(normal, minus(transform.to_world(centre), first)) >= 0
    normal = vector.where(front, normal, (-normal[0], -normal[1]))

    vertices = [transform.to_world(v) for v in corners.vertex]
    normals = [transform.turn(n) for n in corners.normal]
    edge_separation, _ = smallest([dot(normal, minus(v, first)) for v in vertices])
    sides = zip(normals, vertices, strict=True)
    depths = [jnp.maximum(dot(n, minus(v, first)), dot(n, minus(v, second))) for n, v in sides]
    depth, face = smallest(depths)
    face_separation = -depth
    near = (edge_separation <= TOTAL_RADIUS) & (face_separation <= TOTAL_RADIUS)
    on_body = face_separation > np.float32(0.98) * edge_separation + np.float32(0.001)
    _, opposed = smallest([dot(normal, n) for n in normals])

    # The incident face: the face of the polygon most opposed to the edge's normal, or the edge itself.
    after_opposed, after_face = following(opposed, corners.count), following(face, corners.count)
    ends = (first, opposed), (second, after_opposed)
    incident = [vector.where(on_body, end, pick(i, vertices)) for end, i in ends]
    keys = [jnp.where(on_body, feature_key(0, face, VERTEX, FACE), feature_key(0, i, FACE, VERTEX)) for _, i in ends]
    # The reference face, from start to end.
    start = vector.where(on_body, pick(face, vertices), vector.where(front, first, second))
    end = vector.where(on_body, pick(after_face, vertices), vector.where(front, second, first))
    start_index = jnp.where(on_body, face, jnp.where(front, np.int32(0), np.int32(1)))
    end_index = jnp.where(on_body, after_face, jnp.where(front, np.int32(1), np.int32(0)))
    out = vector.where(on_body, pick(face, normals), normal)

    reference = Reference(on_body, face, (start, end), (start_index, end_index), out)
    return clipped(near, reference, incident, keys, transform, corners)


@dataclasses.dataclass
class Reference:
    """The face along whose normal the shapes are separated most."""

    on_body: Any  # bool: whether it belongs to the polygon
    face: Any  # int32, its index if it does
    ends: tuple[Vector, Vector]
    indices: Pair  # of its ends
    normal: Vector  # outward


def clipped(
    near: Any,
    reference: Reference,
    incident: list[Vector],
    keys: list[Any],
    transform: Transform,
    corners: Corners,
    skin: np.float32 = np.float32(0),
) -> Manifold:
    """Returns the manifold of faces of shapes that are ``near``, cut ``skin`` beyond the ends of the reference."""
    on_body, face, (start, end), out = reference.on_body, reference.face, reference.ends, reference.normal
    side = out[1], -out[0]
    incident, keys, crossed = _clip(incident, keys, side, _offset(side, start, skin), reference.indices[0])
    side = -side[0], -side[1]
    incident, keys, crossed_too = _clip(incident, keys, side, _offset(side, end, skin), reference.indices[1])

    local = [vector.where(on_body, p, transform.to_local(p)) for p in incident]
    keys = [jnp.where(on_body, _swapped(key), key) for key in keys]
    kept = [dot(out, minus(p, start)) <= TOTAL_RADIUS for p in incident]
    count = kept[0].astype(jnp.int32) + kept[1].astype(jnp.int32)
    return Manifold(
        count=jnp.where(near & crossed & crossed_too, count, 0),
        on_body=on_body,
        normal=vector.where(on_body, pick(face, corners.normal), out),
        origin=vector.where(on_body, pick(face, corners.vertex), start),
        points=(vector.where(kept[0], local[0], local[1]), local[1]),
        keys=(jnp.where(kept[0], keys[0], keys[1]), keys[1]),
    )


def _offset(side: Vector, end: Vector, skin: np.float32) -> Any:
    return dot(side, end) + skin if skin else dot(side, end)


def in_world(manifold: Manifold, transform: Transform) -> tuple[tuple[Vector, Vector], Pair, Vector, Vector]:
    """Returns the manifold at a pose: incident points, their heights above the reference face, and two normals.

    Heights leave out the shapes' radii. The normals point out of the face, and from the edge towards the body.
    """
    on_body = manifold.on_body
    out = vector.where(on_body, transform.turn(manifold.normal), manifold.normal)
    origin = vector.where(on_body, transform.to_world(manifold.origin), manifold.origin)
    first, second = (vector.where(on_body, p, transform.to_world(p)) for p in manifold.points)
    heights = dot(minus(first, origin), out), dot(minus(second, origin), out)
    return (first, second), heights, out, vector.where(on_body, (-out[0], -out[1]), out)


def contact_points(points: tuple[Vector, Vector], heights: Pair, out: Vector) -> list[Vector]:
    """Returns the points halfway between the skins of the two shapes (b2WorldManifold)."""
    half = np.float32(0.5)
    middles = []
    for point, height in zip(points, heights, strict=True):
        lift = POLYGON_RADIUS - height
        x = half * (point[0] + lift * out[0] + point[0] - POLYGON_RADIUS * out[0])
        y = half * (point[1] + lift * out[1] + point[1] - POLYGON_RADIUS * out[1])
        middles.append((x, y))
    return middles


def _clip(
    points: list[Vector], keys: list[Array], side: Vector, offset: Array, index: Array
) -> tuple[list[Vector], list[Any], Any]:
    """Cuts the segment of two points at a line (b2ClipSegmentToLine); also returns whether two points are left."""
    above = [dot(side, p) - offset for p in points]
    inside = [a <= 0 for a in above]
    cut = above[0] * above[1] < 0
    fraction = above[0] / jnp.where(cut, above[0] - above[1], np.float32(1))
    x, y = (p + fraction * (q - p) for p, q in zip(*points, strict=True))
    key = feature_key(index, (keys[0] >> 8) & 255, VERTEX, FACE)
    both = inside[0] & inside[1]
    cut_points = [vector.where(inside[0], *points), vector.where(both, points[1], (x, y))]
    cut_keys = [jnp.where(inside[0], *keys), jnp.where(both, keys[1], key)]
    return cut_points, cut_keys, sum(f.astype(jnp.int32) for f in (*inside, cut)) >= 2


def feature_key(index_a: Any, index_b: Any, type_a: int, type_b: int) -> Any:
    return index_a | index_b << 8 | np.int32(type_a << 16 | type_b << 24)


def _swapped(key: Array) -> Array:
    """Returns the key as seen from the other shape."""
    return ((key >> 8) & 255) | ((key & 255) << 8) | (((key >> 24) & 255) << 16) | (((key >> 16) & 255) << 24)


def following(index: Any, count: Any) -> Array:
    return jnp.where(index + 1 < count, index + 1, 0)
