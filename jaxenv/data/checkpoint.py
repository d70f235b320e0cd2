"""Saves any tree of arrays in one file, and restores it bit for bit.

States of environments, replay buffers and learners are plain trees of arrays, which every checkpoint library accepts.
These functions need only NumPy. They also read the folders of a `Checkpointer`.
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import warnings
import zipfile
from collections.abc import Iterator
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv._util import files
from jaxenv._util.checks import check_arrays, check_bool, check_path
from jaxenv.data import _index, checkpointer
from jaxenv.tree._typed_keys import is_key

T = TypeVar("T")
_INDEX = "index"


@dataclasses.dataclass(frozen=True)
class CheckpointInfo:
    """The description of a checkpoint.

    Attributes:
        jaxenv_version: the version of this library that wrote the checkpoint.
        jax_version: the version of JAX.
        config: the data given when it was saved, as JSON represents it.
        leaves: name, dtype and shape of every array, such as ``("step", "int32", (3,))``.
    """

    jaxenv_version: str
    jax_version: str
    config: Any
    leaves: tuple[tuple[str, str, tuple[int, ...]], ...]


def save(path: str | os.PathLike[str], state: Any, *, config: Any = None) -> None:
    """Writes every array of a tree, of any shape and dtype, to an ``.npz`` file.

    The file is written under a unique temporary name (``.NAME.XXXXXXXX.tmp``) and then moved, so a save that fails,
    with an ``OSError``, or is killed leaves the previous checkpoint intact, and several processes that save to one path
    at once each write a whole file. The next save to the path removes leftovers of a killed save.

    Args:
        path: the file; its folder must exist.
        state: a tree of arrays, typed keys included. A Python number, which has no dtype, is refused.
        config: plain data to store with the arrays, such as the settings of a run. `checkpoint_info` reads it.
    """
    path = check_path("save", "path", path)
    text = json.dumps(_index.index_of(state, config))
    try:
        with files.replacing(path) as temporary, temporary.open("wb") as file:
            with zipfile.ZipFile(file, "w") as archive:
                _write(archive, _INDEX, np.frombuffer(text.encode(), np.uint8))
                for number, x in enumerate(jax.tree.flatten(state)[0]):
                    _write(archive, f"{number}", _as_numpy(x))
            file.flush()
            os.fsync(file.fileno())
    except OSError as fault:
        raise OSError(fault.errno, f"save: {path} cannot be written, its content is unchanged: {fault}") from fault


def restore(path: str | os.PathLike[str], like: T, *, partial: bool = False) -> T:
    """Reads a tree that `save` or a `Checkpointer` wrote, bit for bit.

    Every process reads separately; from a folder, it reads the parts of the arrays that its devices hold. Warns if
    another version of this library wrote the file: a run may then continue differently.

    Args:
        path: the file; or the folder of a `Checkpointer`, whose newest complete checkpoint is read.
        like: a tree of the same structure, shapes and dtypes, whose values do not matter: arrays, or the
            ``ShapeDtypeStruct`` of ``jax.eval_shape``. JAX arrays are restored with the sharding of those in ``like``,
            and NumPy arrays, which may have 64 bits, as NumPy arrays.
        partial: read only the leaves of ``like``, by their names as `checkpoint_info` lists them, and skip all others:
            ``{"learner": {"params": ...}}`` for the weights alone. This gives no warning.

    Raises:
        ValueError: if the path holds no complete checkpoint; if it is damaged, naming the leaf; or if leaves, shapes or
            dtypes differ, naming the first difference. Nothing is restored in part.

    >>> import jax.numpy as jnp, pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(pathlib.Path(folder) / "run.npz", {"step": jnp.arange(3)})
    ...     restore(pathlib.Path(folder) / "run.npz", {"step": jnp.zeros(3, jnp.int32)})["step"].tolist()
    [0, 1, 2]
    """
    path = check_path("restore", "path", path)
    check_bool("restore", "partial", partial)
    check_arrays("restore", "like", like)
    if path.is_dir():
        restored, index = checkpointer.read(path, like, partial)
    else:
        targets, structure = jax.tree.flatten(like)
        with _opened("restore", path) as (archive, index):
            found = zip(_index.leaves_for(path, index, like, partial), targets, strict=True)
            restored = jax.tree.unflatten(structure, [_read(path, archive, *numbered, x) for numbered, x in found])
    if not partial and (origin := _index.origin(index)):
        warnings.warn(f"restore: {path}{origin}: a run may not continue bit for bit", stacklevel=2)
    return restored


def checkpoint_info(path: str | os.PathLike[str]) -> CheckpointInfo:
    """Reads versions, config, and the name, dtype and shape of every array, without loading the arrays.

    ``path`` is the file; or the folder of a `Checkpointer`, whose newest complete checkpoint is described.
    """
    path = check_path("checkpoint_info", "path", path)
    if path.is_dir():
        index = checkpointer.index_of("checkpoint_info", path)
    else:
        with _opened("checkpoint_info", path) as (_, index):
            pass
    leaves = tuple((name, dtype, tuple(shape)) for name, dtype, shape, _ in index["leaves"])
    return CheckpointInfo(index["jaxenv"], index["jax"], index["config"], leaves)


@contextlib.contextmanager
def _opened(owner: str, path: pathlib.Path) -> Iterator[tuple[zipfile.ZipFile, dict[str, Any]]]:
    """Yields the archive and its index."""
    try:
        opened = path.open("rb")
    except OSError as fault:
        raise type(fault)(fault.errno, f"{owner}: path {str(path)!r} cannot be read: {fault.strerror}") from None
    with opened:
        try:
            archive = zipfile.ZipFile(opened)
            index = _index.checked(json.loads(_read_member(archive, _INDEX).tobytes()))
        except Exception:  # a foreign file fails in a dozen ways
            raise ValueError(f"{owner}: {path} is not a checkpoint of data.save, or it is truncated") from None
        yield archive, index


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


def _read(path: pathlib.Path, archive: zipfile.ZipFile, number: int, leaf: list[Any], like: Any) -> Any:
    """Reads one leaf and checks it against ``like``; raises a ``ValueError`` that names it."""
    name, _, _, key_impl = leaf
    stored = jax.eval_shape(jax.random.key_data, like) if is_key(like) else like
    dtype = _stored_dtype(stored.dtype)
    try:
        bits = _read_member(archive, f"{number}")
        if (bits.dtype, bits.shape) != (dtype, stored.shape):
            raise ValueError(f"it must be {dtype}{list(stored.shape)}, got {bits.dtype}{list(bits.shape)}")
        if _index.is_numpy(like):
            return bits.view(like.dtype)
        array = jax.random.wrap_key_data(jnp.asarray(bits), impl=key_impl) if is_key(like) else bits.view(like.dtype)
        if array.dtype != like.dtype:
            raise ValueError(f"it must be {like.dtype}, the file names the implementation {key_impl!r}")
    except Exception as fault:  # from the archive, its compression, the header or the data
        raise ValueError(f"restore: {path} is damaged: leaf {name or 'one array'} cannot be read: {fault}") from None
    return jax.device_put(array, getattr(like, "sharding", None))


def _as_numpy(x: Any) -> np.ndarray:
    x = np.asarray(jax.random.key_data(x) if is_key(x) else x)
    return x.view(_stored_dtype(x.dtype))


def _stored_dtype(dtype: np.dtype) -> np.dtype:
    # NumPy's file format has no bfloat16 and similar dtypes: the file holds their bits, the index their names.
    return np.dtype(f"u{dtype.itemsize}") if dtype.kind == "V" else dtype
