"""Contact manifolds of static edges and convex polygons: b2EPCollider without neighbouring edges.

Shapes: ``[m, K, B]`` for m bodies, K edges near each, B lanes. Corners of polygons lead with another axis ``[V, ...]``.
"""

from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv._xla import computed_once
from jaxenv.physics2d import _vector as vector
from jaxenv.physics2d._scene import Scene
from jaxenv.physics2d._settings import POLYGON_RADIUS, TOTAL_RADIUS
from jaxenv.physics2d._vector import Transform, Vector, dot, minus

Segment: TypeAlias = tuple[Vector, Vector]  # the ends of edges
Pair: TypeAlias = tuple[Any, Any]  # a value for each of two contact points

# Kinds of features in the keys that identify contact points (b2ContactFeature).
_VERTEX, _FACE = 0, 1


@tree.struct
class Corners:
    """Corners and outward normals of polygons in body coordinates, float32 ``[V, m, 1, 1]``, and their number."""

    vertex: Vector
    normal: Vector
    count: Any  # int32 [m, 1, 1]


@tree.struct
class Manifold:
    """Up to two contact points of each pair of edge and polygon (b2Manifold), ``[m, K, B]``."""

    count: jax.Array  # int32: points, 0 if the pair does not touch
    on_body: jax.Array  # bool: whether the reference face belongs to the polygon, not to the edge
    normal: Vector  # of the reference face, in the coordinates of its owner
    origin: Vector  # a point of the reference face, in the same coordinates
    points: tuple[Vector, Vector]  # in the coordinates of the other shape
    keys: Pair  # int32: which features meet in the point


def corners_of(scene: Scene) -> Corners:
    """Corners of all bodies of a scene, in the shapes that `collide` takes."""
    p = scene.polygons
    x, y, normal_x, normal_y = (a[:, :, None, None] for a in (p.x, p.y, p.normal_x, p.normal_y))
    return Corners((x, y), (normal_x, normal_y), p.count[:, None, None])


def collide(segment: Segment, transform: Transform, corners: Corners, centre: Vector) -> Manifold:
    """Manifolds of edges ``[m, K, B]`` and polygons whose transforms are ``[m, 1, B]``.

    ``centre`` is the polygon's centroid in body coordinates, ``[m, 1, 1]``. It decides which side of the edge faces
    the polygon.
    """
    first, second = segment
    along = minus(second, first)
    length = jnp.sqrt(dot(along, along))
    normal = along[1] / length, -along[0] / length
    front = computed_once(dot(normal, minus(transform.to_world(centre), first)) >= 0)
    normal = vector.where(front, normal, (-normal[0], -normal[1]))

    lifted = jax.tree.map(lambda x: x[None], transform)  # broadcasts over corners
    ends = tuple((v[0][None], v[1][None]) for v in segment)
    vertices, normals = lifted.to_world(corners.vertex), lifted.turn(corners.normal)
    vertices, normals, normal = computed_once((vertices, normals, normal))
    facing = normal[0][None], normal[1][None]

    edge_separation = jnp.min(dot(facing, minus(vertices, ends[0])), axis=0)
    by_face = jnp.minimum(-dot(normals, minus(vertices, ends[0])), -dot(normals, minus(vertices, ends[1])))
    face = jnp.argmax(by_face, axis=0).astype(jnp.int32)
    face_separation = jnp.max(by_face, axis=0)
    near = (edge_separation <= TOTAL_RADIUS) & (face_separation <= TOTAL_RADIUS)
    on_body = face_separation > np.float32(0.98) * edge_separation + np.float32(0.001)

    opposed = jnp.argmin(dot(facing, normals), axis=0).astype(jnp.int32)
    face, opposed, on_body, near = computed_once((face, opposed, on_body, near))

    # The incident face: of the polygon, the one most opposed to the edge's normal; or the edge itself.
    after_opposed, after_face = _following(opposed, corners.count), _following(face, corners.count)
    incident = [
        vector.where(on_body, first, _pick(opposed, vertices)),
        vector.where(on_body, second, _pick(after_opposed, vertices)),
    ]
    keys = [
        jnp.where(on_body, _key(0, face, _VERTEX, _FACE), _key(0, opposed, _FACE, _VERTEX)),
        jnp.where(on_body, _key(0, face, _VERTEX, _FACE), _key(0, after_opposed, _FACE, _VERTEX)),
    ]
    # The reference face, from start to end.
    start = vector.where(on_body, _pick(face, vertices), vector.where(front, first, second))
    end = vector.where(on_body, _pick(after_face, vertices), vector.where(front, second, first))
    start_index = jnp.where(on_body, face, jnp.where(front, np.int32(0), np.int32(1)))
    end_index = jnp.where(on_body, after_face, jnp.where(front, np.int32(1), np.int32(0)))
    out = vector.where(on_body, _pick(face, normals), normal)

    incident, start, end, out = computed_once((incident, start, end, out))
    side = out[1], -out[0]
    incident, keys, crossed = _clip(incident, keys, side, dot(side, start), start_index)
    incident, keys = computed_once((incident, keys))
    side = -side[0], -side[1]
    incident, keys, crossed_too = _clip(incident, keys, side, dot(side, end), end_index)

    incident, keys = computed_once((incident, keys))
    local = [vector.where(on_body, p, transform.to_local(p)) for p in incident]
    keys = [jnp.where(on_body, _swapped(key), key) for key in keys]
    kept = [dot(out, minus(p, start)) <= TOTAL_RADIUS for p in incident]
    count = kept[0].astype(jnp.int32) + kept[1].astype(jnp.int32)
    shape = on_body.shape
    return Manifold(
        count=jnp.where(near & crossed & crossed_too, count, 0),
        on_body=on_body,
        normal=vector.where(on_body, _pick(face, _broadcast(corners.normal, shape)), out),
        origin=vector.where(on_body, _pick(face, _broadcast(corners.vertex, shape)), start),
        points=(vector.where(kept[0], local[0], local[1]), local[1]),
        keys=(jnp.where(kept[0], keys[0], keys[1]), keys[1]),
    )


