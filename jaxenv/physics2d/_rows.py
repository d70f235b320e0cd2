"""Continuous collision of the bodies that may need it: gathers them a block at a time, and writes them back."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxenv import tree
from jaxenv._xla import in_one_kernel
from jaxenv.physics2d import _impact
from jaxenv.physics2d._scene import Scene

_BLOCK = 64  # rows that are solved at a time


def solve(scene: Scene, rows: _impact.Row, awake: jax.Array, dt: np.float32, iterations: int) -> _impact.Row:
    """All bodies of all lanes after all impacts.

    Args:
        scene: the bodies.
        rows: arrays ``[n, B]``.
        awake: bool ``[B]``; other lanes have no impacts.
        dt: duration of the step in seconds.
        iterations: number of iterations on velocities.
    """
    live = in_one_kernel(_impact.may_hit, scene, rows, awake)
    n, lanes = live.shape
    num = jnp.sum(live, dtype=jnp.int32)
    total = n * lanes
    size = min(_BLOCK, total) if isinstance(lanes, int) else _BLOCK  # an exported program may leave lanes open
    slots = -(-total // size) * size
    every = jnp.arange(slots, dtype=jnp.int32)
    # Sorted, the indices of live bodies come first. A running sum would be ten kernels.
    index = lax.sort(jnp.where(jnp.pad(live.reshape(total), (0, slots - total)), every, jnp.int32(total)))
    packed, unpack = _packed(_moving(rows))
    still, unpack_still = _packed((rows.body, rows.start, rows.segments))

    def block(carry):
        done, packed = carry
        here = lax.dynamic_slice(index, (done,), (size,))
        fixed = unpack_still([jnp.take(x, here, axis=1, mode="clip") for x in still])
        moving = unpack([jnp.take(x, here, axis=1, mode="clip") for x in packed])
        row = in_one_kernel(_same, _impact.Row(*fixed, *moving))  # instead of a kernel for each column
        row = _impact.solve(scene, row, dt, iterations)
        new, _ = _packed(_moving(row))
        packed = [x.at[:, here].set(y, mode="drop") for x, y in zip(packed, new, strict=True)]
        return done + np.int32(size), packed

    _, packed = lax.while_loop(lambda c: c[0] < num, block, (jnp.int32(0), packed))
    moving = jax.tree.map(lambda x: x.reshape(n, lanes), unpack(packed))
    return _impact.Row(rows.body, rows.start, rows.segments, *moving)


def _same(row: _impact.Row) -> _impact.Row:
    return row


def _moving(row: _impact.Row) -> tuple[Any, ...]:
    """What impacts change."""
    return row.end, row.velocity, row.contacts, row.touched, row.begun, row.hit


def _packed(values: Any) -> tuple[list[jax.Array], Callable]:
    """Arrays of the same shape as one of float32 and one of int32, ``[C, R]``; and the inverse for some columns.

    Gathers and scatters of two arrays compile and run faster than of many.
    """
    leaves, structure = tree.flatten(values)
    kinds = [x.dtype for x in leaves]
    real = [jnp.issubdtype(kind, jnp.floating) for kind in kinds]
    floats = [x.reshape(-1) for x, r in zip(leaves, real, strict=True) if r]
    whole = [x.reshape(-1).astype(jnp.int32) for x, r in zip(leaves, real, strict=True) if not r]

    def unpack(packed):
        sources = iter(packed[0]), iter(packed[1])
        each = zip(real, kinds, strict=True)
        return structure.unflatten([next(sources[int(not r)]).astype(kind) for r, kind in each])

    return [jnp.stack(floats), jnp.stack(whole)], unpack
