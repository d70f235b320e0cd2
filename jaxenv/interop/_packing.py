"""Small trees of arrays as one flat array: a call of a compiled function costs about a microsecond per array."""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv.tree import Tree
from jaxenv.tree._typed_keys import is_key

# The largest tree that is packed, in words of 32 bits. XLA:CPU runs a program whose arrays have at most 512 bytes on
# the calling thread. It distributes other programs over more threads, which costs more than packing saves.
_LARGEST = 128


class Packing:
    """How a small tree of these shapes becomes one array of words; a large tree becomes its leaves."""

    def __init__(self, shapes: Tree):
        leaves, structure = jax.tree.flatten(shapes)
        self._structure: Any = structure
        ends = list(itertools.accumulate((math.prod(leaf.shape) for leaf in leaves), initial=0))
        is_plain = all(not is_key(leaf) and leaf.dtype.itemsize <= 4 for leaf in leaves)
        self._flat = bool(leaves) and is_plain and ends[-1] <= _LARGEST
        # Of each leaf: its words, its shape, the dtype of its words and its own dtype.
        self._places = [
            (slice(start, end), leaf.shape, _word(leaf.dtype), leaf.dtype)
            for start, end, leaf in (zip(ends, ends[1:], leaves, strict=False) if self._flat else ())
        ]

    def pack(self, values: Tree) -> tuple[jax.Array, ...]:
        """Packs a tree into its arrays, in a traced function."""
        leaves = jax.tree.leaves(values)
        if not self._flat:
            return tuple(leaves)
        words = [jax.lax.bitcast_convert_type(x.astype(_word(x.dtype)), np.uint32).ravel() for x in leaves]
        return (jnp.concatenate(words),)

    def unpack(self, arrays: Sequence[jax.Array]) -> Tree:
        """Unpacks the arrays to a tree, in a traced function."""
        if not self._flat:
            return self._structure.unflatten(arrays)
        leaves = [arrays[0][at].view(word).astype(dtype).reshape(shape) for at, shape, word, dtype in self._places]
        return self._structure.unflatten(leaves)

    def views(self, arrays: Sequence[np.ndarray]) -> Tree:
        """Unpacks NumPy arrays to a tree, whose leaves may share their memory."""
        if not self._flat:
            return self._structure.unflatten(arrays)
        arrays = [
            np.ndarray(shape, word, arrays[0], 4 * at.start).astype(dtype, copy=False)
            for at, shape, word, dtype in self._places
        ]
        return self._structure.unflatten(arrays)


def _word(dtype: Any) -> Any:
    """Returns the dtype of 32 bits that holds every value of a dtype."""
    if jnp.issubdtype(dtype, jnp.floating):
        return np.float32
    return np.int32 if jnp.issubdtype(dtype, jnp.signedinteger) else np.uint32
