"""Finds the edges that a body may touch, and the order of its contacts in Box2D: b2BroadPhase for a chain of edges.

A contact exists while the fat bounding boxes of body and edge overlap. Newer contacts come first in Box2D's lists, and
among contacts made in the same step the edge with the larger index. Blocks, created before the edges, come last.
"""

from collections.abc import Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxenv import tree
from jaxenv.envs.physics2d._contact import Impulses
from jaxenv.envs.physics2d._segment import Pair, Segment
from jaxenv.envs.physics2d._settings import AABB_EXTENSION, AABB_MULTIPLIER, POLYGON_RADIUS
from jaxenv.envs.physics2d._vector import Transform, Vector, smallest

T = TypeVar("T")

_FAR = np.float32(1e6)
_FAR_BELOW = np.float32(-1e4)  # the ground beyond the ends of the chain, where nothing touches it


@tree.struct
class Chain:
    """The ground: edges between equally spaced points, starting with point ``first``."""

    heights: Array  # float32 [N + 1, B], metres
    spacing: float = tree.static()
    first: Any = np.int32(0)  # int32 [B], the index of the first point; the point with index 0 is at x = 0


@tree.struct
class Box:
    """Axis-aligned boxes (b2AABB)."""

    left: Any
    low: Any
    right: Any
    high: Any

    @classmethod
    def far(cls) -> "Box":
        """Returns boxes to the right of all others, in place of boxes that do not exist."""
        return cls(_FAR, -_FAR, _FAR, -_FAR)


@tree.struct
class Contacts:
    """Contacts of bodies: ``[n, K, B]`` with the blocks near each body and then the edges, each from left to right."""

    edge: Any  # int32, may lie beyond the ends of the chain; for contacts with blocks the index of the block
    age: Any  # int32, steps since the contact was made; -1 if the boxes do not overlap
    count: Any  # int32, contact points, 0 if the shapes do not touch
    keys: Pair  # int32, features that meet in each point
    impulses: Impulses


