"""An exact 64-bit count in two uint32 words: JAX has no 64-bit integers by default."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv._util.checks import is_known_array


@tree.struct
class Count:
    """A count below 2**64, or an array of counts; ``int(count)`` or ``numpy.asarray(count)`` reads it.

    Attributes:
        high: uint32, the upper word.
        low: uint32, the lower word, in the same shape.
    """

    high: jax.Array
    low: jax.Array

    @classmethod
    def zeros(cls) -> "Count":
        """Returns a count of 0, shape ``()``."""
        return cls(jnp.zeros((), jnp.uint32), jnp.zeros((), jnp.uint32))

    @classmethod
    def from_array(cls, x: jax.Array) -> "Count":
        """Counts of the values of ``x``, non-negative numbers below 2**32 or bool, in its shape."""
        low = x.astype(jnp.uint32)
        return cls(jnp.zeros_like(low), low)

    @classmethod
    def sum(cls, counts: jax.Array, sum_axis: Callable[[jax.Array], jax.Array]) -> "Count":
        """Sums uint32 ``counts`` over an axis exactly.

        Args:
            counts: uint32 ``[N, ...]``, or a scalar per shard of a mesh axis; N is at most 2**24.
            sum_axis: sums a uint32 array over the axis: a ``jnp.sum`` over the leading one, or a ``jax.lax.psum``.
        """
        # Byte by byte: no sum of single bytes overflows its word.
        carry: Any = np.uint32(0)
        low: Any = np.uint32(0)
        for shift in np.arange(0, 32, 8, dtype=np.uint32):
            column = sum_axis((counts >> shift) & np.uint32(0xFF)) + carry
            low = low | ((column & np.uint32(0xFF)) << shift)
            carry = column >> np.uint32(8)
        return cls(carry, low)

    def sum_over(self, sum_axis: Callable[[jax.Array], jax.Array]) -> "Count":
        """Sums these counts over an axis; ``sum_axis`` as in `sum`."""
        low = Count.sum(self.low, sum_axis)
        return Count(sum_axis(self.high) + low.high, low.low)

    def __add__(self, other: "Count") -> "Count":
        low = self.low + other.low
        return Count(self.high + other.high + (low < self.low).astype(jnp.uint32), low)

    def __ge__(self, number: Any) -> jax.Array:
        """Returns whether the count is at least an integer below 2**32, bool in the count's shape."""
        least = jnp.asarray(number)
        if not jnp.issubdtype(least.dtype, jnp.integer):
            raise TypeError(f"Count: a count is compared with an integer, got {number!r}")
        # A wrapped negative number would be huge, and a loop until then would not end.
        return (self.high > 0) | (self.low >= jnp.maximum(least, jnp.zeros_like(least)).astype(jnp.uint32))

    def is_zero(self) -> jax.Array:
        """Returns whether the count is 0, bool in the count's shape."""
        return (self.high | self.low) == 0

    def as_float(self) -> jax.Array:
        """Returns the count as float32, rounded."""
        return self.high.astype(jnp.float32) * np.float32(2**32) + self.low.astype(jnp.float32)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        high, low = np.asarray(self.high).astype(np.uint64), np.asarray(self.low).astype(np.uint64)
        return np.asarray(high << np.uint64(32) | low, dtype)

    def __int__(self) -> int:
        return int(np.asarray(self))

    def __repr__(self) -> str:
        if is_known_array(self.low):
            return f"Count({np.asarray(self).tolist()})"
        return f"Count(high={self.high!r}, low={self.low!r})"
