"""Specs from the spaces of Gymnasium."""

from types import ModuleType
from typing import Any

import jax
import numpy as np

from jaxenv._util.library import import_library
from jaxenv._util.source import install_command
from jaxenv.specs._array import Array, Bounded, widest
from jaxenv.tree import Tree


def from_gymnasium(space: Any) -> Tree:
    """Converts a space of Gymnasium to a spec, or to a dict or tuple of specs.

    ``Discrete``, ``MultiDiscrete`` and ``MultiBinary`` become bounded integers and bools, a ``Box`` keeps its bounds.
    Dtypes are converted to JAX's: float64 becomes float32 unless x64 is enabled.

    Raises:
        ImportError: if Gymnasium is not installed.
        ValueError: for a space whose samples are not arrays of one shape, or integers that do not fit in JAX's dtype.

    >>> import gymnasium
    >>> from_gymnasium(gymnasium.spaces.Discrete(3, start=-1))
    Bounded((), int32, -1, 1)
    """
    spaces = import_library("gymnasium.spaces", install_command("gymnasium"))
    return spec_of(space, spaces, "from_gymnasium")


def spec_of(space: Any, spaces: ModuleType, owner: str) -> Tree:
    """Does what `from_gymnasium` does, given the module of the library's spaces and the start of error messages."""
    if isinstance(space, spaces.Dict):
        return {name: spec_of(inner, spaces, owner) for name, inner in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(spec_of(inner, spaces, owner) for inner in space.spaces)
    if isinstance(space, spaces.Discrete):
        return Bounded((), jax.dtypes.canonicalize_dtype(space.dtype), space.start, space.start + space.n - 1)
    if isinstance(space, spaces.MultiDiscrete):
        dtype = jax.dtypes.canonicalize_dtype(space.dtype)
        return Bounded(space.shape, dtype, space.start, space.start + space.nvec - 1)
    if isinstance(space, spaces.MultiBinary):
        return Bounded(space.shape, np.bool_, False, True)
    if isinstance(space, spaces.Box):
        dtype = jax.dtypes.canonicalize_dtype(space.dtype)
        if dtype.kind == "f" and np.all(np.isneginf(space.low)) and np.all(np.isposinf(space.high)):
            return Array(space.shape, dtype)
        if dtype.kind == "f":  # the largest numbers of float64 are infinite in float32
            with np.errstate(over="ignore"):
                return Bounded(space.shape, dtype, space.low.astype(dtype), space.high.astype(dtype))
        low, high = widest(dtype)
        if np.any(space.low < low) or np.any(space.high > high):
            rule = f"the bounds of a Box of {space.dtype} must fit in {dtype} unless JAX has x64 enabled"
            raise ValueError(f"{owner}: {rule}, got {space}")
        return Bounded(space.shape, dtype, space.low, space.high)
    raise ValueError(f"{owner}: space must be a Dict, Tuple, Box, Discrete, MultiDiscrete or MultiBinary, got {space}")
