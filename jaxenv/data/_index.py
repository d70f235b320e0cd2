"""Builds and checks the index of a checkpoint: versions, config, and the name, dtype and shape of every array."""

import itertools
import json
import os
from typing import Any

import jax
import numpy as np

from jaxenv import tree
from jaxenv._util import version
from jaxenv._util.checks import check_arrays, described
from jaxenv.tree._typed_keys import is_key

# A leaf of an index: name, dtype, shape, and the implementation of a key, which its dtype does not name.
Leaf = list[Any]


def index_of(state: Any, config: Any) -> dict[str, Any]:
    """Returns the index of a tree."""
    if state is None:
        raise ValueError("save: state must be a tree of arrays, got None")
    check_arrays("save", "state", state)
    leaves = [
        [*_describe(key_path, x), str(jax.random.key_impl(x)) if is_key(x) else ""]
        for key_path, x in jax.tree.flatten_with_path(state)[0]
    ]
    try:
        json.dumps(config)
    except (TypeError, ValueError) as fault:
        raise ValueError(f"save: config must be plain data that JSON can hold: {fault}") from None
    return {"jaxenv": version.__version__, "jax": jax.__version__, "config": config, "leaves": leaves}


def checked(index: Any) -> dict[str, Any]:
    """Returns a decoded index if it is one, and raises any exception otherwise."""
    leaves = [
        [str(name), str(dtype), [int(n) for n in shape], str(key_impl)]
        for name, dtype, shape, key_impl in index["leaves"]
    ]
    return {"jaxenv": index["jaxenv"], "jax": index["jax"], "config": index["config"], "leaves": leaves}


def leaves_for(path: str | os.PathLike[str], index: dict[str, Any], like: Any, partial: bool) -> list[tuple[int, Leaf]]:
    """Returns the leaves of the index that ``like`` asks for, each with its number in the checkpoint."""
    targets = jax.tree.flatten_with_path(like)[0]
    expected = [_describe(key_path, x) for key_path, x in targets]
    numbered = list(enumerate(index["leaves"]))
    if partial:
        names = [leaf[0] for _, leaf in numbered]
        if twice := [name for name, _, _ in expected if names.count(name) > 1]:
            raise ValueError(f"restore: {path} holds several leaves named {twice[0]!r}: restore all of it, not a part")
        places = {leaf[0]: (number, leaf) for number, leaf in numbered}
        numbered = [places.get(name, (-1, [name, "nothing", [], ""])) for name, _, _ in expected]
    for saved, wanted in itertools.zip_longest((leaf[:3] for _, leaf in numbered), expected):
        if saved != wanted:
            where = f"{path}{origin(index)}"
            raise ValueError(f"restore: {where} holds {_text(saved)} where the tree to restore has {_text(wanted)}")
    for (name, dtype, shape), (_, x) in zip(expected, targets, strict=True):
        if not is_key(x) and not is_numpy(x) and jax.dtypes.canonicalize_dtype(x.dtype) != x.dtype:
            leaf = _text([name, dtype, shape])
            raise ValueError(f"restore: {leaf} needs jax_enable_x64, or a NumPy array to restore into")
    return numbered


def is_numpy(x: Any) -> bool:
    """Returns whether an array is a NumPy array or scalar."""
    return isinstance(x, np.ndarray | np.generic)


def origin(index: dict[str, Any]) -> str:
    """Returns which other version of this library wrote the checkpoint, for messages; empty for this one."""
    ours = version.__version__
    return "" if index["jaxenv"] == ours else f", saved by jaxenv {index['jaxenv']}, this is {ours}"


def _describe(key_path: tuple[Any, ...], x: Any) -> list[Any]:
    """Returns name, dtype and shape of a leaf, as JSON represents them."""
    if not hasattr(x, "shape") or not hasattr(x, "dtype"):
        where = tree.path_name(key_path, "state")
        raise ValueError(f"save: {where} must be an array, got {described(x)}")
    return [tree.path_name(key_path), str(x.dtype), list(x.shape)]


def _text(leaf: list[Any] | None) -> str:
    return f"{leaf[0] or 'one array'} {leaf[1]}{leaf[2]}" if leaf else "nothing more"
