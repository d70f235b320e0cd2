"""Any tree of arrays in one file: the state of a run, to go on from bit for bit.

Environment states, replay buffers and learners' states are plain trees of arrays, which every checkpoint library takes.
What is here needs NumPy alone and refuses a file that does not fit what it is restored into.
"""

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

    The file is complete or not there: it is written beside its place and moved into it, so that a run that is killed
    while it saves keeps the checkpoint before.

    Args:
        path: the file; its folder must be there.
        state: a tree of arrays. Typed keys are arrays too.

    Raises:
        ValueError: for a leaf that is no array, a Python number say, whose dtype nobody knows.
    """
    path = pathlib.Path(path)
    found = tree.flatten_with_path(state)[0]
    # JAX spells an implementation of keys otherwise in a dtype than where it asks for one: the index holds both.
    index = [[*_described(where, x), str(jax.random.key_impl(x)) if _is_key(x) else ""] for where, x in found]
    arrays = {f"{i}": _as_numpy(x) for i, (_, x) in enumerate(found)}
    arrays[_INDEX] = np.frombuffer(json.dumps(index).encode(), np.uint8)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with beside.open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def restore(path: str | os.PathLike, like: T) -> T:
    """Reads a tree that `save` wrote, into the structure of another: bit for bit what was saved.

    Args:
        path: the file.
        like: a tree of the same structure, shapes and dtypes, whose values do not matter: arrays, or the
            ``ShapeDtypeStruct`` that ``jax.eval_shape`` gives. Where it holds JAX arrays the restored ones are placed
            like them; where it holds NumPy arrays, which may have 64 bits, NumPy arrays are restored.

    Raises:
        ValueError: if `save` did not write the file; if it holds other leaves, shapes or dtypes, naming the first on
            both sides; for a ``ShapeDtypeStruct`` of 64 bits while JAX has but 32. Nothing is read in part.

    >>> import jax.numpy as jnp, pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(pathlib.Path(folder) / "run.npz", {"step": jnp.arange(3)})
    ...     restore(pathlib.Path(folder) / "run.npz", {"step": jnp.zeros(3, jnp.int32)})["step"].tolist()
    [0, 1, 2]
    """
    wanted, structure = tree.flatten_with_path(like)
    with open(path, "rb") as opened:
        try:
            file = np.load(opened, allow_pickle=False)
            saved = [[*leaf, key_impl] for *leaf, key_impl in json.loads(file[_INDEX].tobytes())]
        except (ValueError, LookupError, TypeError, EOFError, zipfile.BadZipFile):
            raise ValueError(f"restore: {path} is no checkpoint of data.save") from None
        here = [_described(where, x) for where, x in wanted]
        _compare(path, [told[:3] for told in saved], here)
        for (name, dtype, shape), (_, x) in zip(here, wanted, strict=True):
            if not _is_key(x) and not _is_numpy(x) and jax.dtypes.canonicalize_dtype(x.dtype) != x.dtype:
                leaf = f"{name or 'one array'} {dtype}{shape}"
                raise ValueError(f"restore: {leaf} needs jax_enable_x64, or a NumPy array to restore into")
        leaves = [_as_like(file[f"{i}"], saved[i][3], x) for i, (_, x) in enumerate(wanted)]
    return structure.unflatten(leaves)


def _described(path: tuple, x: Any) -> list:
    """Name, dtype and shape of a leaf, as JSON keeps them."""
    if not hasattr(x, "shape") or not hasattr(x, "dtype"):
        raise ValueError(f"checkpoint: {tree.path_name(path) or 'the leaf'} is a {type(x).__name__}, not an array")
    return [tree.path_name(path), str(x.dtype), list(x.shape)]


def _is_key(x: Any) -> bool:
    return jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key)


def _as_numpy(x: Any) -> np.ndarray:
    x = np.asarray(jax.random.key_data(x) if _is_key(x) else x)
    # NumPy's file format does not know bfloat16 and the like: their bits are kept, their names are in the index.
    return x.view(f"u{x.dtype.itemsize}") if x.dtype.kind == "V" else x


def _is_numpy(x: Any) -> bool:
    return isinstance(x, np.ndarray | np.generic)


def _as_like(bits: np.ndarray, key_impl: str, like: Any) -> jax.Array | np.ndarray:
    if _is_key(like):
        return jax.random.wrap_key_data(jnp.asarray(bits), impl=key_impl)
    if _is_numpy(like):
        return bits.view(like.dtype)
    return jax.device_put(bits.view(like.dtype), getattr(like, "sharding", None))


def _compare(path: str | os.PathLike, saved: list[list], wanted: list[list]) -> None:
    def text(leaf: list | None) -> str:
        return f"{leaf[0] or 'one array'} {leaf[1]}{leaf[2]}" if leaf else "nothing more"

    for i in range(max(len(saved), len(wanted))):
        there, here = (leaves[i] if i < len(leaves) else None for leaves in (saved, wanted))
        if there != here:
            raise ValueError(f"restore: {path} holds {text(there)} where the tree to restore has {text(here)}")
