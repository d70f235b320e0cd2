"""Spaces of other libraries from specs, and specs from spaces."""

from collections.abc import Mapping
from types import ModuleType
from typing import Any

import jax
import numpy as np

from jaxenv import specs
from jaxenv.tree import Tree


def space_of(spec: Tree, spaces: ModuleType, owner: str) -> Any:
    """Converts a tree of specs to a space.

    Bounded signed integers become ``Discrete``. Where the library has ``MultiDiscrete`` and ``MultiBinary``, vectors of
    bounded signed integers and of bools become those. All others are a ``Box``.

    Args:
        spec: a spec, or a dict, tuple or list of them, nested as wanted.
        spaces: the module with the library's classes ``Dict``, ``Tuple``, ``Discrete`` and ``Box``.
        owner: the start of error messages.

    Raises:
        ValueError: for another kind of tree, or for an integer that does not start at 0 where ``Discrete`` must.
    """
    if isinstance(spec, Mapping):
        return spaces.Dict({name: space_of(inner, spaces, owner) for name, inner in spec.items()})
    if isinstance(spec, tuple | list):
        return spaces.Tuple(tuple(space_of(inner, spaces, owner) for inner in spec))
    if not specs.is_spec(spec):
        raise ValueError(f"{owner}: a space must be made of dicts, tuples and arrays, got {type(spec).__name__}")
    has_vectors = hasattr(spaces, "MultiDiscrete")
    bounded = isinstance(spec, specs.Bounded)
    if bounded and spec.is_discrete and spec.shape == () and spec.dtype.kind == "i":
        if has_vectors:
            return spaces.Discrete(spec.num_values, start=int(spec.minimum))
        if spec.minimum != 0:
            raise ValueError(f"{owner}: an integer must start at 0 to be a Discrete space, got {spec}")
        return spaces.Discrete(spec.num_values)
    if has_vectors and bounded and spec.ndim == 1 and spec.dtype.kind == "i" and spec.numel:
        start = spec.minimum.astype(np.int64)
        return spaces.MultiDiscrete(spec.maximum.astype(np.int64) - start + 1, start=start)
    if has_vectors and spec.ndim == 1 and spec.dtype.kind == "b" and spec.numel and _is_free(spec):
        return spaces.MultiBinary(spec.shape[0])
    low, high = (spec.minimum, spec.maximum) if bounded else _widest(spec.dtype)
    return spaces.Box(np.broadcast_to(low, spec.shape), np.broadcast_to(high, spec.shape), spec.shape, spec.dtype)


def spec_of(space: Any, spaces: ModuleType, owner: str) -> Tree:
    """Converts a space of Gymnasium to a tree of specs, the inverse of `space_of`.

    Raises:
        ValueError: for a space whose samples are not arrays of one shape.
    """
    if isinstance(space, spaces.Dict):
        return {name: spec_of(inner, spaces, owner) for name, inner in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(spec_of(inner, spaces, owner) for inner in space.spaces)
    if isinstance(space, spaces.Discrete):
        return specs.Bounded((), _integer(space), space.start, space.start + space.n - 1)
    if isinstance(space, spaces.MultiDiscrete):
        return specs.Bounded(space.shape, _integer(space), space.start, space.start + space.nvec - 1)
    if isinstance(space, spaces.MultiBinary):
        return specs.Bounded(space.shape, np.bool_, False, True)
    if isinstance(space, spaces.Box):
        dtype = jax.dtypes.canonicalize_dtype(space.dtype)
        if dtype.kind == "f" and np.all(np.isneginf(space.low)) and np.all(np.isposinf(space.high)):
            return specs.Array(space.shape, dtype)
        if dtype.kind == "f":  # the largest numbers of float64 are infinite in float32
            with np.errstate(over="ignore"):
                return specs.Bounded(space.shape, dtype, space.low.astype(dtype), space.high.astype(dtype))
        low, high = _widest(dtype)
        if np.any(space.low < low) or np.any(space.high > high):
            rule = f"the bounds of a Box of {space.dtype} must fit in {dtype} unless JAX has x64 enabled"
            raise ValueError(f"{owner}: {rule}, got {space}")
        return specs.Bounded(space.shape, dtype, space.low, space.high)
    raise ValueError(f"{owner}: space must be a Dict, Tuple, Box, Discrete, MultiDiscrete or MultiBinary, got {space}")


def _integer(space: Any) -> np.dtype:
    return jax.dtypes.canonicalize_dtype(space.dtype)


def _is_free(spec: specs.Array) -> bool:
    """Whether every element of a spec of bools may be both."""
    return not isinstance(spec, specs.Bounded) or bool(np.all(~spec.minimum & spec.maximum))


def _widest(dtype: np.dtype) -> tuple[Any, Any]:
    """The bounds of an array without bounds: infinite, or those of its integers."""
    if dtype.kind == "b":
        return np.False_, np.True_
    if dtype.kind in "iu":
        return np.iinfo(dtype).min, np.iinfo(dtype).max
    return dtype.type(-np.inf), dtype.type(np.inf)
