"""Calls functions of `numpy` on NumPy arrays and of `jax.numpy` on JAX arrays, which keeps known values known."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def library(*values: Any) -> Any:
    """Returns ``jax.numpy`` if one of the values is a JAX array, otherwise ``numpy``."""
    return jnp if any(isinstance(value, jax.Array) for value in values) else np


def _either(name: str) -> Callable[..., Any]:
    return lambda *values: getattr(library(*values), name)(*values)


cos, sin, sqrt, sign = map(_either, ("cos", "sin", "sqrt", "sign"))
clip, minimum, maximum, where = map(_either, ("clip", "minimum", "maximum", "where"))
