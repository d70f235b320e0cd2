"""Checkpoints: any tree of arrays in one file, restored bit for bit.

States of environments, replay buffers and learners are plain trees of arrays, which every checkpoint library accepts.
These functions need only NumPy, and raise for a file that does not fit the tree it is restored into.
"""

import dataclasses
import itertools
import json
import os
import pathlib
import warnings
import zipfile
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

import jaxenv
from jaxenv import tree

T = TypeVar("T")
_INDEX = "index"


@dataclasses.dataclass(frozen=True)
class CheckpointInfo:
    """What a file of `save` says about itself.

    Attributes:
        jaxenv_version: the version of this library that wrote it.
        jax_version: the version of JAX.
        config: the data given to `save`, as JSON represents it.
        leaves: name, dtype and shape of every array, such as ``("step", "int32", (3,))``.
    """

    jaxenv_version: str
    jax_version: str
    config: Any
    leaves: tuple[tuple[str, str, tuple[int, ...]], ...]


def save(path: str | os.PathLike, state: Any, *, config: Any = None) -> None:
    """Writes every array of a tree, of any shape and dtype, to an ``.npz`` file.

    The file is written under a temporary name (``.NAME.tmp``) and then moved, so a save that fails or is killed leaves
    the previous checkpoint intact. The next save of the same path replaces what a killed one has left. Only one process
    may save to a path at a time.

    Args:
        path: the file; its folder must exist.
        state: a tree of arrays. Typed keys are arrays too.
        config: plain data to store with the arrays, such as the settings of a run. `checkpoint_info` reads it.

    Raises:
        ValueError: for a leaf that is not an array, such as a Python number, which has no dtype; or for a config that
            JSON cannot hold.
        OSError: if the file cannot be written, for example because the disk is full. The previous file is unchanged.
    """
    path = pathlib.Path(path)
    leaves = tree.flatten_with_path(state)[0]
    # The implementation of keys has different names in their dtype and in `wrap_key_data`: the index holds both.
    index = {
        "jaxenv": jaxenv.__version__,
        "jax": jax.__version__,
        "config": config,
        "leaves": [
            [*_describe(key_path, x), str(jax.random.key_impl(x)) if _is_key(x) else ""] for key_path, x in leaves
        ],
    }
    try:
        text = json.dumps(index)
    except (TypeError, ValueError) as fault:
        raise ValueError(f"save: config must be plain data that JSON can hold: {fault}") from None
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with temporary.open("wb") as file:
            with zipfile.ZipFile(file, "w") as archive:
                _write(archive, _INDEX, np.frombuffer(text.encode(), np.uint8))
                for number, (_, x) in enumerate(leaves):
                    _write(archive, f"{number}", _as_numpy(x))
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as fault:
        raise OSError(fault.errno, f"save: {path} cannot be written, what it held is unchanged: {fault}") from fault
    finally:
        temporary.unlink(missing_ok=True)


def restore(path: str | os.PathLike, like: T, *, partial: bool = False) -> T:
    """Reads a tree that `save` wrote, bit for bit.

    Warns if another version of this library wrote the file: a run may then not continue as it would have.

    Args:
        path: the file.
        like: a tree of the same structure, shapes and dtypes, whose values do not matter: arrays, or the
            ``ShapeDtypeStruct`` of ``jax.eval_shape``. JAX arrays are restored with the sharding of those in ``like``,
            and NumPy arrays, which may have 64 bits, as NumPy arrays.
        partial: read only the leaves of ``like``, by their names as `checkpoint_info` lists them, and skip all others:
            ``{"learner": {"params": ...}}`` for the weights alone. There is no warning then.

    Raises:
        ValueError: if `save` did not write the file; if it is damaged, naming the leaf; if leaves, shapes or dtypes
            differ, naming the first difference; or for a ``ShapeDtypeStruct`` of 64 bits without ``jax_enable_x64``.
            Nothing is restored in part.

    >>> import jax.numpy as jnp, pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(pathlib.Path(folder) / "run.npz", {"step": jnp.arange(3)})
    ...     restore(pathlib.Path(folder) / "run.npz", {"step": jnp.zeros(3, jnp.int32)})["step"].tolist()
    [0, 1, 2]
    """
    targets, structure = tree.flatten_with_path(like)
    expected = [_describe(key_path, x) for key_path, x in targets]
    with open(path, "rb") as opened:
        archive, index = _open("restore", path, opened)
        ours = jaxenv.__version__
        origin = "" if index["jaxenv"] == ours else f", saved by jaxenv {index['jaxenv']}, this is {ours}"
        numbered = list(enumerate(index["leaves"]))
        if partial:
            places = {leaf[0]: (number, leaf) for number, leaf in numbered}
            numbered = [places.get(name, (-1, [name, "nothing", [], ""])) for name, _, _ in expected]
        _compare(f"{path}{origin}", [leaf[:3] for _, leaf in numbered], expected)
        for (name, dtype, shape), (_, x) in zip(expected, targets, strict=True):
            if not _is_key(x) and not _is_numpy(x) and jax.dtypes.canonicalize_dtype(x.dtype) != x.dtype:
                leaf = f"{name or 'one array'} {dtype}{shape}"
                raise ValueError(f"restore: {leaf} needs jax_enable_x64, or a NumPy array to restore into")
        leaves = [
            _read(path, archive, number, leaf, x) for (number, leaf), (_, x) in zip(numbered, targets, strict=True)
        ]
    if origin and not partial:
        warnings.warn(f"restore: {path}{origin}: a run may not continue bit for bit", stacklevel=2)
    return structure.unflatten(leaves)


