"""Continuous collision of the bodies that may need it: gathers them a block at a time, and writes them back."""

import math
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
        rows: arrays ``[n, B]`` and, for the edges, ``[n, K, B]``.
        awake: bool ``[B]``; other lanes have no impacts.
        dt: duration of the step in seconds.
        iterations: number of iterations on velocities.
    """
    n, lanes = rows.hit.shape
    wide = jax.tree.map(lambda x: x[:, None], (rows.body, rows.start, rows.end))
    live = jnp.any(in_one_kernel(_impact.may_hit, scene, *wide, rows.segment), axis=1) & awake
    num = jnp.sum(live, dtype=jnp.int32)
    total = n * lanes
    size = min(_BLOCK, total) if isinstance(lanes, int) else _BLOCK  # an exported program may leave lanes open
    slots = -(-total // size) * size
    every = jnp.arange(slots, dtype=jnp.int32)
    # Sorted, the indices of live bodies come first. A running sum would be ten kernels.
    index = lax.sort(jnp.where(jnp.pad(live.reshape(total), (0, slots - total)), every, jnp.int32(total)))
    fixed, moving = jax.tree.map(lambda x: _flat(x, n, lanes), (_fixed(rows), _moving(rows)))
    packed, unpack = _packed(moving)
    still, unpack_still = _packed(fixed)

    def block(carry):
        done, packed = carry
        here = lax.dynamic_slice(index, (done,), (size,))
        same = unpack_still([jnp.take(x, here, axis=1, mode="clip") for x in still])
        moving = unpack([jnp.take(x, here, axis=1, mode="clip") for x in packed])
        row = _impact.solve(scene, _read_once(_impact.Row(*same, *moving)), dt, iterations)
        new, _ = _packed(_moving(row))
        packed = [x.at[:, here].set(y, mode="drop") for x, y in zip(packed, new, strict=True)]
        return done + np.int32(size), packed

    _, packed = lax.while_loop(lambda c: c[0] < num, block, (jnp.int32(0), packed))
    moving = jax.tree.map(lambda x: x.reshape(*x.shape[:-1], n, lanes), unpack(packed))
    moving = jax.tree.map(lambda x: x if x.ndim == 2 else jnp.moveaxis(x, 0, 1), moving)
    return _impact.Row(*_fixed(rows), *moving)


def _flat(x: jax.Array, n: int, lanes: int) -> jax.Array:
    """``[n, B]`` as ``[R]``, and ``[n, K, B]`` as ``[K, R]``."""
    return x.reshape(n * lanes) if x.ndim == 2 else jnp.moveaxis(x, 1, 0).reshape(-1, n * lanes)


def _read_once(row: _impact.Row) -> _impact.Row:
    """The row, copied by one kernel for each rank instead of one for each column."""
    leaves, structure = tree.flatten(row)
    copies = {d: iter(in_one_kernel(_same, [x for x in leaves if x.ndim == d])) for d in (1, 2)}
    return structure.unflatten([next(copies[x.ndim]) for x in leaves])


def _same(values: list[jax.Array]) -> list[jax.Array]:
    return values


def _fixed(row: _impact.Row) -> tuple[Any, ...]:
    """What impacts do not change."""
    return row.body, row.start, row.segment, row.rank


def _moving(row: _impact.Row) -> tuple[Any, ...]:
    """What impacts change."""
    return row.end, row.velocity, row.contacts, row.touched, row.begun, row.hit


def _packed(values: Any) -> tuple[list[jax.Array], Callable]:
    """Arrays ``[R]`` and ``[K, R]`` as one of float32 and one of int32, ``[C, R]``; and the inverse for some columns.

    Gathers and scatters of two arrays compile and run faster than of many.
    """
    leaves, structure = tree.flatten(values)
    shapes, kinds = [x.shape[:-1] for x in leaves], [x.dtype for x in leaves]
    real = [jnp.issubdtype(kind, jnp.floating) for kind in kinds]

    def together(wanted, kind):
        chosen = [x for x, r in zip(leaves, real, strict=True) if r == wanted]
        return jnp.concatenate([x.reshape(-1, x.shape[-1]).astype(kind) for x in chosen])

    def unpack(packed):
        out, at = [], [0, 0]
        for shape, kind, r in zip(shapes, kinds, real, strict=True):
            source, size = packed[int(not r)], math.prod(shape)
            first = at[int(not r)]
            out.append(source[first : first + size].reshape(*shape, source.shape[-1]).astype(kind))
            at[int(not r)] += size
        return structure.unflatten(out)

    return [together(True, jnp.float32), together(False, jnp.int32)], unpack
