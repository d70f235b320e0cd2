"""Spaces of other libraries from specs."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxenv import specs
from jaxenv.specs._from_gymnasium import widest
from jaxenv.tree import Tree


def space_of(spec: Tree, spaces: Any, owner: str) -> Any:
    """Converts a spec, or a dict, tuple or list of them, to a space of the classes in the module ``spaces``.

    Bounded signed integers become ``Discrete``. Where the library has ``MultiDiscrete`` and ``MultiBinary``, vectors of
    bounded signed integers and of bools become those. All others are a ``Box``.
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
    low, high = (spec.minimum, spec.maximum) if bounded else widest(spec.dtype)
    return spaces.Box(np.broadcast_to(low, spec.shape), np.broadcast_to(high, spec.shape), spec.shape, spec.dtype)


def _is_free(spec: specs.Array) -> bool:
    """Returns whether every element of a spec of bools may take both values."""
    return not isinstance(spec, specs.Bounded) or bool(np.all(~spec.minimum & spec.maximum))