def checkpoint_info(path: str | os.PathLike) -> CheckpointInfo:
    """Versions, config, and the name, dtype and shape of every array of a checkpoint, without loading the arrays.

    Raises:
        ValueError: if `save` did not write the file.

    >>> import jax.numpy as jnp, pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(pathlib.Path(folder) / "run.npz", {"step": jnp.arange(3)}, config={"gamma": 0.99})
    ...     found = checkpoint_info(pathlib.Path(folder) / "run.npz")
    >>> found.config, found.leaves
    ({'gamma': 0.99}, (('step', 'int32', (3,)),))
    """
    with open(path, "rb") as opened:
        _, index = _open("checkpoint_info", path, opened)
    leaves = tuple((name, dtype, tuple(shape)) for name, dtype, shape, _ in index["leaves"])
    return CheckpointInfo(index["jaxenv"], index["jax"], index["config"], leaves)


def _open(owner: str, path: str | os.PathLike, opened: Any) -> tuple[zipfile.ZipFile, dict[str, Any]]:
    """The archive and its index."""
    try:
        archive = zipfile.ZipFile(opened)
        index = json.loads(_read_member(archive, _INDEX).tobytes())
        index["leaves"] = [
            [str(name), str(dtype), [int(n) for n in shape], str(key_impl)]
            for name, dtype, shape, key_impl in index["leaves"]
        ]
        return archive, {name: index[name] for name in ("jaxenv", "jax", "config", "leaves")}
    except Exception:  # a file of other origin fails in a dozen ways
        raise ValueError(f"{owner}: {path} is not a checkpoint of data.save, or it is truncated") from None


def _write(archive: zipfile.ZipFile, name: str, x: np.ndarray) -> None:
    """Adds an array as NumPy's ``savez`` does, so that ``np.load`` reads it too."""
    with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
        np.lib.format.write_array(member, x, allow_pickle=False)


def _read_member(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    with archive.open(f"{name}.npy") as member:
        array = np.lib.format.read_array(member, allow_pickle=False)
        if member.read(1):
            raise ValueError("it holds more bytes than its array")
    return array


def _read(path: str | os.PathLike, archive: zipfile.ZipFile, number: int, leaf: list, like: Any) -> Any:
    """One leaf, checked against ``like``; raises a ``ValueError`` that names it."""
    name, _, _, key_impl = leaf
    damaged = f"restore: {path} is damaged: leaf {name or 'one array'}"
    try:
        bits = _read_member(archive, f"{number}")
    except KeyError:
        raise ValueError(f"{damaged} is missing") from None
    except Exception as fault:  # of the archive, its compression, the header or the data
        raise ValueError(f"{damaged} cannot be read: {fault}") from None
    stored = jax.eval_shape(jax.random.key_data, like) if _is_key(like) else like
    dtype = _stored_dtype(stored.dtype)
    if (bits.dtype, bits.shape) != (dtype, stored.shape):
        raise ValueError(
            f"{damaged} must be {dtype}{list(stored.shape)} in the file, got {bits.dtype}{list(bits.shape)}"
        )
    if _is_numpy(like):
        return bits.view(like.dtype)
    array: Any = bits.view(like.dtype) if not _is_key(like) else _as_key(bits, key_impl)
    if array is None or array.dtype != like.dtype:
        raise ValueError(f"{damaged} must be {like.dtype}, the file names the implementation {key_impl!r}")
    return jax.device_put(array, getattr(like, "sharding", None))


def _describe(key_path: tuple, x: Any) -> list:
    """Name, dtype and shape of a leaf, as JSON represents them."""
    if not hasattr(x, "shape") or not hasattr(x, "dtype"):
        raise ValueError(f"checkpoint: {tree.path_name(key_path) or 'the leaf'} is a {type(x).__name__}, not an array")
    return [tree.path_name(key_path), str(x.dtype), list(x.shape)]


def _is_key(x: Any) -> bool:
    return jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key)


def _as_numpy(x: Any) -> np.ndarray:
    x = np.asarray(jax.random.key_data(x) if _is_key(x) else x)
    return x.view(_stored_dtype(x.dtype))


def _stored_dtype(dtype: np.dtype) -> np.dtype:
    # NumPy's file format has no bfloat16 and similar dtypes: the file holds their bits, the index their names.
    return np.dtype(f"u{dtype.itemsize}") if dtype.kind == "V" else dtype


def _as_key(bits: np.ndarray, key_impl: str) -> jax.Array | None:
    try:
        return jax.random.wrap_key_data(jnp.asarray(bits), impl=key_impl)
    except (ValueError, TypeError):
        return None


def _is_numpy(x: Any) -> bool:
    return isinstance(x, np.ndarray | np.generic)


def _compare(file: str, saved: list[list], expected: list[list]) -> None:
    def text(leaf: list | None) -> str:
        return f"{leaf[0] or 'one array'} {leaf[1]}{leaf[2]}" if leaf else "nothing more"

    for in_file, in_tree in itertools.zip_longest(saved, expected):
        if in_file != in_tree:
            raise ValueError(f"restore: {file} holds {text(in_file)} where the tree to restore has {text(in_tree)}")
