"""Which edges a body may touch, and in which order Box2D visits its contacts: b2BroadPhase for a chain of edges.

A contact exists while the fat bounding boxes of body and edge overlap. Newer contacts come first in Box2D's lists, and
of contacts that were made in the same step the edge with the larger index comes first.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv._xla import computed_once
from jaxenv.physics2d._contact import Impulses
from jaxenv.physics2d._segment import Pair, Segment
from jaxenv.physics2d._settings import AABB_EXTENSION, AABB_MULTIPLIER, POLYGON_RADIUS
from jaxenv.physics2d._vector import Transform

_FAR = 2**30  # the age of no contact


@tree.struct
class Chain:
    """The ground: N edges between N + 1 heights over equally spaced points that start at x = 0."""

    heights: jax.Array  # float32 [N + 1, B], metres
    spacing: float = tree.static()


@tree.struct
class Box:
    """Axis-aligned boxes ``[m, B]`` (b2AABB)."""

    left: jax.Array
    low: jax.Array
    right: jax.Array
    high: jax.Array


@tree.struct
class Contacts:
    """The contacts of m bodies with the K edges near each, ``[m, K, B]``."""

    edge: jax.Array  # int32, -1 beyond the ends of the chain
    age: jax.Array  # int32, steps since the contact was made; -1 if the boxes do not overlap
    count: jax.Array  # int32, contact points, 0 if the shapes do not touch
    keys: Pair  # int32, features that meet in each point
    impulses: Impulses


def window(chain: Chain, x: jax.Array, num: int) -> tuple[jax.Array, Segment]:
    """The ``num`` edges around the positions ``x [m, B]``: indices ``[m, num, B]`` and ends.

    Edges beyond the ends of the chain have index -1. ``num`` is even and large enough for the bodies.
    """
    nearest = jnp.round(x / np.float32(chain.spacing)).astype(jnp.int32)[:, None]
    edge = nearest + np.arange(-num // 2, num - num // 2, dtype=np.int32)[None, :, None]
    last = chain.heights.shape[0] - 2
    inside = (edge >= 0) & (edge <= last)
    index = jnp.clip(edge, 0, last)
    heights = jnp.broadcast_to(chain.heights[None], (x.shape[0], *chain.heights.shape))
    left, right = jnp.take_along_axis(heights, index, 1), jnp.take_along_axis(heights, index + 1, 1)
    start, end = (i.astype(jnp.float32) * np.float32(chain.spacing) for i in (index, index + 1))
    return jnp.where(inside, edge, np.int32(-1)), ((start, left), (end, right))


def overlapping(edge: jax.Array, segment: Segment, fat: Box) -> jax.Array:
    """Whether contacts of bodies and edges exist: bool ``[m, K, B]``."""
    margin = POLYGON_RADIUS + AABB_EXTENSION
    (x1, y1), (x2, y2) = segment
    beside = (fat.left[:, None] <= x2 + margin) & (fat.right[:, None] >= x1 - margin)
    level = fat.low[:, None] <= jnp.maximum(y1, y2) + margin
    return (edge >= 0) & beside & level & (fat.high[:, None] >= jnp.minimum(y1, y2) - margin)


def newest_first(edge: jax.Array, exists: jax.Array, old: Contacts) -> tuple[jax.Array, jax.Array]:
    """Ages of the candidates ``edge [m, K, B]``, and their ranks in the list; those that do not exist come last."""
    known = _same(edge, old) & (old.age >= 0)[:, None]
    age = jnp.sum(jnp.where(known, old.age[:, None] + 1, 0), axis=2)
    age = jnp.where(exists, age, np.int32(_FAR))
    one, other = (age[:, :, None], edge[:, :, None]), (age[:, None], edge[:, None])
    slots = np.arange(edge.shape[1])
    place = (slots[:, None] > slots[None, :])[None, :, :, None]
    before = (other[0] < one[0]) | ((other[0] == one[0]) & ((other[1] > one[1]) | ((other[1] == one[1]) & place)))
    rank = jnp.sum(before.astype(jnp.int32), axis=2)
    return computed_once((jnp.where(exists, age, np.int32(-1)), rank))


def reordered(rank: jax.Array, values: Any) -> Any:
    """Arrays ``[m, K, B]`` with the entry of rank k in slot k."""
    slots = np.arange(rank.shape[1], dtype=np.int32)[None, :, None]

    def sort(x):
        out = jnp.broadcast_to(x[:, :1], x.shape)
        for k in range(1, x.shape[1]):
            out = jnp.where(rank[:, k, None] == slots, x[:, k, None], out)
        return out

    return jax.tree.map(sort, values)


def matched(edge: jax.Array, age: jax.Array, count: jax.Array, keys: Pair, old: Contacts) -> tuple[Contacts, jax.Array]:
    """Contacts with the impulses of old points of the same edge and key (b2Contact::Update).

    Also whether each touched before, bool ``[m, K, B]``.
    """
    same = _same(edge, old)
    touched = jnp.any(same & (old.count > 0)[:, None], axis=2)
    normal: list[jax.Array] = []
    tangent: list[jax.Array] = []
    for i in range(2):
        # The first old point with the key counts.
        hits = [same & (old.keys[j][:, None] == keys[i][:, :, None]) & (j < old.count)[:, None] for j in range(2)]
        live = i < count
        hits = computed_once([hits[0] & live[:, :, None], hits[1] & ~hits[0] & live[:, :, None]])
        for total, source in ((normal, old.impulses.normal), (tangent, old.impulses.tangent)):
            found = sum(jnp.sum(jnp.where(hits[j], source[j][:, None], np.float32(0)), axis=2) for j in range(2))
            total.append(jnp.asarray(found))
    return Contacts(edge, age, count, keys, Impulses((normal[0], normal[1]), (tangent[0], tangent[1]))), touched


def _same(edge: jax.Array, old: Contacts) -> jax.Array:
    """Whether candidate k is the old contact j: bool ``[m, K, K, B]``."""
    return (edge[:, :, None] == old.edge[:, None]) & (edge >= 0)[:, :, None]


def bounds(corners: Any, transform: Transform) -> Box:
    """Bounding boxes of bodies with their skins; transforms ``[m, B]``, corners ``[V, m, 1]``."""
    x, y = jax.tree.map(lambda t: t[None], transform).to_world(corners)
    skin = POLYGON_RADIUS
    return Box(jnp.min(x, 0) - skin, jnp.min(y, 0) - skin, jnp.max(x, 0) + skin, jnp.max(y, 0) + skin)


def fattened(box: Box, dx: Any = np.float32(0), dy: Any = np.float32(0)) -> Box:
    """A box with margins, extended along a displacement (b2DynamicTree::MoveProxy)."""
    dx, dy, margin = AABB_MULTIPLIER * dx, AABB_MULTIPLIER * dy, AABB_EXTENSION
    return Box(
        box.left - margin + jnp.minimum(dx, 0),
        box.low - margin + jnp.minimum(dy, 0),
        box.right + margin + jnp.maximum(dx, 0),
        box.high + margin + jnp.maximum(dy, 0),
    )


def moved(fat: Box, before: Box, after: Box, start: Transform, end: Transform) -> Box:
    """Fat boxes after a motion: the old ones where the swept box is still inside (b2Fixture::Synchronize)."""
    swept = Box(
        jnp.minimum(before.left, after.left),
        jnp.minimum(before.low, after.low),
        jnp.maximum(before.right, after.right),
        jnp.maximum(before.high, after.high),
    )
    inside = (fat.left <= swept.left) & (fat.low <= swept.low) & (swept.right <= fat.right) & (swept.high <= fat.high)
    new = fattened(swept, end.x - start.x, end.y - start.y)
    return jax.tree.map(lambda old, now: jnp.where(inside, old, now), fat, new)
