"""Typed JAX keys in states of other libraries, stored as their words.

Words are ordinary arrays: states that hold them can be saved, exported and compared like all others.
"""

from typing import Any

import jax
import jax.numpy as jnp

Tree = Any


def is_key(x: Any) -> bool:
    """Returns whether ``x`` is an array, or the shape of an array, of typed keys."""
    return hasattr(x, "dtype") and jnp.issubdtype(x.dtype, jax.dtypes.prng_key)


def kinds(tree: Tree) -> Tree:
    """Returns a tree of the same structure with the kind of each typed key, and ``""`` for other arrays."""
    return jax.tree.map(lambda x: str(jax.random.key_impl(x)) if is_key(x) else "", tree)


def to_words(tree: Tree) -> Tree:
    """Replaces typed keys ``[...]`` by their uint32 words ``[..., n]``."""
    return jax.tree.map(lambda x: jax.random.key_data(x) if is_key(x) else x, tree)


def from_words(kinds: Tree, tree: Tree) -> Tree:
    """Inverts `to_words`, given the `kinds` of the original tree."""
    return jax.tree.map(lambda kind, x: jax.random.wrap_key_data(x, impl=kind) if kind else x, kinds, tree)
