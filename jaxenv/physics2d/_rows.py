"""Continuous collision of the bodies that may need it: gathers them a block at a time, and writes them back."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxenv import tree
from jaxenv.physics2d import _impact
from jaxenv.physics2d._contact import Masses, Triple
from jaxenv.physics2d._scene import Scene
from jaxenv.physics2d._segment import Corners, Segment, corners_of

_BLOCK = 64  # rows that are solved at a time


def solve(
    scene: Scene, start: Triple, segment: Segment, moving: Any, awake: jax.Array, dt: np.float32, iterations: int
) -> Any:
    """The fields of `_impact.Row` from ``end`` on, except the edges, after all impacts.

    Args:
        scene: the bodies.
        start: poses at the start of the step, ``[n, B]``.
        segment: the edges near the bodies, ``[n, K, B]``.
        moving: end pose, velocity, contacts, touched, begun and hit, ``[n, ..., B]``.
        awake: bool ``[B]``; other lanes have no impacts.
        dt: duration of the step in seconds.
        iterations: number of iterations on velocities.
    """
    fixed = (start, segment)

    def rows(constants, fixed, moving):
        (corners, centre, masses), (start, segment), (end, velocity, *rest) = constants, fixed, moving
        return _impact.Row(corners, centre, masses, start, end, velocity, segment, *rest)

    masses = Masses(*(x[:, None] for x in (scene.inverse_mass, scene.inverse_inertia, scene.friction)))
    constants = corners_of(scene), (scene.centre_x[:, None], scene.centre_y[:, None]), masses
    live = _impact.may_hit(rows(constants, fixed, moving), scene.radius[:, None]) & awake[None]
    n, lanes = live.shape
    num = jnp.sum(live, dtype=jnp.int32)
    total = n * lanes
    size = min(_BLOCK, total) if isinstance(lanes, int) else _BLOCK  # an exported program may leave lanes open
    slots = -(-total // size) * size
    flags = live.reshape(total)
    slot = jnp.where(flags, jnp.cumsum(flags, dtype=jnp.int32) - 1, jnp.asarray(slots, jnp.int32))
    index = jnp.full(slots, total, jnp.int32).at[slot].set(jnp.arange(total, dtype=jnp.int32), mode="drop")
    packed, unpack = _packed(moving)
    still, unpack_still = _packed(fixed)

    def block(carry):
        done, packed = carry
        here = lax.dynamic_slice(index, (done,), (size,))
        body = jnp.minimum(here // np.int32(lanes), np.int32(n - 1))
        row = rows(
            _constants_of(scene, body),
            unpack_still([jnp.take(x, here, axis=1, mode="clip") for x in still]),
            unpack([jnp.take(x, here, axis=1, mode="clip") for x in packed]),
        )
        row = _impact.solve(row, dt, iterations)
        new, _ = _packed((row.end, row.velocity, row.contacts, row.touched, row.begun, row.hit))
        packed = [x.at[:, here].set(y, mode="drop") for x, y in zip(packed, new, strict=True)]
        return done + np.int32(size), packed

    _, packed = lax.while_loop(lambda c: c[0] < num, block, (jnp.int32(0), packed))
    return jax.tree.map(lambda x: _unfolded(x, n), unpack(packed))


def _packed(values: Any) -> tuple[list[jax.Array], Callable]:
    """Arrays ``[n, ..., B]`` as one of float32 and one of int32, ``[C, n B]``; and the inverse for some columns.

    The inverse gives arrays ``[1, ..., R]``. Gathers and scatters of two arrays compile and run faster than of many.
    """
    leaves, structure = tree.flatten(values)
    middles = [x.shape[1:-1] for x in leaves]
    kinds = [x.dtype for x in leaves]
    real = [jnp.issubdtype(kind, jnp.floating) for kind in kinds]
    rows = [jnp.moveaxis(x, 0, -2).reshape(-1, x.shape[0] * x.shape[-1]) for x in leaves]
    floats = [x for x, r in zip(rows, real, strict=True) if r]
    whole = [x.astype(jnp.int32) for x, r in zip(rows, real, strict=True) if not r]

    def unpack(packed):
        at, out = [0, 0], []
        for middle, kind, r in zip(middles, kinds, real, strict=True):
            source, size = int(not r), int(np.prod(middle, dtype=int))
            x = packed[source][at[source] : at[source] + size]
            at[source] += size
            out.append(x.reshape(1, *middle, x.shape[-1]).astype(kind))
        return structure.unflatten(out)

    return [jnp.concatenate(x) for x in (floats, whole) if x], unpack


def _unfolded(x: jax.Array, n: int) -> jax.Array:
    """``[1, ..., n B]`` to ``[n, ..., B]``."""
    return jnp.moveaxis(x[0].reshape(*x.shape[1:-1], n, x.shape[-1] // n), -2, 0)


def _constants_of(scene: Scene, body: jax.Array) -> tuple[Corners, Any, Masses]:
    """Constants of the bodies with these indices, int32 ``[R]``, in the shapes of `_impact.Row`."""
    p = scene.polygons
    size = len(p.x)
    names = (scene.centre_x, scene.centre_y, scene.inverse_mass, scene.inverse_inertia, scene.friction)
    table = np.concatenate([p.x, p.y, p.normal_x, p.normal_y, np.stack(names), p.count[None]]).astype(np.float32)
    chosen = jnp.take(table, body, axis=1)[:, None]
    x, y, normal_x, normal_y = (chosen[i * size : (i + 1) * size, :, None] for i in range(4))
    centre_x, centre_y, mass, inertia, friction, count = chosen[4 * size :]
    corners = Corners((x, y), (normal_x, normal_y), count[:, None].astype(jnp.int32))
    return corners, (centre_x, centre_y), Masses(mass, inertia, friction)
