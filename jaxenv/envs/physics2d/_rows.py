"""Runs computations on the few rows of a batch that need them, a block of rows at a time."""

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxenv.core import in_one_kernel

T = TypeVar("T")

_BLOCK = 64  # rows computed at a time


def in_blocks(function: Callable[[Any, T], T], live: Array, given: Any, values: T) -> T:
    """Replaces the ``live`` rows, bool ``[R]``, of ``values`` by ``function(given, values)`` of these rows.

    Both are trees of arrays ``[..., R]`` that can be `packed`.
    """
    total = live.shape[0]
    num = jnp.sum(live, dtype=jnp.int32)
    size = min(_BLOCK, total) if isinstance(total, int) else _BLOCK  # an exported program may leave lanes open
    slots = -(-total // size) * size
    every = jnp.arange(slots, dtype=jnp.int32)
    # Sorted, the indices of live rows come first. A running sum would be ten kernels.
    index = lax.sort(jnp.where(jnp.pad(live, (0, slots - total)), every, jnp.int32(total)))
    moving, still = packed(values), packed(given)

    def block(carry: tuple[Array, list[Array]]) -> tuple[Array, list[Array]]:
        done, moving = carry
        here = lax.dynamic_slice(index, (done,), (size,))
        these = unpacked([jnp.take(x, here, axis=1, mode="clip") for x in still], given)
        old = unpacked([jnp.take(x, here, axis=1, mode="clip") for x in moving], values)
        new = packed(function(*_read_once((these, old))))
        moving = [x.at[:, here].set(y, mode="drop") for x, y in zip(moving, new, strict=True)]
        return done + np.int32(size), moving

    return unpacked(lax.while_loop(lambda c: c[0] < num, block, (jnp.int32(0), moving))[1], values)


def _read_once(values: T) -> T:
    """Copies the values by one kernel for each shape instead of one for each array."""
    leaves, structure = jax.tree.flatten(values)
    shapes = {x.shape for x in leaves}
    copies = {s: iter(in_one_kernel(_same, [x for x in leaves if x.shape == s])) for s in shapes}
    return jax.tree.unflatten(structure, [next(copies[x.shape]) for x in leaves])


def _same(values: list[Array]) -> list[Array]:
    return values


def packed(values: Any) -> list[Array]:
    """Packs arrays ``[..., R]``, float32, int32 or bool, into one of float32 and one of int32, ``[C, R]``.

    Gathers and scatters of two arrays compile and run faster than of many.
    """
    kinds: tuple[list[Array], list[Array]] = ([], [])
    for x in jax.tree.flatten(values)[0]:
        kinds[_kind(x)].append(x.reshape(-1, x.shape[-1]))
    reals, integers = kinds
    return [jnp.concatenate(reals), jnp.concatenate([x.astype(jnp.int32) for x in integers])]


def unpacked(columns: Sequence[Array], like: Any) -> Any:
    """Returns the tree that was `packed`; ``like`` is one of the same structure, shapes but for R, and dtypes."""
    leaves, structure = jax.tree.flatten(like)
    out, at = [], [0, 0]
    for x in leaves:
        kind, shape = _kind(x), x.shape[:-1]
        end = at[kind] + math.prod(shape)
        out.append(columns[kind][at[kind] : end].reshape(*shape, columns[kind].shape[-1]).astype(x.dtype))
        at[kind] = end
    return jax.tree.unflatten(structure, out)


def _kind(x: Any) -> int:
    return 0 if jnp.issubdtype(x.dtype, jnp.floating) else 1
