"""Comparison of the structures of two trees, as text."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from jaxenv import tree
from jaxenv.tree import Tree


def mismatch(expected: Tree, given: Tree, name: str) -> str | None:
    """Describes the first place where the structure of ``given`` differs from ``expected``; ``None`` if they agree.

    Leaves may be arrays, shapes or specs.

    >>> mismatch({"arm": 0, "leg": 1}, {"arm": [0, 0], "leg": 1}, "action")
    'action.arm must be an array, got a list of 2'
    >>> mismatch(0, None, "action")
    'action must be an array, got None'
    """
    if (found := _first(expected, given, name)) is None and tree.structure(expected) != tree.structure(given):
        return f"{name} must have the same static fields, got others"
    return found


def type_mismatch(expected: Tree, given: Tree, name: str) -> str | None:
    """Acts as `mismatch`, and also compares the shapes and dtypes of the arrays."""
    if (found := mismatch(expected, given, name)) is not None:
        return found
    for (path, x), y in zip(jax.tree.flatten_with_path(expected)[0], jax.tree.leaves(given), strict=True):
        own, other = (
            f"{leaf.dtype}{list(leaf.shape)}" if hasattr(leaf, "dtype") else f"{jnp.result_type(leaf)}[]"
            for leaf in (x, y)
        )
        if own != other:
            return f"{tree.path_name(path, name)} must be {own}, got {other}"
    return None


def _first(expected: Tree, given: Tree, name: str) -> str | None:
    if is_array(expected) and is_array(given):
        return None
    # JAX does not distinguish two dataclasses with equal fields.
    if type(expected) is type(given):
        inside, other_inside = _children(expected), _children(given)
        if [path for path, _ in inside] == [path for path, _ in other_inside]:
            pairs = zip(inside, other_inside, strict=True)
            found = (_first(x, y, tree.path_name(path, name)) for (path, x), (_, y) in pairs)
            return next((text for text in found if text is not None), None)
    own, other = _kind(expected), _kind(given)
    if own == other:
        own, other = (f"a {type(x).__module__}.{type(x).__qualname__}" for x in (expected, given))
    return f"{name} must be {own}, got {other}"


def is_array(leaf: Any) -> bool:
    """Returns whether a leaf is an array, a number, or the shape or spec of an array."""
    return hasattr(leaf, "dtype") or isinstance(leaf, bool | int | float | complex)


def _children(node: Tree) -> list[tuple[tuple[Any, ...], Tree]]:
    """Returns the direct children of a node with their names; none for a leaf."""
    found = jax.tree_util.tree_leaves_with_path(node, is_leaf=lambda x: x is not node)
    return [(path, child) for path, child in found if path]


def _kind(node: Any) -> str:
    if node is None:
        return "None"
    if isinstance(node, Mapping):
        return f"a dict with {', '.join(map(repr, map(str, node)))}" if node else "an empty dict"
    if isinstance(node, list | tuple) and not hasattr(node, "_fields"):
        return f"a {type(node).__name__} of {len(node)}" if node else f"an empty {type(node).__name__}"
    if is_array(node):
        return "an array"
    name = type(node).__name__
    return f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"
