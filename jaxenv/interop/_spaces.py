"""Spaces of other libraries from specs, samples of them, and checks of actions from outside of JAX."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import specs, tree
from jaxenv._util.library import import_library
from jaxenv.specs._from_gymnasium import widest
from jaxenv.tree import Tree
from jaxenv.tree._structure import mismatch


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


def leaf_spaces(spec: Tree, owner: str) -> Tree:
    """Returns a tree like ``spec`` with Gymnasium's space of each array."""
    spaces = import_library("gymnasium.spaces", "pip install gymnasium")
    return jax.tree.map(lambda leaf: space_of(leaf, spaces, owner), spec)


def cast_to(spaces: Tree, observation: Tree) -> Tree:
    """Casts NumPy observations to the dtypes of their `leaf_spaces`."""
    return _by_leaf(lambda space, x: x.astype(space.dtype, copy=False), spaces, observation)


def sample_of(spaces: Tree, observation: Tree) -> Tree:
    """Returns the observation of one lane ``[1, ...]`` as a sample of its space: integers for Discrete, else arrays."""
    return _by_leaf(_sample, spaces, observation)


def _by_leaf(function: Callable[..., Any], spaces: Tree, observation: Tree) -> Tree:
    if isinstance(observation, np.ndarray):  # `jax.tree.map` takes as long as a small step of physics
        return function(spaces, observation)
    return jax.tree.map(function, spaces, observation)


def _sample(space: Any, x: np.ndarray) -> Any:
    is_discrete = space.shape == () and hasattr(space, "n")
    return int(x[0]) if is_discrete else np.asarray(x[0], space.dtype)


# Kind of the spec's dtype -> kinds that are cast to it. A bool may come as 0 or 1 (MultiBinary) or a float (SB3).
_KINDS = {"b": "biuf", "i": "iu", "u": "iu"}
_NAMES = {"b": "a bool or 0 or 1", "i": "an integer", "u": "an integer"}
# The keys that `_Leaf` looks up, without flags, which equal integers.
_INTEGERS = (int, np.int64, np.int32)
_MOST_KNOWN = 1024


class HostActions:
    """Checks the actions of a batch or of one lane, of NumPy or JAX, and casts them to the dtypes of the spec.

    A compiled step never sees other dtypes or shapes, so it is compiled once. Discrete actions of NumPy must lie within
    the spec. Those of JAX are not read for a batch, since that would wait for them: the environment clips them. Without
    ``num_lanes`` an action is one lane's, without the axis.
    """

    def __init__(self, spec: Tree, num_lanes: int | None, owner: str):
        self._spec, self._num_lanes, self._owner = spec, num_lanes, owner
        leaves, self._structure = jax.tree.flatten_with_path(spec)
        self._leaves = [_Leaf(s, num_lanes, f"{owner}: action {tree.path_name(path)}".rstrip()) for path, s in leaves]

    def __reduce__(self) -> Any:
        return HostActions, (self._spec, self._num_lanes, self._owner)  # structures of trees cannot all be pickled

    def __call__(self, action: Tree) -> Tree:
        """Returns the cast actions, with the axis of the lanes; raises a ``ValueError`` for those that do not fit."""
        if isinstance(self._spec, specs.Array):
            return self._leaves[0](action)
        if (fault := mismatch(self._spec, action, "action")) is not None:
            raise ValueError(f"{self._owner}: {fault}, as in the action spec")
        leaves = jax.tree.leaves(action)
        return jax.tree.unflatten(self._structure, [check(x) for check, x in zip(self._leaves, leaves, strict=True)])


class _Leaf:
    def __init__(self, spec: specs.Array, num_lanes: int | None, name: str):
        self._spec, self._name, self._single = spec, name, num_lanes is None
        self._shape = spec.shape if num_lanes is None else (num_lanes, *spec.shape)
        self._range: tuple[Any, Any] | None = None
        if spec.dtype.kind == "b":
            self._range = 0, 1
        elif spec.is_discrete and isinstance(spec, specs.Bounded):
            self._range = spec.minimum.astype(np.int64), spec.maximum.astype(np.int64)
        # The arrays of single actions that were given before: making one takes half as long as a small step.
        self._known: dict[int, jax.Array] = {}

    def __call__(self, action: Any) -> Any:
        if type(action) in _INTEGERS and (known := self._known.get(action)) is not None:
            return known
        checked = self._checked(action)
        if self._single and type(action) in _INTEGERS and len(self._known) < _MOST_KNOWN:
            checked = self._known[int(action)] = jnp.asarray(checked)
        return checked

    def _checked(self, action: Any) -> Any:
        dtype, is_read = self._spec.dtype, self._single or not isinstance(action, jax.Array)
        if is_read:
            try:
                action = np.asarray(action)
            except ValueError:  # rows of different lengths
                raise ValueError(f"{self._name} must have shape {self._shape}, got {action!r}") from None
        kinds = _KINDS.get(dtype.kind, "f")
        # A float of JAX between 0 and 1 would become True.
        self._check_type(action, kinds if is_read or kinds == "f" else kinds.replace("f", ""))
        if self._range is not None and is_read:
            self._check_range(action, *self._range)
        action = action if action.dtype == dtype else action.astype(dtype)
        return action[None] if self._single else action

    def _check_type(self, action: Any, kinds: str) -> None:
        if action.shape != self._shape:
            lanes = "" if self._single else f" (one {self._spec} per lane)"
            raise ValueError(f"{self._name} must have shape {self._shape}{lanes}, got {action.shape}")
        is_float = kinds == "f" and jnp.issubdtype(action.dtype, jnp.floating)  # bfloat16 included
        if action.dtype.kind not in kinds and not is_float:
            dtype = self._spec.dtype
            cast = f": cast it, as in action.astype(np.{dtype})" if action.dtype.kind in "biuf" else ""
            raise ValueError(f"{self._name} must be {_NAMES.get(dtype.kind, 'a float')}, got {action.dtype}{cast}")

    def _check_range(self, action: np.ndarray, low: Any, high: Any) -> None:
        fits = (action >= low) & (action <= high)  # NaN does not fit
        if action.dtype.kind == "f":
            fits &= action == np.floor(action)
        if not fits.all():
            at = tuple(np.argwhere(~fits)[0].tolist())
            element, lane = (at, "") if self._single else (at[1:], f" in lane {at[0]}")
            name = f"{self._name}{list(element)}" if element else self._name
            low, high = (np.broadcast_to(bound, self._spec.shape)[element] for bound in (low, high))
            raise ValueError(f"{name} must be in {low} .. {high}, got {action[at]}{lane}")