def window(chain: Chain, x: Array, num: int) -> tuple[Array, Segment]:
    """Returns the edges around ``x [n, B]``, of which ``num`` is even and enough: indices ``[n, num, B]`` and ends."""
    nearest = jnp.round(x / np.float32(chain.spacing)).astype(jnp.int32)[:, None]
    edge = nearest + np.arange(-num // 2, num - num // 2, dtype=np.int32)[None, :, None]
    last = chain.heights.shape[0] - 2
    index = edge - jnp.broadcast_to(chain.first, x.shape[-1:])[None, None]
    inside = (index >= 0) & (index <= last)
    index = jnp.clip(index, 0, last)
    heights = jnp.broadcast_to(chain.heights[None], (x.shape[0], *chain.heights.shape))
    left, right = (jnp.where(inside, jnp.take_along_axis(heights, i, 1), _FAR_BELOW) for i in (index, index + 1))
    start, end = (i.astype(jnp.float32) * np.float32(chain.spacing) for i in (edge, edge + 1))
    return edge, ((start, left), (end, right))


def overlapping(segment: Segment, fat: Box) -> Any:
    """Returns whether the contact of body and edge exists, bool. Elementwise."""
    margin = POLYGON_RADIUS + AABB_EXTENSION
    (x1, y1), (x2, y2) = segment
    beside = (fat.left <= x2 + margin) & (fat.right >= x1 - margin)
    level = fat.low <= jnp.maximum(y1, y2) + margin
    return beside & level & (fat.high >= jnp.minimum(y1, y2) - margin)


def same_edge(edge: Any, old: Sequence[Contacts]) -> Contacts:
    """Returns the old contact of each edge; age -1 and count 0 if it had no contact. Elementwise."""
    found = jax.tree.map(lambda x: x & 0 if jnp.issubdtype(x.dtype, jnp.integer) else x * 0, old[0])
    found = tree.rebuild(found, edge=edge, age=found.age - 1)
    for contact in old:
        here = edge == contact.edge
        found = jax.tree.map(lambda new, now, here=here: jnp.where(here, new, now), contact, found)
    return found


def matched(age: Any, count: Any, keys: Pair, old: Contacts) -> Contacts:
    """Returns an updated contact, with the impulses of old points of equal key (b2Contact::Update). Elementwise."""
    normal: list[Any] = []
    tangent: list[Any] = []
    for i in range(2):
        # The first old point with the key counts.
        first = (i < count) & (old.keys[0] == keys[i]) & (old.count > 0)
        second = (i < count) & (old.keys[1] == keys[i]) & (old.count > 1) & ~first
        for out, source in ((normal, old.impulses.normal), (tangent, old.impulses.tangent)):
            out.append(jnp.where(first, source[0], jnp.where(second, source[1], 0)))
    impulses = Impulses((normal[0], normal[1]), (tangent[0], tangent[1]))
    return Contacts(old.edge, age, count, keys, impulses)


def joined(parts: Sequence[T]) -> T:
    """Joins trees of arrays for contacts with blocks and with edges along the axis before the last."""
    return parts[0] if len(parts) == 1 else jax.tree.map(lambda *x: jnp.concatenate(x, axis=-2), *parts)


def ranks(age: Array) -> Array:
    """Returns the places of contacts ``[n, K, B]`` in the list of their body, newest first.

    Of equal age the edges come before the blocks, and the right ones before the left ones.
    """
    place = np.arange(age.shape[1])
    this, other = age[:, :, None], age[:, None]
    later = (place[None, :] > place[:, None])[None, :, :, None]
    return jnp.sum((other < this) | ((other == this) & later), axis=2, dtype=jnp.int32)


def last_event(begins: Array, ends: Array, rank: Array, touched: Array) -> Array:
    """Returns whether the last event of any contact, by its rank, was a beginning, bool ``[..., B]``.

    ``touched`` is returned if nothing happened. Box2D reports contacts one by one, and Gymnasium's tasks keep the last
    report: the end of one contact hides that another edge is still touched.
    """
    code = jnp.where(begins | ends, 2 * rank + begins.astype(jnp.int32), -1)
    last = jnp.max(code, axis=-2)
    return jnp.where(last >= 0, last % 2 == 1, touched)


def bounds(corners: Sequence[Vector], transform: Transform) -> Box:
    """Returns the bounding box of a body with its skin."""
    x, y = zip(*(transform.to_world(v) for v in corners), strict=True)
    (left, _), (low, _) = smallest(x), smallest(y)
    (right, _), (high, _) = smallest([-v for v in x]), smallest([-v for v in y])
    return Box(left - POLYGON_RADIUS, low - POLYGON_RADIUS, POLYGON_RADIUS - right, POLYGON_RADIUS - high)


def fattened(box: Box, dx: Any = np.float32(0), dy: Any = np.float32(0)) -> Box:
    """Returns a box with margins, extended along a displacement (b2DynamicTree::MoveProxy)."""
    dx, dy, margin = AABB_MULTIPLIER * dx, AABB_MULTIPLIER * dy, AABB_EXTENSION
    return Box(
        box.left - margin + jnp.minimum(dx, 0),
        box.low - margin + jnp.minimum(dy, 0),
        box.right + margin + jnp.maximum(dx, 0),
        box.high + margin + jnp.maximum(dy, 0),
    )


def moved(fat: Box, before: Box, after: Box, start: Transform, end: Transform) -> Box:
    """Returns the fat boxes after a motion: the old one where it still holds the swept box (b2Fixture::Synchronize)."""
    swept = Box(
        jnp.minimum(before.left, after.left),
        jnp.minimum(before.low, after.low),
        jnp.maximum(before.right, after.right),
        jnp.maximum(before.high, after.high),
    )
    inside = (fat.left <= swept.left) & (fat.low <= swept.low) & (swept.right <= fat.right) & (swept.high <= fat.high)
    new = fattened(swept, end.x - start.x, end.y - start.y)
    return jax.tree.map(lambda old, now: jnp.where(inside, old, now), fat, new)
