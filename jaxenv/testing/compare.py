"""Compare trees of arrays and say where they differ: field, step, lane and both values."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv.testing.report import Failure
from jaxenv.timestep import TimeStep
from jaxenv.tree import Tree

# One step in two compilations: what a compiler's rounding may change.
ROUNDING = 1e-5


def is_key(x: Any) -> bool:
    """Whether an array holds typed JAX keys."""
    return hasattr(x, "dtype") and jnp.issubdtype(x.dtype, jax.dtypes.prng_key)


def host(values: Tree) -> Tree:
    """The arrays of a tree as NumPy arrays; typed keys, which NumPy does not know, stay what they are."""
    return jax.tree.map(lambda x: x if is_key(x) else np.asarray(x), values)


def lanes(values: Tree, index: Any, axis: int = 1) -> Tree:
    """Lanes ``index`` of every leaf, lanes lying on ``axis``; what belongs to the whole batch passes through."""
    at = (slice(None),) * axis + (index,)
    return jax.tree.map(
        lambda x: x if isinstance(x, tree.Shared) else x[at], values, is_leaf=lambda x: isinstance(x, tree.Shared)
    )


def steps(values: Tree, index: Any) -> Tree:
    """Steps ``index`` of every leaf ``[T, ...]``."""
    return jax.tree.map(lambda x: x[index], values)


def require_equal(
    wanted: Tree,
    given: Tree,
    what: str,
    *,
    tolerance: float = 0.0,
    axes: Sequence[str] = ("step", "lane"),
    first_step: int = 0,
    where: np.ndarray | None = None,
) -> None:
    """Raises a `Failure` at the first difference between two trees of arrays.

    Args:
        wanted: the tree that is taken for right.
        given: the tree in question.
        what: what is compared: a sentence with the order of the two values.
        tolerance: largest absolute and relative difference of floats; 0 asks for equal bits. Integers and flags must
            always be equal.
        axes: names of the leading axes, for the evidence.
        first_step: the number of the first step, for the evidence.
        where: bool in the shape of the leading axes, the places to look at; all of them by default.
    """
    if tree.structure(wanted) != tree.structure(given):
        names = [[leaf_name(t, path) for path, _ in jax.tree_util.tree_leaves_with_path(t)] for t in (wanted, given)]
        only = [sorted(set(a) - set(b)) for a, b in (names, names[::-1])]
        raise Failure(f"{what}: the trees differ, by {only} or by their classes or static fields")
    for (path, x), y in zip(jax.tree_util.tree_leaves_with_path(wanted), jax.tree.leaves(given), strict=True):
        x, y = _plain(x), _plain(y)
        name = f"{what}: {leaf_name(wanted, path)}" if path else what
        if (x.shape, x.dtype) != (y.shape, y.dtype):
            raise Failure(f"{name} is {x.dtype}{list(x.shape)} and {y.dtype}{list(y.shape)}")
        differs = ~_same(x, y, tolerance)
        if where is not None:
            differs &= tree.expand(where, x.ndim)
        if np.any(differs):
            at = tuple(int(i) for i in np.argwhere(differs)[0])
            raise Failure(f"{name}{place(at, axes, first_step)}: {x[at]} and {y[at]}")


def place(at: Sequence[int], axes: Sequence[str] = ("step", "lane"), first_step: int = 0) -> str:
    """Where an element lies, as text: `` at step 3, lane 1, element (2,)``."""
    named = [f"{axis} {i + first_step * (axis == 'step')}" for axis, i in zip(axes, at, strict=False)]
    if rest := tuple(at[len(axes) :]):
        named.append(f"element {rest}")
    return f" at {', '.join(named)}" if named else ""


def require_finite(
    values: Tree,
    what: str,
    *,
    where: np.ndarray | None = None,
    axes: Sequence[str] = ("step", "lane"),
    first_step: int = 0,
) -> None:
    """Raises a `Failure` at the first float that is NaN or infinite in a tree of arrays ``[T, B, ...]``."""
    for path, x in jax.tree_util.tree_leaves_with_path(values):
        x = _plain(x)
        if jnp.issubdtype(x.dtype, jnp.inexact):
            wrong = ~np.isfinite(x) if where is None else ~np.isfinite(x) & tree.expand(where, x.ndim)
            if np.any(wrong):
                at = tuple(int(i) for i in np.argwhere(wrong)[0])
                raise Failure(f"{what}: {leaf_name(values, path)}{place(at, axes, first_step)} is {x[at]}")


def leaf_name(values: Tree, path: tuple) -> str:
    """The name of a leaf; that of a pair of state and TimeStep begins with ``state`` or ``timestep``."""
    name = tree.path_name(path)
    if isinstance(values, tuple) and len(values) == 2 and isinstance(values[1], TimeStep):
        return ("state", "timestep")[int(name[0])] + name[1:]
    return name


def _plain(x: Any) -> np.ndarray:
    return np.asarray(jax.random.key_data(x) if is_key(x) else x)


def _same(x: np.ndarray, y: np.ndarray, tolerance: float) -> np.ndarray:
    if not jnp.issubdtype(x.dtype, jnp.inexact):
        return x == y
    if tolerance:
        return np.isclose(x.astype(np.float64), y.astype(np.float64), rtol=tolerance, atol=tolerance, equal_nan=True)
    bits = f"u{x.dtype.itemsize}"
    return x.view(bits) == y.view(bits)
