"""Float32 sums that stay accurate over any number of terms."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree


@tree.struct
class Sum:
    """A float32 sum and its rounding error, which the next addition compensates; both have one shape.

    Over any number of terms the error is about one rounding of the sum of their absolute values (Kahan 1965,
    doi:10.1145/363707.363723). A plain float32 sum of ones stops at 2**24.

    Attributes:
        value: the sum, rounded.
        error: the excess of ``value``; 0 if the sum is not finite.
    """

    value: jax.Array
    error: jax.Array

    @classmethod
    def zeros(cls, shape: tuple[int, ...]) -> "Sum":
        """Returns an empty sum."""
        return cls(jnp.zeros(shape, jnp.float32), jnp.zeros(shape, jnp.float32))

    def add(self, x: jax.Array) -> "Sum":
        """Adds one term, in the shape of the sum."""
        term = x - self.error
        value = self.value + term
        error = (value - self.value) - term
        return Sum(value, jnp.where(jnp.isfinite(value), error, np.float32(0)))

    def add_rows(self, x: jax.Array, where: jax.Array | None = None) -> "Sum":
        """Adds ``x``, ``[T, B, ...]``, summed over T; ``where`` selects terms: bool ``[T, B]`` or with more axes."""
        if where is not None:
            x = jnp.where(tree.expand(where, x.ndim), x, np.float32(0))
        return self.add(sum_axis0(x))

    def mean(self, count: jax.Array) -> jax.Array:
        """Returns the mean of ``count`` terms, uint32 ``[B]`` or with more axes; 0 where ``count`` is 0."""
        total = self.value - self.error
        return total / tree.expand(jnp.maximum(count, np.uint32(1)).astype(jnp.float32), total.ndim)


def sum_axis0(x: jax.Array) -> jax.Array:
    """Sums over the leading axis, lanes or rows, in the dtype of ``x``."""
    return jnp.sum(x, axis=0, dtype=x.dtype)
