"""A statistic, which is missing where there is no data."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv._util.checks import is_known_array


@tree.struct
class Statistic:
    """A number, or an array of them, and whether there was data for it.

    Outside compiled code ``float(statistic)`` and ``numpy.asarray(statistic)`` read it; a missing one is NaN. Inside
    compiled code use ``value`` and ``valid``, which never make a NaN.

    Attributes:
        value: float32, 0 where the statistic is missing.
        valid: bool, False where the statistic is missing; in the shape of ``value`` without the axis of a vector
            reward.
    """

    value: jax.Array
    valid: jax.Array

    @classmethod
    def where(cls, valid: jax.Array, x: jax.Array) -> "Statistic":
        """Returns ``x`` where ``valid``; missing elsewhere."""
        return cls(jnp.where(valid, x, np.float32(0)), valid)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        value, valid = np.asarray(self.value), np.asarray(self.valid)
        valid = valid.reshape(valid.shape + (1,) * (value.ndim - valid.ndim))
        return np.asarray(np.where(valid, value, np.float32(np.nan)), dtype)

    def __float__(self) -> float:
        return float(np.asarray(self))

    def __repr__(self) -> str:
        if is_known_array(self.value):
            return f"Statistic({np.asarray(self).tolist()})"
        return f"Statistic(value={self.value!r}, valid={self.valid!r})"
