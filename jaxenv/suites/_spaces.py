"""Specs from the observation and action spaces of other libraries."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxenv import specs
from jaxenv.tree import Tree


def spec_of(space: Any, name: str) -> Tree:
    """Converts a space with the attributes of Gymnasium's Dict, Tuple, Discrete or Box to a tree of specs."""
    if hasattr(space, "spaces"):
        if isinstance(space.spaces, Mapping):
            return {key: spec_of(inner, name) for key, inner in space.spaces.items()}
        return tuple(spec_of(inner, name) for inner in space.spaces)
    if hasattr(space, "n"):
        return specs.discrete(space.n, name=name)
    # The largest float32 stands for "no bound".
    low, high = (np.broadcast_to(np.asarray(bound, np.float64), space.shape) for bound in (space.low, space.high))
    largest = float(np.finfo(np.float32).max)
    low, high = np.where(low <= -largest, -np.inf, low), np.where(high >= largest, np.inf, high)
    if np.all(np.isinf(low)) and np.all(np.isinf(high)):
        return specs.Array(space.shape, space.dtype, name)
    return specs.Bounded(space.shape, space.dtype, low, high, name)
