"""Small trees of arrays as a few flat ones: a call of a compiled function costs about a microsecond per array."""

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv.tree import Tree
from jaxenv.tree._typed_keys import is_key

# The largest tree that is packed, in bytes. XLA:CPU runs a program whose arrays have at most 512 bytes on the calling
# thread. It distributes other programs over more threads, which costs more than packing saves.
_LARGEST = 512


class Packing:
    """How a small tree of these shapes becomes one flat array per size of element; a large tree becomes its leaves."""

    def __init__(self, shapes: Tree):
        self._structure: Any = jax.tree.structure(shapes)
        leaves = jax.tree.leaves(shapes)
        plain = not any(map(is_key, leaves))
        self._flat = plain and sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in leaves) <= _LARGEST
        self._sizes = sorted({leaf.dtype.itemsize for leaf in leaves}) if self._flat else []
        # Of each leaf: its array, its first element there, its shape and its dtype.
        self._places: list[tuple[int, int, tuple[int, ...], np.dtype]] = []
        ends = [0] * len(self._sizes)
        for leaf in leaves if self._flat else ():
            array = self._sizes.index(leaf.dtype.itemsize)
            self._places.append((array, ends[array], leaf.shape, np.dtype(leaf.dtype)))
            ends[array] += math.prod(leaf.shape)

    def pack(self, values: Tree) -> tuple[jax.Array, ...]:
        """Packs a tree into its arrays, in a traced function."""
        leaves = jax.tree.leaves(values)
        if not self._flat:
            return tuple(leaves)
        sizes = [[_bits(leaf) for leaf in leaves if leaf.dtype.itemsize == size] for size in self._sizes]
        return tuple(map(jnp.concatenate, sizes))

    def unpack(self, arrays: Sequence[jax.Array]) -> Tree:
        """Unpacks the arrays to a tree, in a traced function."""
        if not self._flat:
            return self._structure.unflatten(arrays)
        leaves = []
        for array, start, shape, dtype in self._places:
            bits = arrays[array][start : start + math.prod(shape)].reshape(shape)
            leaves.append(bits.astype(bool) if dtype.kind == "b" else jax.lax.bitcast_convert_type(bits, dtype))
        return self._structure.unflatten(leaves)

    def views(self, arrays: Sequence[np.ndarray]) -> Tree:
        """Unpacks NumPy arrays to a tree whose leaves are views of them."""
        if not self._flat:
            return self._structure.unflatten(arrays)
        return self._structure.unflatten(
            [np.ndarray(shape, dtype, arrays[i], start * dtype.itemsize) for i, start, shape, dtype in self._places]
        )


def _bits(leaf: jax.Array) -> jax.Array:
    # Integers of the same size: splitting elements into bytes is arithmetic, so XLA:CPU would take the program for an
    # expensive one and run it on another thread.
    unsigned = np.dtype(f"uint{8 * leaf.dtype.itemsize}")
    bits = leaf.astype(unsigned) if leaf.dtype.kind == "b" else jax.lax.bitcast_convert_type(leaf, unsigned)
    return bits.reshape(-1)
