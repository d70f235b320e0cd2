"""Checkpoints: any tree of arrays in one file, restored bit for bit.

States of environments, replay buffers and learners are plain trees of arrays, which every checkpoint library accepts.
These two functions need only NumPy, and raise for a file that does not fit the tree it is restored into.
"""

import itertools
import json
import os
import pathlib
import zipfile
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree

T = TypeVar("T")
_INDEX = "index"


def save(path: str | os.PathLike, state: Any) -> None:
    """Writes every array of a tree, of any shape and dtype, to an ``.npz`` file.

    The file is written under a temporary name and then moved, so a run that is killed while saving leaves the previous
    checkpoint intact.

    Args:
        path: the file; its folder must exist.
        state: a tree of arrays. Typed keys are arrays too.

    Raises:
        ValueError: for a leaf that is not an array, such as a Python number, which has no dtype.
    """
    path = pathlib.Path(path)
    leaves = tree.flatten_with_path(state)[0]
    # The implementation of keys has different names in their dtype and in `wrap_key_data`: the index holds both.
    index = [[*_describe(key_path, x), str(jax.random.key_impl(x)) if _is_key(x) else ""] for key_path, x in leaves]
    arrays = {f"{i}": _as_numpy(x) for i, (_, x) in enumerate(leaves)}
    arrays[_INDEX] = np.frombuffer(json.dumps(index).encode(), np.uint8)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def restore(path: str | os.PathLike, like: T) -> T:
    """Reads a tree that `save` wrote, bit for bit.

    Args:
        path: the file.
        like: a tree of the same structure, shapes and dtypes, whose values do not matter: arrays, or the
            ``ShapeDtypeStruct`` of ``jax.eval_shape``. JAX arrays are restored with the sharding of those in ``like``,
            and NumPy arrays, which may have 64 bits, as NumPy arrays.

    Raises:
        ValueError: if `save` did not write the file; if leaves, shapes or dtypes differ, naming the first difference;
            or for a ``ShapeDtypeStruct`` of 64 bits without ``jax_enable_x64``. Nothing is restored in part.

    >>> import jax.numpy as jnp, pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(pathlib.Path(folder) / "run.npz", {"step": jnp.arange(3)})
    ...     restore(pathlib.Path(folder) / "run.npz", {"step": jnp.zeros(3, jnp.int32)})["step"].tolist()
    [0, 1, 2]
    """
    targets, structure = tree.flatten_with_path(like)
    with open(path, "rb") as opened:
        try:
            file = np.load(opened, allow_pickle=False)
            saved = [[*leaf, key_impl] for *leaf, key_impl in json.loads(file[_INDEX].tobytes())]
        except (ValueError, LookupError, TypeError, EOFError, zipfile.BadZipFile):
            raise ValueError(f"restore: {path} is not a checkpoint of data.save") from None
        expected = [_describe(key_path, x) for key_path, x in targets]
        _compare(path, [leaf[:3] for leaf in saved], expected)
        for (name, dtype, shape), (_, x) in zip(expected, targets, strict=True):
            if not _is_key(x) and not _is_numpy(x) and jax.dtypes.canonicalize_dtype(x.dtype) != x.dtype:
                leaf = f"{name or 'one array'} {dtype}{shape}"
                raise ValueError(f"restore: {leaf} needs jax_enable_x64, or a NumPy array to restore into")
        leaves = [_as_like(file[f"{i}"], saved[i][3], x) for i, (_, x) in enumerate(targets)]
    return structure.unflatten(leaves)


def _describe(key_path: tuple, x: Any) -> list:
    """Name, dtype and shape of a leaf, as JSON represents them."""
    if not hasattr(x, "shape") or not hasattr(x, "dtype"):
        raise ValueError(f"checkpoint: {tree.path_name(key_path) or 'the leaf'} is a {type(x).__name__}, not an array")
    return [tree.path_name(key_path), str(x.dtype), list(x.shape)]


def _is_key(x: Any) -> bool:
    return jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key)


def _as_numpy(x: Any) -> np.ndarray:
    x = np.asarray(jax.random.key_data(x) if _is_key(x) else x)
    # NumPy's file format has no bfloat16 and similar dtypes: the file holds their bits, the index their names.
    return x.view(f"u{x.dtype.itemsize}") if x.dtype.kind == "V" else x


def _is_numpy(x: Any) -> bool:
    return isinstance(x, np.ndarray | np.generic)


def _as_like(bits: np.ndarray, key_impl: str, like: Any) -> jax.Array | np.ndarray:
    if _is_key(like):
        return jax.random.wrap_key_data(jnp.asarray(bits), impl=key_impl)
    if _is_numpy(like):
        return bits.view(like.dtype)
    return jax.device_put(bits.view(like.dtype), getattr(like, "sharding", None))


def _compare(path: str | os.PathLike, saved: list[list], expected: list[list]) -> None:
    def text(leaf: list | None) -> str:
        return f"{leaf[0] or 'one array'} {leaf[1]}{leaf[2]}" if leaf else "nothing more"

    for in_file, in_tree in itertools.zip_longest(saved, expected):
        if in_file != in_tree:
            raise ValueError(f"restore: {path} holds {text(in_file)} where the tree to restore has {text(in_tree)}")
