"""Runs computations on the few rows of a batch that need them, a block of rows at a time."""

import math
from collections.abc import Callable
from typing import Any, TypeVar

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxenv import tree
from jaxenv.core import in_one_kernel

T = TypeVar("T")

_BLOCK = 64  # rows computed at a time


def in_blocks(function: Callable[[Any, T], T], live: Array, given: Any, values: T) -> T:
    """Replaces the ``live`` rows, bool ``[R]``, of ``values`` by ``function(given, values)`` of these rows.

    Both are trees of arrays ``[..., R]``, float32, int32 or bool.
    """
    total = live.shape[0]
    num = jnp.sum(live, dtype=jnp.int32)
    size = min(_BLOCK, total) if isinstance(total, int) else _BLOCK  # an exported program may leave lanes open
    slots = -(-total // size) * size
    every = jnp.arange(slots, dtype=jnp.int32)
    # Sorted, the indices of live rows come first. A running sum would be ten kernels.
    index = lax.sort(jnp.where(jnp.pad(live, (0, slots - total)), every, jnp.int32(total)))
    packed, unpack = _packed(values)
    still, unpack_still = _packed(given)

    def block(carry: tuple[Array, list[Array]]) -> tuple[Array, list[Array]]:
        done, packed = carry
        here = lax.dynamic_slice(index, (done,), (size,))
        these = unpack_still([jnp.take(x, here, axis=1, mode="clip") for x in still])
        old = unpack([jnp.take(x, here, axis=1, mode="clip") for x in packed])
        new, _ = _packed(function(*_read_once((these, old))))
        packed = [x.at[:, here].set(y, mode="drop") for x, y in zip(packed, new, strict=True)]
        return done + np.int32(size), packed

    return unpack(lax.while_loop(lambda c: c[0] < num, block, (jnp.int32(0), packed))[1])


def _read_once(values: T) -> T:
    """Copies the values by one kernel for each shape instead of one for each array."""
    leaves, structure = tree.flatten(values)
    shapes = {x.shape for x in leaves}
    copies = {s: iter(in_one_kernel(_same, [x for x in leaves if x.shape == s])) for s in shapes}
    return structure.unflatten([next(copies[x.shape]) for x in leaves])


def _same(values: list[Array]) -> list[Array]:
    return values


def _packed(values: Any) -> tuple[list[Array], Callable[..., Any]]:
    """Packs arrays ``[..., R]`` into one of float32 and one of int32, ``[C, R]``; also returns the inverse.

    Gathers and scatters of two arrays compile and run faster than of many.
    """
    leaves, structure = tree.flatten(values)
    shapes, kinds = [x.shape[:-1] for x in leaves], [x.dtype for x in leaves]
    real = [jnp.issubdtype(kind, jnp.floating) for kind in kinds]

    def together(wanted: bool, kind: type[Any]) -> Array:
        chosen = [x for x, r in zip(leaves, real, strict=True) if r == wanted]
        return jnp.concatenate([x.reshape(-1, x.shape[-1]).astype(kind) for x in chosen])

    def unpack(packed: list[Array]) -> Any:
        out, at = [], [0, 0]
        for shape, kind, r in zip(shapes, kinds, real, strict=True):
            source, size, first = packed[int(not r)], math.prod(shape), at[int(not r)]
            out.append(source[first : first + size].reshape(*shape, source.shape[-1]).astype(kind))
            at[int(not r)] += size
        return structure.unflatten(out)

    return [together(True, jnp.float32), together(False, jnp.int32)], unpack
