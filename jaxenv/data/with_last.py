"""The T rows of an unroll together with the TimeStep that follows them."""

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp

from jaxenv import tree
from jaxenv._checks import check_arrays

T = TypeVar("T")


def with_last(timestep: T, last: T) -> T:
    """Appends the TimeStep that follows the rows: leaves ``[T, B, ...]`` and ``[B, ...]`` to ``[T + 1, B, ...]``.

    Works for any tree whose leaves are also in ``last``. ``last`` may hold more, as after ``unroll(fields=...)``.

    Raises:
        ValueError: for a leaf that is missing in ``last`` or has another shape or dtype there.

    >>> import jax.numpy as jnp
    >>> with_last(jnp.array([[1, 2], [3, 4]]), jnp.array([5, 6])).tolist()
    [[1, 2], [3, 4], [5, 6]]
    """
    return _join("with_last", timestep, last, lambda x, end: jnp.concatenate([x, end[None]]))


def next_rows(owner: str, timestep: T, last: T) -> T:
    """Shifts the rows by one, with ``last`` at the end: index t of the leaves ``[T, B, ...]`` holds row t + 1."""
    # Not a slice of `with_last`: the compiler would write all of it to memory before it takes the slice.
    return _join(owner, timestep, last, lambda x, end: jnp.concatenate([x[1:], end[None]])[: x.shape[0]])


def _join(owner: str, timestep: T, last: T, join_leaf: Callable[[jax.Array, jax.Array], jax.Array]) -> T:
    check_arrays(owner, "timestep", timestep)
    check_arrays(owner, "last", last)
    if timestep is None:
        raise ValueError(f"{owner}: timestep must be a TimeStep or a tree of arrays, got None")
    last_leaves = dict(tree.flatten_with_path(last)[0])

    def join(path: Any, x: Any) -> Any:
        end = last_leaves.get(path)
        if end is None or jnp.shape(end) != jnp.shape(x)[1:]:
            problem = "is missing" if end is None else f"has shape {jnp.shape(end)}"
            raise ValueError(
                f"{owner}: {tree.path_name(path) or 'the leaf'} {problem} in last, rows have {jnp.shape(x)[1:]}"
            )
        if jnp.result_type(end) != jnp.result_type(x):
            name = ".".join(filter(None, ("last", tree.path_name(path))))
            raise ValueError(
                f"{owner}: {name} must be {jnp.result_type(x)}, as in the rows, got {jnp.result_type(end)}"
            )
        return join_leaf(x, end)

    return jax.tree_util.tree_map_with_path(join, timestep)
