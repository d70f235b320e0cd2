"""Small trees of arrays as a few flat arrays: a call of a compiled function costs about a microsecond per array."""

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv.tree import Tree

# The largest tree that is packed, in bytes. XLA:CPU runs a program whose arrays have at most 512 bytes on the calling
# thread. It hands parts of other programs to more threads, which takes longer than what packing saves.
_LARGEST = 512


class Packing:
    """How the leaves of a small tree share flat arrays, one for each size of element; a large tree stays as it is.

    Args:
        shapes: a tree of ``ShapeDtypeStruct``.
    """

    def __init__(self, shapes: Tree):
        leaves, self._structure = jax.tree.flatten(shapes)
        self._flat = all(not jnp.issubdtype(leaf.dtype, jax.dtypes.extended) for leaf in leaves)
        self._flat = self._flat and sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in leaves) <= _LARGEST
        # Of each leaf: the number of its array, its elements there, its dtype and its shape.
        self._places: list[tuple[int, slice, Any, tuple[int, ...]]] = []
        self._sizes = sorted({leaf.dtype.itemsize for leaf in leaves}) if self._flat else []
        ends = [0] * len(self._sizes)
        for leaf in leaves if self._flat else ():
            array = self._sizes.index(leaf.dtype.itemsize)
            start, ends[array] = ends[array], ends[array] + math.prod(leaf.shape)
            self._places.append((array, slice(start, ends[array]), np.dtype(leaf.dtype), leaf.shape))

    def pack(self, values: Tree) -> tuple[jax.Array, ...]:
        """The arrays of a tree, in a traced function."""
        leaves = jax.tree.leaves(values)
        if not self._flat:
            return tuple(leaves)
        return tuple(
            jnp.concatenate([_bits(leaf) for leaf in leaves if leaf.dtype.itemsize == size]) for size in self._sizes
        )

    def unpack(self, arrays: Sequence[jax.Array]) -> Tree:
        """The tree of the arrays, in a traced function."""
        if not self._flat:
            return self._structure.unflatten(arrays)
        leaves = []
        for array, elements, dtype, shape in self._places:
            bits = arrays[array][elements].reshape(shape)
            leaves.append(bits.astype(bool) if dtype.kind == "b" else jax.lax.bitcast_convert_type(bits, dtype))
        return self._structure.unflatten(leaves)

    def views(self, arrays: Sequence[np.ndarray]) -> Tree:
        """The tree of NumPy arrays: its leaves are views of them."""
        if not self._flat:
            return self._structure.unflatten(arrays)
        return self._structure.unflatten(
            [arrays[array][elements].view(dtype).reshape(shape) for array, elements, dtype, shape in self._places]
        )


def _bits(leaf: jax.Array) -> jax.Array:
    unsigned = np.dtype(f"uint{8 * leaf.dtype.itemsize}")
    bits = leaf.astype(unsigned) if leaf.dtype.kind == "b" else jax.lax.bitcast_convert_type(leaf, unsigned)
    return bits.reshape(-1)
