"""Small trees of arrays as one array of bytes: a call of a compiled function costs about a microsecond per array."""

import itertools
import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv.tree import Tree

# The largest tree that is packed, in bytes. XLA:CPU runs a program whose arrays have at most 512 bytes on the calling
# thread. It hands parts of other programs to more threads, which takes longer than what packing saves.
_LARGEST = 512


class Packing:
    """How a small tree becomes one array of bytes; a large one becomes its leaves.

    Args:
        shapes: a tree of ``ShapeDtypeStruct``.
    """

    def __init__(self, shapes: Tree):
        leaves, self._structure = jax.tree.flatten(shapes)
        plain = all(not jnp.issubdtype(leaf.dtype, jax.dtypes.extended) for leaf in leaves)
        sizes = [math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in leaves]
        self._flat = plain and sum(sizes) <= _LARGEST
        # Of each leaf: its first byte, its shape and its dtype. Items of many bytes come first and so are aligned.
        self._order = sorted(range(len(leaves)), key=lambda i: -leaves[i].dtype.itemsize) if self._flat else []
        starts = itertools.accumulate((sizes[i] for i in self._order), initial=0)
        self._places = sorted(
            (i, start, leaves[i].shape, np.dtype(leaves[i].dtype))
            for i, start in zip(self._order, starts, strict=False)
        )

    def pack(self, values: Tree) -> tuple[jax.Array, ...]:
        """The arrays of a tree, in a traced function."""
        leaves = jax.tree.leaves(values)
        return (jnp.concatenate([_to_bytes(leaves[i]) for i in self._order]),) if self._places else tuple(leaves)

    def unpack(self, arrays: Sequence[jax.Array]) -> Tree:
        """The tree of the arrays, in a traced function."""
        if not self._places:
            return self._structure.unflatten(arrays)
        return self._structure.unflatten(
            [_from_bytes(arrays[0][start:], shape, dtype) for _, start, shape, dtype in self._places]
        )

    def views(self, arrays: Sequence[np.ndarray]) -> Tree:
        """The tree of NumPy arrays: its leaves are views of them."""
        if not self._places:
            return self._structure.unflatten(arrays)
        (packed,) = arrays
        return self._structure.unflatten(
            [np.ndarray(shape, dtype, packed, start) for _, start, shape, dtype in self._places]
        )


def _to_bytes(leaf: jax.Array) -> jax.Array:
    leaf = leaf.astype(np.uint8) if leaf.dtype.kind == "b" else jax.lax.bitcast_convert_type(leaf, np.uint8)
    return leaf.reshape(-1)


def _from_bytes(packed: jax.Array, shape: tuple[int, ...], dtype: np.dtype) -> jax.Array:
    item = (dtype.itemsize,) if dtype.itemsize > 1 else ()
    items = packed[: math.prod(shape + item)].reshape(shape + item)
    return items.astype(bool) if dtype.kind == "b" else jax.lax.bitcast_convert_type(items, dtype)
