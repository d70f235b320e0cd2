"""Bounds of specs: reading them, rearranging them with their elements, and keeping values within them."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import specs
from jaxenv._util import numeric
from jaxenv.specs._array import bounds as bounds
from jaxenv.tree import Tree


def rearranged(spec: specs.Array, fn: Callable[[Any], Any]) -> specs.Array:
    """Returns the spec of ``fn(x)`` for a function that moves or drops elements of a batch ``[B, ...]``.

    Bounds move with their elements, so ``fn`` must accept NumPy arrays.
    """
    if isinstance(spec, specs.Bounded):
        low, high = fn(spec.minimum[None])[0], fn(spec.maximum[None])[0]
        return spec.replace(shape=low.shape, minimum=low, maximum=high)
    return spec.replace(shape=fn(np.broadcast_to(np.zeros((), spec.dtype), (1, *spec.shape))).shape[1:])


def fit(spec: specs.Array, x: jax.Array) -> jax.Array:
    """Casts floats ``x`` (``[B, ...]``) to values of a spec: rounds them for an integer spec and clips to its bounds.

    Rounding errors may carry a value past a bound; clipping brings it back.
    """
    if spec.is_discrete:
        x = jnp.round(x)
    if isinstance(spec, specs.Bounded):
        x = numeric.clip(x, *(_scalar_if_uniform(bound, x) for bound in (spec.minimum, spec.maximum)))
    return x.astype(spec.dtype)


def _scalar_if_uniform(bound: np.ndarray, x: jax.Array) -> np.ndarray:
    """Aligns a bound to ``x``, or returns a scalar if all its elements are equal.

    The scalar spares compiled code a constant of the size of an image.
    """
    bound = bound.astype(x.dtype)
    uniform = bound.size > 0 and np.all(bound == bound.reshape(-1)[0])
    return bound.reshape(-1)[0] if uniform else specs.aligned(bound, x.ndim)


def mapped_spec(fn: Callable[[Any], Any], spec: Tree, lanes: int) -> Tree:
    """Returns the specs of ``fn(x)`` for a batch ``x`` that fits ``spec``: shapes and dtypes without bounds."""
    batch = jax.tree.map(lambda s: jax.ShapeDtypeStruct((lanes, *s.shape), s.dtype), spec)
    return specs.unbatched(jax.eval_shape(fn, batch))
