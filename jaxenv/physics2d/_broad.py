"""Which edges a body may touch, and in which order Box2D visits its contacts: b2BroadPhase for a chain of edges.

A contact exists while the fat bounding boxes of body and edge overlap. Newer contacts come first in Box2D's lists, and
of contacts that were made in the same step the edge with the larger index comes first.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv.physics2d._contact import Impulses
from jaxenv.physics2d._segment import Pair, Segment
from jaxenv.physics2d._settings import AABB_EXTENSION, AABB_MULTIPLIER, POLYGON_RADIUS
from jaxenv.physics2d._vector import Transform, Vector, smallest

_FAR = 2**30  # the age of no contact


@tree.struct
class Chain:
    """The ground: N edges between N + 1 heights over equally spaced points that start at x = 0."""

    heights: jax.Array  # float32 [N + 1, B], metres
    spacing: float = tree.static()


@tree.struct
class Box:
    """Axis-aligned boxes (b2AABB)."""

    left: Any
    low: Any
    right: Any
    high: Any


@tree.struct
class Contacts:
    """Contacts of bodies and edges: ``[n, K, B]`` for the K edges near each body, or those of one slot."""

    edge: Any  # int32, -1 beyond the ends of the chain
    age: Any  # int32, steps since the contact was made; -1 if the boxes do not overlap
    count: Any  # int32, contact points, 0 if the shapes do not touch
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


# What follows is elementwise: one entry per contact, a list over the K slots of a body, newest first.


def overlapping(edge: Any, segment: Segment, fat: Box) -> Any:
    """Whether the contact of body and edge exists, bool."""
    margin = POLYGON_RADIUS + AABB_EXTENSION
    (x1, y1), (x2, y2) = segment
    beside = (fat.left <= x2 + margin) & (fat.right >= x1 - margin)
    level = fat.low <= jnp.maximum(y1, y2) + margin
    return (edge >= 0) & beside & level & (fat.high >= jnp.minimum(y1, y2) - margin)


def newest_first(edges: Sequence[Any], exist: Sequence[Any], old: Sequence[Contacts]) -> tuple[list[Any], list[Any]]:
    """Ages of the candidates ``edges``, and their ranks in the list; those that do not exist come last."""
    ages: list[Any] = []
    for edge, exists in zip(edges, exist, strict=True):
        age: Any = np.int32(0)
        for contact in old:
            age = jnp.where(_same(edge, contact) & (contact.age >= 0), contact.age + 1, age)
        ages.append(jnp.where(exists, age, np.int32(_FAR)))
    ranks = []
    for k, (age, edge) in enumerate(zip(ages, edges, strict=True)):
        rank: Any = np.int32(0)
        for j, (other_age, other) in enumerate(zip(ages, edges, strict=True)):
            later = (other >= edge) if j < k else (other > edge)
            before = (other_age < age) | ((other_age == age) & later)
            rank = rank + before.astype(jnp.int32) if j != k else rank
        ranks.append(rank)
    return [jnp.where(age < _FAR, age, np.int32(-1)) for age in ages], ranks


def reordered(ranks: Sequence[Any], values: Sequence[Any]) -> list[Any]:
    """The values, any trees, with that of rank k at place k."""

    def at(place):
        out = values[0]
        for rank, value in zip(ranks[1:], values[1:], strict=True):
            out = jax.tree.map(lambda new, old, here=rank == place: jnp.where(here, new, old), value, out)
        return out

    return [at(place) for place in range(len(values))]


def matched(edge: Any, age: Any, count: Any, keys: Pair, old: Sequence[Contacts]) -> tuple[Contacts, Any]:
    """A contact with the impulses of old points of the same edge and key (b2Contact::Update).

    Also whether it touched before, bool.
    """
    touched: Any = edge < -1  # False
    zero = np.float32(0)
    normal: list[Any] = [zero, zero]
    tangent: list[Any] = [zero, zero]
    for contact in old:
        same = _same(edge, contact)
        touched = touched | (same & (contact.count > 0))
        for i in range(2):
            # The first old point with the key counts.
            first = same & (i < count) & (contact.keys[0] == keys[i]) & (contact.count > 0)
            second = same & (i < count) & (contact.keys[1] == keys[i]) & (contact.count > 1) & ~first
            for total, source in ((normal, contact.impulses.normal), (tangent, contact.impulses.tangent)):
                total[i] = jnp.where(first, source[0], jnp.where(second, source[1], total[i]))
    return Contacts(edge, age, count, keys, Impulses((normal[0], normal[1]), (tangent[0], tangent[1]))), touched


def _same(edge: Any, contact: Contacts) -> Any:
    """Whether a candidate is an old contact, bool."""
    return (edge == contact.edge) & (edge >= 0)


def bounds(corners: Sequence[Vector], transform: Transform) -> Box:
    """The bounding box of a body with its skin."""
    x, y = zip(*(transform.to_world(v) for v in corners), strict=True)
    (left, _), (low, _) = smallest(x), smallest(y)
    (right, _), (high, _) = smallest([-v for v in x]), smallest([-v for v in y])
    return Box(left - POLYGON_RADIUS, low - POLYGON_RADIUS, POLYGON_RADIUS - right, POLYGON_RADIUS - high)


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
