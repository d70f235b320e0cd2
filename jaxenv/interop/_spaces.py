"""Spaces of other libraries from specs."""

from collections.abc import Mapping
from types import ModuleType
from typing import Any

import numpy as np

from jaxenv import specs
from jaxenv.tree import Tree


def space_of(spec: Tree, spaces: ModuleType, owner: str) -> Any:
    """Converts a tree of specs to a space.

    Args:
        spec: a spec, or a dict, tuple or list of them, nested as wanted.
        spaces: the module with the library's classes ``Dict``, ``Tuple``, ``Discrete`` and ``Box``.
        owner: the start of error messages.

    Raises:
        ValueError: for another kind of tree, or for an integer that does not start at 0.
    """
    if isinstance(spec, Mapping):
        return spaces.Dict({name: space_of(inner, spaces, owner) for name, inner in spec.items()})
    if isinstance(spec, tuple | list):
        return spaces.Tuple(tuple(space_of(inner, spaces, owner) for inner in spec))
    if not specs.is_spec(spec):
        raise ValueError(f"{owner}: a space must be made of dicts, tuples and arrays, got {type(spec).__name__}")
    bounded = isinstance(spec, specs.Bounded)
    if bounded and spec.is_discrete and spec.shape == () and spec.dtype.kind == "i":
        if spec.minimum != 0:
            raise ValueError(f"{owner}: an integer must start at 0 to be a Discrete space, got {spec}")
        return spaces.Discrete(spec.num_values)
    low, high = (spec.minimum, spec.maximum) if bounded else _widest(spec.dtype)
    return spaces.Box(np.broadcast_to(low, spec.shape), np.broadcast_to(high, spec.shape), spec.shape, spec.dtype)


def _widest(dtype: np.dtype) -> tuple[Any, Any]:
    """The bounds of an array without bounds: infinite, or those of its integers."""
    if dtype.kind == "b":
        return np.False_, np.True_
    if dtype.kind in "iu":
        return np.iinfo(dtype).min, np.iinfo(dtype).max
    return dtype.type(-np.inf), dtype.type(np.inf)
