"""Statistics, which are missing where there is no data, and their conversion to Python numbers."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv._util.checks import is_known_array
from jaxenv.core._moments import Count

# The largest float32, in place of infinity, which ``jax_debug_infs`` reports.
LARGEST = np.finfo(np.float32).max


@tree.struct
class Statistic:
    """A number, or an array of them, and whether there was data for it.

    Outside compiled code ``value``, ``float(statistic)`` and ``numpy.asarray(statistic)`` read it; a missing one is
    NaN. Compiled code makes no NaN: there ``value`` is 0 where the statistic is missing, and only ``valid`` tells.
    Return the whole statistic from compiled code, not its ``value``.

    Attributes:
        valid: bool, False where the statistic is missing; in the shape of ``value`` without the axis of a vector
            reward.
    """

    _or_zero: jax.Array  # float32, 0 where the statistic is missing
    valid: jax.Array

    @property
    def value(self) -> Any:
        """The number, or an array of them, float32: NaN where it is missing, in compiled code 0."""
        return np.asarray(self) if is_known_array(self._or_zero) else self._or_zero

    @classmethod
    def where(cls, valid: jax.Array, x: jax.Array) -> "Statistic":
        """Returns ``x`` where ``valid``; missing elsewhere."""
        return cls(jnp.where(valid, x, np.float32(0)), valid)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        value, valid = np.asarray(self._or_zero), np.asarray(self.valid)
        valid = valid.reshape(valid.shape + (1,) * (value.ndim - valid.ndim))
        return np.asarray(np.where(valid, value, np.float32(np.nan)), dtype)

    def __float__(self) -> float:
        return float(np.asarray(self))

    def __repr__(self) -> str:
        if is_known_array(self._or_zero):
            return f"Statistic({self.value.tolist()})"
        return f"Statistic(value={self.value!r}, valid={self.valid!r})"


def to_host(metrics: Any) -> Any:
    """Converts metrics of any shape to Python numbers and lists, in one transfer; NaN becomes ``None``.

    >>> to_host({"steps": np.int32(3), "return_mean": np.array([0.5, np.nan])})
    {'steps': 3, 'return_mean': [0.5, None]}
    """
    plain: Any = jax.tree.map(
        lambda x: None if x is None else _plain(np.asarray(x).tolist()),
        jax.device_get(metrics),
        is_leaf=lambda x: x is None or isinstance(x, Count | Statistic),
    )
    # Flattening sorts the names of a dict.
    return {name: plain[name] for name in metrics} if isinstance(metrics, dict) else plain


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(x) for x in value]
    return None if value != value else value
