"""The ``fields`` argument of wrappers and data transformers: dotted paths that select leaves of a tree."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from jaxenv import specs, tree
from jaxenv.tree import Tree


def field_paths(owner: str, fields: Any) -> tuple[str, ...]:
    """Returns the dotted paths in ``fields``: one path, several, or ``None`` for the whole tree (``("",)``)."""
    if fields is None:
        return ("",)
    paths = (fields,) if isinstance(fields, str) else fields
    if not isinstance(paths, list | tuple) or not all(isinstance(path, str) for path in paths):
        raise ValueError(f"{owner}: fields must be None, a dotted path or a sequence of dotted paths, got {fields!r}")
    if not paths:
        raise ValueError(f"{owner}: fields must name at least one part, got {fields!r}")
    return tuple(paths)


def select(
    owner: str, values: Tree, fields: Any, kind: str = "an array", applies: Callable[[Any], bool] = lambda leaf: True
) -> Tree:
    """Marks the leaves that ``fields`` selects: bools in the structure of ``values``.

    ``None`` selects every leaf that ``applies`` accepts. A path selects one leaf or all leaves of a subtree, and
    ``applies`` must accept each of them.

    Args:
        owner: class name that error messages start with.
        values: arrays, ``jax.ShapeDtypeStruct`` or specs.
        fields: see `field_paths`.
        kind: a noun phrase for the leaves that ``applies`` accepts, used in error messages.
        applies: whether a leaf is of the ``kind``.
    """
    leaves, structure = tree.flatten_with_path(values)
    numbers = structure.unflatten(range(len(leaves)))
    marks = [False] * len(leaves)
    for path in field_paths(owner, fields):
        try:
            below = jax.tree.leaves(tree.get_field(numbers, path))
        except ValueError as unknown:
            raise ValueError(f"{owner}: {unknown}") from None
        if fields is None:
            below = [i for i in below if applies(leaves[i][1])]
        if not below:
            raise ValueError(f"{owner}: {path or 'observation'} must hold {kind}, got {_described(values)}")
        for i in below:
            key_path, leaf = leaves[i]
            if not applies(leaf):
                name = tree.path_name(key_path) or "observation"
                raise ValueError(f"{owner}: {name} must be {kind}, got {_described(leaf)}")
            marks[i] = True
    return structure.unflatten(marks)


def select_floats(owner: str, values: Tree, fields: Any) -> Tree:
    """Calls `select` for the leaves of a floating dtype."""
    return select(owner, values, fields, "an array of floats", lambda x: jnp.issubdtype(x.dtype, jnp.floating))


def map_marked(marks: Tree, fn: Callable[..., Any], *trees: Any, otherwise: Callable[..., Any] | None = None) -> Any:
    """Maps the leaves that `select` marks by ``fn``, and others by ``otherwise``; they stay by default."""
    other = otherwise or (lambda x, *_: x)
    return jax.tree.map(lambda mark, *xs: (fn if mark else other)(*xs), marks, *trees)


def _described(values: Tree) -> Any:
    """Keeps specs and replaces arrays by specs of their whole shape, including the lanes."""
    return jax.tree.map(lambda x: x if specs.is_spec(x) else specs.Array(x.shape, x.dtype), values)
