"""Checks and casts of actions that come from outside of JAX."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import specs, tree
from jaxenv.tree import Tree
from jaxenv.tree._structure import mismatch

# Kind of the spec's dtype -> kinds that are cast to it. A bool may come as 0 or 1, as in a MultiBinary space, and as a
# float from stable-baselines3.
_KINDS = {"b": "biuf", "i": "iu", "u": "iu"}
_NAMES = {"b": "a bool or 0 or 1", "i": "an integer", "u": "an integer"}
# The keys that `_Leaf` looks up, without flags, which equal integers.
_INTEGERS = (int, np.int64, np.int32)
_MOST_KNOWN = 1024
_UNSIGNED = {size: np.dtype(f"uint{8 * size}") for size in (1, 2, 4, 8)}


class HostActions:
    """Checks the actions of a batch or of one lane, of NumPy or JAX, and casts them to the dtypes of the spec.

    A compiled step never sees other dtypes or shapes, so it is compiled once. Discrete actions of NumPy must lie within
    the spec. Those of JAX are not read for a batch, since that would wait for them: the environment clips them. Without
    ``num_lanes`` an action is one lane's, without the axis.
    """

    def __init__(self, spec: Tree, num_lanes: int | None, owner: str):
        self._spec, self._num_lanes, self._owner = spec, num_lanes, owner
        leaves, self._structure = tree.flatten_with_path(spec)
        self._leaves = [_Leaf(s, num_lanes, f"{owner}: action {tree.path_name(path)}".rstrip()) for path, s in leaves]

    def __reduce__(self) -> Any:
        return HostActions, (self._spec, self._num_lanes, self._owner)  # structures of trees cannot all be pickled

    def __call__(self, action: Tree) -> Tree:
        """Returns the cast actions, with the axis of the lanes.

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

    def __init__(self, spec: specs.Array, num_lanes: int | None, name: str):
        self._spec, self._name, self._dtype, self._single = spec, name, spec.dtype, num_lanes is None
        self._shape = spec.shape if num_lanes is None else (num_lanes, *spec.shape)
        self._kinds = _KINDS.get(spec.dtype.kind, "f")
        # Arrays of JAX are not read, so that a float between 0 and 1 would become True.
        self._kinds_of_jax = self._kinds if self._kinds == "f" else self._kinds.replace("f", "")
        self._range: tuple[Any, Any] | None = None
        self._highest: int | None = None  # the only bound to check of integers that are seen as unsigned
        if spec.dtype.kind == "b":
            self._range, self._highest = (0, 1), 1
        elif spec.is_discrete and isinstance(spec, specs.Bounded):
            low, high = spec.minimum.astype(np.int64), spec.maximum.astype(np.int64)
            self._range = low, high
            if low.size and not low.any() and np.all(high == high.flat[0]):
                self._highest = int(high.flat[0])

        # The arrays of single actions that were given before: making and checking one takes as long as a small step.
        self._known: dict[int, jax.Array] = {}

    def __call__(self, action: Any) -> Any:
        if type(action) in _INTEGERS and (known := self._known.get(action)) is not None:
            return known
        checked = self._checked(action)
        if self._highest is not None and self._shape == () and type(action) in _INTEGERS and action < _MOST_KNOWN:
            self._known[int(action)] = jnp.asarray(checked)
        return checked

    def _checked(self, action: Any) -> Any:
        if isinstance(action, jax.Array) and not self._single:
            self._check_type(action, self._kinds_of_jax)
        else:
            try:
                action = np.asarray(action)
            except ValueError:  # rows of different lengths
                raise ValueError(f"{self._name} must have shape {self._shape}, got {action!r}") from None
            self._check_type(action, self._kinds)
            if self._range is not None:
                self._check_range(action)
        action = action if action.dtype == self._dtype else action.astype(self._dtype)
        return action[None] if self._single else action

    def _check_type(self, action: Any, kinds: str) -> None:
        if action.shape != self._shape:
            lanes = "" if self._single else f" (one {self._spec} per lane)"
            raise ValueError(f"{self._name} must have shape {self._shape}{lanes}, got {action.shape}")
        if action.dtype.kind not in kinds and not (
            kinds == "f" and jnp.issubdtype(action.dtype, jnp.floating)  # bfloat16
        ):
            kind = _NAMES.get(self._dtype.kind, "a float")
            cast = f": cast it, as in action.astype(np.{self._dtype})" if action.dtype.kind in "biuf" else ""
            raise ValueError(f"{self._name} must be {kind}, got {action.dtype}{cast}")

    def _check_range(self, action: np.ndarray) -> None:
        # A negative number is a large one without a sign, so that one pass over the array suffices.
        exact = action.dtype.kind != "f"
        if (
            self._highest is not None
            and exact
            and action.view(_UNSIGNED[action.itemsize]).max(initial=0) <= self._highest
        ):
            return
        low, high = self._range  # type: ignore[misc]
        fits = (action >= low) & (action <= high) & (exact or action == np.floor(action))  # NaN does not fit
        outside = np.argwhere(~fits)
        if len(outside):
            at = tuple(outside[0].tolist())
            element, lane = (at, "") if self._single else (at[1:], f" in lane {at[0]}")
            name = f"{self._name}{list(element)}" if element else self._name
            low, high = (np.broadcast_to(bound, self._spec.shape)[element] for bound in (low, high))
            raise ValueError(f"{name} must be in {low} .. {high}, got {action[at]}{lane}")
