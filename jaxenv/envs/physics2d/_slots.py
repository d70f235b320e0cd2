"""Assigns the contacts that push bodies to the slots that the solver visits.

Each solid body has K edges near it, most of which it does not touch. In a scene with few pairs of body and edge, each
pair has a slot. With many pairs, the touching pairs of a lane are put into ``scene.slots`` slots, mostly empty.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxenv import tree
from jaxenv.core import in_one_kernel
from jaxenv.envs.physics2d._contact import Impulses
from jaxenv.envs.physics2d._scene import Scene
from jaxenv.envs.physics2d._segment import Manifold
from jaxenv.envs.physics2d._vector import pick


@tree.struct
class Slots:
    """Contacts in the order in which they are solved; within a body this is Box2D's order."""

    body: Any  # int32 [S, B], or NumPy [S, 1] where a slot belongs to one body
    manifold: Manifold  # [S, B]
    impulses: Impulses  # [S, B]
    used: Any  # int32 [B], slots in use; not counted where a slot belongs to one body


def slots_of(scene: Scene, manifold: Manifold, impulses: Impulses, rank: Array) -> tuple[Slots, Array]:
    """Returns the slots of manifolds and impulses ``[n, K, B]``; ``rank`` is the order among the contacts of a body.

    Also returns the slots of pairs, int32 ``[m, K, B]`` for m solid bodies; S for a pair without one. Where a slot
    belongs to one body, slots are numbered per body.
    """
    values, rank = jax.tree.map(lambda x: _solid_rows(scene, x), ((manifold, impulses), rank))
    m, num, lanes = rank.shape
    if scene.slots is None:
        places = np.arange(num, dtype=np.int32)[None, :, None]
        ordered = in_one_kernel(_at_place, places, by_place(rank), by_place(values))
        manifold, impulses = jax.tree.map(lambda x: x.reshape(m * num, lanes), ordered)
        body = np.repeat(np.array(scene.solid, np.int32), num)[:, None]
        return Slots(body, manifold, impulses, jnp.zeros(lanes, jnp.int32)), rank

    touching = values[0].count > 0
    totals = jnp.cumsum(jnp.sum(touching, axis=1, dtype=jnp.int32), axis=0)
    before = jnp.sum(touching[:, None] & (rank[:, None] < rank[:, :, None]), axis=2, dtype=jnp.int32)
    place = totals[:, None] - jnp.sum(touching, axis=1, dtype=jnp.int32)[:, None] + before
    place = jnp.where(touching, place, np.int32(scene.slots))
    every = np.arange(scene.slots, dtype=np.int32)[:, None]
    pairs = np.arange(m * num, dtype=np.int32)[None, :, None]
    pair = jnp.sum(jnp.where(place.reshape(1, m * num, lanes) == every[:, None], pairs, 0), axis=1, dtype=jnp.int32)
    manifold, impulses = _gathered(values, pair)
    manifold = tree.rebuild(manifold, count=jnp.where(every < totals[-1:], manifold.count, 0))
    owner = np.int32(scene.solid[0]) + pair // np.int32(num)
    return Slots(owner, manifold, impulses, jnp.minimum(totals[-1], np.int32(scene.slots))), place


def impulses_of(scene: Scene, place: Array, solved: Impulses, old: Impulses) -> Impulses:
    """Returns the impulses ``[n, K, B]`` of all pairs after ``solved [S, B]``; ``old`` are those before."""
    m, num, lanes = place.shape
    if scene.slots is None:
        by_body = jax.tree.map(lambda x: x.reshape(m, num, lanes), solved)
        new = in_one_kernel(pick, place, by_place(by_body))
    else:
        new = _gathered(solved, jnp.minimum(place, np.int32(scene.slots - 1)).reshape(m * num, lanes))
        new = jax.tree.map(lambda x: x.reshape(m, num, lanes), new)
        old_solid = jax.tree.map(lambda x: _solid_rows(scene, x), old)
        kept = place < np.int32(scene.slots)
        new = jax.tree.map(lambda x, y: jnp.where(kept, x, y), new, old_solid)
    first, end = scene.solid[0], scene.solid[-1] + 1
    return jax.tree.map(lambda x, y: jnp.concatenate([y[:first], x, y[end:]]), new, old)


def _solid_rows(scene: Scene, x: Array) -> Array:
    """Returns the rows of the solid bodies, which are neighbours."""
    return x[scene.solid[0] : scene.solid[-1] + 1]


def by_place(values: Any) -> tuple[Any, ...]:
    """Splits arrays ``[m, K, B]`` into K of ``[m, 1, B]``."""
    num = jax.tree.leaves(values)[0].shape[1]
    return tuple(jax.tree.map(lambda x, k=k: x[:, k : k + 1], values) for k in range(num))


def _at_place(place: Any, ranks: Sequence[Any], values: Sequence[Any]) -> Any:
    """Returns the value whose rank is ``place``."""
    out = values[0]
    for rank, value in zip(ranks[1:], values[1:], strict=True):
        out = jax.tree.map(lambda new, old, here=rank == place: jnp.where(here, new, old), value, out)
    return out


def _gathered(values: Any, index: Array) -> Any:
    """Gathers the entries ``index [S, B]`` of arrays ``[..., B]`` with P entries per lane, in two gathers."""
    leaves, structure = jax.tree.flatten(values)
    real = [jnp.issubdtype(x.dtype, jnp.floating) for x in leaves]
    sources = []
    for kind, wanted in ((jnp.float32, True), (jnp.int32, False)):
        same = [x.reshape(-1, x.shape[-1]).astype(kind) for x, r in zip(leaves, real, strict=True) if r == wanted]
        sources.append(iter(jnp.take_along_axis(jnp.stack(same), index[None], axis=1) if same else ()))
    pairs = zip(leaves, real, strict=True)
    return jax.tree.unflatten(structure, [next(sources[int(not r)]).astype(x.dtype) for x, r in pairs])
