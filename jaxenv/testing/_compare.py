"""Comparison of trees of arrays; a difference is reported with its leaf, step, lane and both values."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import specs, tree
from jaxenv.core.timestep import TimeStep
from jaxenv.testing.report import Failure
from jaxenv.tree import Tree
from jaxenv.tree._typed_keys import is_key, to_words

# The tolerance for one step in two compilations, which may round differently.
ROUNDING = 1e-5


def to_numpy(values: Tree) -> Tree:
    """Converts a tree to NumPy arrays; typed keys, which NumPy does not support, stay JAX arrays."""
    return jax.tree.map(lambda x: x if is_key(x) else np.asarray(x), values)


def stack(trees: Sequence[Tree]) -> Tree:
    """Stacks the leaves of several trees on a new leading axis."""
    return jax.tree.map(lambda *x: jnp.stack(x) if is_key(x[0]) else np.stack(x), *trees)


def take_lanes(values: Tree, index: Any, axis: int = 1) -> Tree:
    """Returns the lanes ``index`` of every leaf, whose lane axis is ``axis``; leaves shared by the batch stay whole."""
    at = (slice(None),) * axis + (index,)
    return jax.tree.map(lambda x: x if tree.is_shared(x) else x[at], values, is_leaf=tree.is_shared)


def take_steps(values: Tree, index: Any) -> Tree:
    """Returns ``x[index]`` for every leaf ``x``, such as the steps ``index`` of ``[T, ...]``."""
    return jax.tree.map(lambda x: x[index], values)


def without(rows: TimeStep, fields: Iterable[str], info: Collection[str] = ()) -> TimeStep:
    """Clears fields, and drops these entries of ``env_info``."""
    rows = tree.set_field(rows, "env_info", {name: x for name, x in rows.env_info.items() if name not in info})
    for field in fields:
        rows = tree.set_field(rows, field, ())
    return rows


def require_equal(
    expected: Tree,
    actual: Tree,
    labels: tuple[str, str],
    *,
    name: str = "",
    context: str = "",
    tolerance: float = 0.0,
    axes: Sequence[str] = ("step", "lane"),
    first_step: int = 0,
    where: np.ndarray | None = None,
) -> None:
    """Raises a `Failure` at the first difference between two trees of arrays.

    ``labels`` say how the two were computed, for the evidence: ``reward is 1.0 alone and 0.5 in a batch``; ``name`` is
    the name of the tree, ``context`` the subject of the comparison, and ``axes`` are the leading axes, which
    ``where`` (bool) selects from. ``tolerance`` is the largest absolute and relative difference of floats; 0 requires
    equal bits. Bytes, which hold the brightness of pixels, may differ by this fraction of 255. Other integers and flags
    must be equal.
    """
    context = f"{context}: " if context else ""
    if tree.structure(expected) != tree.structure(actual):
        a, b = ({leaf_name(t, path) for path, _ in jax.tree_util.tree_leaves_with_path(t)} for t in (expected, actual))
        raise Failure(
            f"{context}the trees {labels[0]} and {labels[1]} differ: only the first has {sorted(a - b)}, only the "
            f"second {sorted(b - a)}, or their classes or static fields differ"
        )
    leaves = jax.tree_util.tree_leaves_with_path(to_words(expected))
    for (path, x), y in zip(leaves, jax.tree.leaves(to_words(actual)), strict=True):
        x, y = np.asarray(x), np.asarray(y)
        leaf = context + ".".join(filter(None, (name, leaf_name(expected, path))))
        if (x.shape, x.dtype) != (y.shape, y.dtype):
            raise Failure(f"{leaf} is {x.dtype}{list(x.shape)} {labels[0]} and {y.dtype}{list(y.shape)} {labels[1]}")
        differs = ~_same(x, y, tolerance)
        if where is not None:
            differs &= tree.expand(where, x.ndim)
        if np.any(differs):
            at = first(differs)
            raise Failure(f"{leaf}{location(at, axes, first_step)} is {x[at]} {labels[0]} and {y[at]} {labels[1]}")


def require_nowhere(
    wrong: Any,
    rule: str,
    values: Any,
    first_step: int = 0,
    where: np.ndarray | None = None,
    axes: Sequence[str] = ("step", "lane"),
) -> None:
    """Raises a `Failure` with the place and the value of the first true element of ``wrong``, ``[T, B, ...]``."""
    wrong = wrong if where is None else wrong & tree.expand(where, wrong.ndim)
    if np.any(wrong):
        at = first(wrong)
        raise Failure(f"{rule}{location(at, axes, first_step)}: {np.asarray(values)[at]}")


def require_finite(values: Tree, what: str, **options: Any) -> None:
    """Acts as `require_nowhere` for the NaN and infinite floats in a tree of arrays ``[T, B, ...]``."""
    for path, x in jax.tree_util.tree_leaves_with_path(values):
        if jnp.issubdtype(x.dtype, jnp.inexact):
            leaf = ": ".join(filter(None, (what, leaf_name(values, path))))
            require_nowhere(~np.isfinite(x), leaf, x, **options)


def require_within_bounds(what: str, spec: Tree, values: Tree, where: np.ndarray | None = None) -> None:
    """Raises a `Failure` at the first element ``[T, B, ...]`` outside of its bounds; NaN is outside."""
    for (path, s), x in zip(jax.tree_util.tree_leaves_with_path(spec), jax.tree.leaves(values), strict=True):
        if isinstance(s, specs.Bounded):
            low, high = (np.broadcast_to(specs.aligned(bound, x.ndim), x.shape) for bound in (s.minimum, s.maximum))
            outside = ~((x >= low) & (x <= high)) & (True if where is None else tree.expand(where, x.ndim))
            if np.any(outside):
                at, name = first(outside), f"{what} {tree.path_name(path)}".rstrip()
                raise Failure(f"{name}{location(at)} is {x[at]}, outside of its bounds {low[at]} and {high[at]}")


def first(flags: np.ndarray) -> tuple[int, ...]:
    """Returns the index of the first true element."""
    return tuple(int(i) for i in np.argwhere(flags)[0])


def location(at: Sequence[int], axes: Sequence[str] = ("step", "lane"), first_step: int = 0) -> str:
    """Formats an index: `` at step 3, lane 1, element (2,)``."""
    named = [f"{axis} {i + first_step * (axis == 'step')}" for axis, i in zip(axes, at, strict=False)]
    if rest := tuple(at[len(axes) :]):
        named.append(f"element {rest}")
    return f" at {', '.join(named)}" if named else ""


def leaf_name(values: Tree, path: tuple[Any, ...]) -> str:
    """Returns the name of a leaf; in a pair of state and TimeStep it starts with ``state`` or ``timestep``."""
    name = tree.path_name(path)
    if isinstance(values, tuple) and len(values) == 2 and isinstance(values[1], TimeStep):
        return ("state", "timestep")[int(name[0])] + name[1:]
    return name


def _same(x: np.ndarray, y: np.ndarray, tolerance: float) -> np.ndarray:
    if x.dtype == np.uint8:
        return np.abs(x.astype(np.int32) - y) <= 255 * tolerance
    if not jnp.issubdtype(x.dtype, jnp.inexact):
        return x == y
    if tolerance:
        return np.isclose(x.astype(np.float64), y.astype(np.float64), rtol=tolerance, atol=tolerance, equal_nan=True)
    bits = f"u{x.dtype.itemsize}"
    return x.view(bits) == y.view(bits)
