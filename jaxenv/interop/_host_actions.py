"""Checks and casts of actions that come from outside of JAX."""

from typing import Any

import jax
import numpy as np

from jaxenv import specs, tree
from jaxenv._structure import mismatch
from jaxenv.tree import Tree

# Kind of the spec's dtype -> kinds that are cast to it. A bool may come as 0 or 1, as in a MultiBinary space.
_KINDS = {"b": "biu", "i": "iu", "u": "iu"}


class HostActions:
    """Checks a batch of actions, of NumPy or JAX, and casts it to the dtypes of the spec.

    A compiled step never sees other dtypes or shapes, so it is compiled once. Discrete actions of NumPy must lie within
    the spec. Those of JAX are not read, since that would wait for them: the environment clips them.

    Args:
        spec: the action spec.
        num_lanes: the number of lanes.
        owner: the start of error messages.
    """

    def __init__(self, spec: Tree, num_lanes: int, owner: str):
        self._spec, self._owner = spec, owner
        leaves, self._structure = tree.flatten_with_path(spec)
        self._leaves = [_Leaf(s, num_lanes, f"{owner}: action {tree.path_name(path)}".rstrip()) for path, s in leaves]

    def __call__(self, action: Tree) -> Tree:
        """The cast actions.

        Raises:
            ValueError: for another structure, shape or kind of dtype, or for a discrete action out of range.
        """
        if isinstance(self._spec, specs.Array):
            return self._leaves[0](action)
        if (fault := mismatch(self._spec, action, "action")) is not None:
            raise ValueError(f"{self._owner}: {fault}, as in the action spec")
        leaves = jax.tree.leaves(action)
        return self._structure.unflatten([check(x) for check, x in zip(self._leaves, leaves, strict=True)])


class _Leaf:
    """Checks and casts the actions of one spec."""

    def __init__(self, spec: specs.Array, num_lanes: int, name: str):
        self._spec, self._name, self._shape, self._dtype = spec, name, (num_lanes, *spec.shape), spec.dtype
        self._range: tuple[Any, Any] | None = None
        if spec.dtype == bool:
            self._range = 0, 1
        elif spec.is_discrete and isinstance(spec, specs.Bounded):
            low, high = spec.minimum.astype(np.int64), spec.maximum.astype(np.int64)
            uniform = low.size and np.all(low == low.flat[0]) and np.all(high == high.flat[0])
            self._range = (int(low.flat[0]), int(high.flat[0])) if uniform else (low, high)

    def __call__(self, action: Any) -> Any:
        if isinstance(action, jax.Array):
            self._check_type(action)
            return action if action.dtype == self._dtype else action.astype(self._dtype)
        try:
            action = np.asarray(action)
        except ValueError:  # rows of different lengths
            raise ValueError(f"{self._name} must have shape {self._shape}, got {action!r}") from None
        self._check_type(action)
        if self._range is not None:
            low, high = self._range
            outside = (action < low) | (action > high)
            if outside.any():
                at = tuple(np.argwhere(outside)[0].tolist())
                raise ValueError(f"{self._name} must fit {self._spec}, got {action[at]} in lane {at[0]}")
        return action if action.dtype == self._dtype else action.astype(self._dtype)

    def _check_type(self, action: Any) -> None:
        if action.shape != self._shape:
            rule = f"shape {self._shape} (one {self._spec} per lane)"
            raise ValueError(f"{self._name} must have {rule}, got {action.shape}")
        kind = "f" if jax.numpy.issubdtype(action.dtype, jax.numpy.floating) else action.dtype.kind
        if kind not in _KINDS.get(self._dtype.kind, "f"):
            raise ValueError(f"{self._name} must be {self._dtype} or of its kind, got {action.dtype}")