def in_world(manifold: Manifold, transform: Transform) -> tuple[tuple[Vector, Vector], Pair, Vector, Vector]:
    """The manifold at a pose: incident points, their heights above the reference face without the shapes' radii, the
    face's normal, and the normal from the edge towards the body.
    """
    on_body = manifold.on_body
    out = vector.where(on_body, transform.turn(manifold.normal), manifold.normal)
    origin = vector.where(on_body, transform.to_world(manifold.origin), manifold.origin)
    first, second = (vector.where(on_body, p, transform.to_world(p)) for p in manifold.points)
    heights = dot(minus(first, origin), out), dot(minus(second, origin), out)
    return (first, second), heights, out, vector.where(on_body, (-out[0], -out[1]), out)


def contact_points(points: tuple[Vector, Vector], heights: Pair, out: Vector) -> list[Vector]:
    """The points halfway between the skins of the two shapes (b2WorldManifold)."""
    half = np.float32(0.5)
    middles = []
    for point, height in zip(points, heights, strict=True):
        lift = POLYGON_RADIUS - height
        x = half * (point[0] + lift * out[0] + point[0] - POLYGON_RADIUS * out[0])
        y = half * (point[1] + lift * out[1] + point[1] - POLYGON_RADIUS * out[1])
        middles.append((x, y))
    return middles


def _clip(points: list[Vector], keys: list[jax.Array], side: Vector, offset: jax.Array, index: jax.Array):
    """Cuts the segment of two points at a line (b2ClipSegmentToLine); also whether two points are left."""
    above = computed_once([dot(side, p) - offset for p in points])
    inside = [a <= 0 for a in above]
    cut = above[0] * above[1] < 0
    fraction = above[0] / jnp.where(cut, above[0] - above[1], np.float32(1))
    x, y = (p + fraction * (q - p) for p, q in zip(*points, strict=True))
    key = _key(index, (keys[0] >> 8) & 255, _VERTEX, _FACE)
    both = inside[0] & inside[1]
    cut_points = [vector.where(inside[0], *points), vector.where(both, points[1], (x, y))]
    cut_keys = [jnp.where(inside[0], *keys), jnp.where(both, keys[1], key)]
    return cut_points, cut_keys, sum(f.astype(jnp.int32) for f in (*inside, cut)) >= 2


def _key(index_a: Any, index_b: Any, type_a: int, type_b: int) -> Any:
    return index_a | index_b << 8 | np.int32(type_a << 16 | type_b << 24)


def _swapped(key: jax.Array) -> jax.Array:
    """The key seen from the other shape."""
    return ((key >> 8) & 255) | ((key & 255) << 8) | (((key >> 24) & 255) << 16) | (((key >> 16) & 255) << 24)


def _following(index: jax.Array, count: Any) -> jax.Array:
    return jnp.where(index + 1 < count, index + 1, 0)


def _pick(index: jax.Array, of: Vector) -> Vector:
    """The entry ``index`` (``[m, K, B]``) of each array ``[V, m, 1 or K, B]``."""
    chosen = np.arange(of[0].shape[0], dtype=np.int32).reshape(-1, 1, 1, 1) == index[None]
    return tuple(jnp.sum(jnp.where(chosen, v, np.float32(0)), axis=0) for v in of)


def _broadcast(v: Vector, shape: tuple[int, ...]) -> Vector:
    return tuple(jnp.broadcast_to(x, (x.shape[0], *shape)) for x in v)
