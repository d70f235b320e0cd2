"""Writes checkpoints of sharded arrays with Orbax: a folder for each, in the background, by all processes.

Orbax stores no checksums. The index of a checkpoint therefore has the CRC-32 of every part of an array that a device
held, and of itself. Arrays are read part by part with TensorStore, on which Orbax builds: Orbax's own reader leaves
tasks in event loops that it closes.
"""

import contextlib
import errno
import functools
import json
import os
import pathlib
import zlib
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, TypeVar

import jax
import numpy as np

from jaxenv._util import files, source
from jaxenv._util.checks import check_folder, check_integer
from jaxenv._util.library import outside_traces
from jaxenv.data import _index, _processes
from jaxenv.tree._typed_keys import is_key

T = TypeVar("T")
_INDEX, _ARRAYS = "index", "arrays"

# A part of an array in the index: its CRC-32, and its start and stop along each axis.
_Part = tuple[int, list[list[int]]]


class Checkpointer(contextlib.AbstractContextManager["Checkpointer"]):
    """Writes checkpoints of arrays that are sharded over devices or processes, in the background.

    Every process writes the parts of the arrays that its devices hold, so none has to hold a whole array.
    `jaxenv.data.restore` reads the newest checkpoint of the folder onto any number of devices and processes, and
    `jaxenv.data.checkpoint_info` its config. Each checkpoint is a folder named by its step. The file that marks it as
    complete is written last: an incomplete checkpoint is never read, and the next `Checkpointer` of the folder removes
    it. A checkpoint is deleted only after a newer one is complete. The index has checksums of all arrays, which
    `jaxenv.data.restore` checks.

    The format is Orbax's. Use the checkpointer as a context manager, or call `close`.

    Args:
        folder: a folder for these checkpoints only, created if missing and visible to all processes. It is locked until
            `close`, or the end of the process: another `Checkpointer` of the folder is refused until then.
        keep: how many checkpoints to keep. ``restore(folder / "3", ...)`` reads the checkpoint of step 3.

    >>> import jax.numpy as jnp, tempfile
    >>> from jaxenv import data
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Checkpointer(folder) as checkpointer:
    ...         checkpointer.save(1, {"lanes": jnp.arange(3)})
    ...     data.restore(folder, {"lanes": jnp.zeros(3, jnp.int32)})["lanes"].tolist()
    [0, 1, 2]
    """

    def __init__(self, folder: str | os.PathLike[str], *, keep: int = 1):
        folder = check_folder("Checkpointer", "folder", folder)
        check_integer("Checkpointer", "keep", keep, 1)
        self._ocp = _orbax("Checkpointer")
        self._folder = folder.absolute()
        options = self._ocp.CheckpointManagerOptions(
            preservation_policy=self._ocp.checkpoint_managers.preservation_policy.LatestN(keep),
            cleanup_tmp_directories=True,
            atomicity_options=_atomicity(self._ocp),
        )
        self._unlock = contextlib.ExitStack()
        _processes.on_first_process(self._lock)
        try:
            self._manager = self._ocp.CheckpointManager(self._folder, options=options)
        except BaseException:
            self._unlock.close()
            raise

    def _lock(self) -> None:
        self._unlock.callback(files.FolderLock("Checkpointer", self._folder).release)

    def save(self, step: int, state: Any, *, config: Any = None) -> None:
        """Copies every array of a tree from its devices, and writes them while the caller continues.

        The arrays may be changed or donated as soon as it returns. It first waits for an earlier save that is still
        being written. All processes call it together. Arrays that they do not share are taken from the first process.

        ``step``, the number of the checkpoint, is above the last one. ``config`` is plain data to store with the arrays
        of ``state``, which may be typed keys. An ``OSError`` says that the previous save could not be written, naming
        its step, or that this one cannot be started. Earlier checkpoints are unchanged.
        """
        check_integer("save", "step", step, 0)
        index = _index.index_of(state, config)
        self.wait()
        last = self._manager.latest_step()
        if last is not None and step <= last:
            raise ValueError(f"save: step must be above {last}, the last checkpoint, got {step}")
        arrays = {str(i): _stored(x) for i, x in enumerate(jax.tree.flatten(state)[0]) if x.size}
        index["parts"] = _parts(arrays)
        items = {_INDEX: self._ocp.args.JsonSave({"index": index, "crc32": _index_checksum(index)})}
        if arrays:
            items[_ARRAYS] = self._ocp.args.PyTreeSave(arrays)
        self._step = step
        try:
            self._manager.save(step, args=self._ocp.args.Composite(**items))
        except Exception as fault:
            raise self._failed(fault) from fault

    def wait(self) -> None:
        """Returns when the last save is complete, or raises an ``OSError``. All processes call it together."""
        try:
            self._manager.wait_until_finished()
        except Exception as fault:
            raise self._failed(fault) from fault

    def close(self) -> None:
        """Waits for the last save as `wait` does, ends the threads of Orbax, and unlocks the folder."""
        try:
            self.wait()
        finally:
            self._manager.close()
            self._unlock.close()

    def __exit__(self, *_: Any) -> None:
        self.close()

    def _failed(self, fault: Exception) -> OSError:
        self._manager.reload()  # Orbax counts the step that failed
        number = fault.errno if isinstance(fault, OSError) else None
        where = f"save: step {self._step} of {self._folder} cannot be written, its content is unchanged"
        return OSError(number or errno.EIO, f"{where}: {fault}")


def read(folder: pathlib.Path, like: T, partial: bool) -> tuple[T, dict[str, Any]]:
    """Reads the newest checkpoint of a folder, as `jaxenv.data.restore` describes it; also returns its index."""
    return _from_newest("restore", folder, lambda step: _read(step, like, partial))


def index_of(owner: str, folder: pathlib.Path) -> dict[str, Any]:
    """Returns the index of the newest checkpoint of a folder; its entry ``parts`` lists the parts of each array."""
    return _from_newest(owner, folder, lambda step: _read_index(owner, step))


def newest_step(folder: pathlib.Path) -> int | None:
    """Returns the number of the newest complete checkpoint of a folder, or ``None``."""
    if not folder.is_dir():
        return None
    ocp = _orbax("restore")
    names = ocp.path.step.standard_name_format(atomicity_options=_atomicity(ocp))
    newest = ocp.path.step.latest_step_metadata(folder.absolute(), names)
    return None if newest is None else newest.step


def _orbax(owner: str) -> ModuleType:
    with outside_traces():
        try:
            import orbax.checkpoint
        except ImportError as missing:
            raise source.missing(owner, missing, "orbax") from None
    if not hasattr(orbax.checkpoint.options, "AtomicityOptions"):  # flax brings any version
        raise ImportError(f"{owner} needs orbax-checkpoint 0.12.4 or later: {source.install_command('orbax')}")
    return orbax.checkpoint


def _atomicity(ocp: ModuleType) -> Any:
    """Returns options that mark a complete checkpoint by a file written last, not by a renamed folder."""
    return ocp.options.AtomicityOptions(mode=ocp.options.AtomicityMode.COMMIT_FILE)


def _from_newest(owner: str, folder: pathlib.Path, reader: Callable[[pathlib.Path], T]) -> T:
    """Returns what ``reader`` reads of the newest complete checkpoint."""
    _orbax(owner)
    if (folder / _INDEX).is_dir():  # a checkpoint itself
        return reader(folder.absolute())
    while True:
        number = newest_step(folder)
        if number is None:
            raise ValueError(f"{owner}: {folder} holds no complete checkpoint of data.Checkpointer")
        step = folder.absolute() / str(number)
        try:
            return reader(step)
        except Exception:
            # A running writer may have deleted it for a newer one meanwhile.
            if step.exists():
                raise


def _read_index(owner: str, step: pathlib.Path) -> dict[str, Any]:
    """Reads the index; its entry ``parts`` has the parts of each array, by the number of the leaf."""
    try:
        stored = json.loads((step / _INDEX / "metadata").read_text())
        if "leaves" in stored:
            raise ValueError("it has no checksums, an earlier version of jaxenv wrote it")
        if stored["crc32"] != _index_checksum(stored["index"]):
            raise ValueError("the checksum of its index differs, it is damaged")
        return {**_index.checked(stored["index"]), "parts": stored["index"]["parts"]}
    except Exception as fault:  # a foreign folder fails in a dozen ways
        raise ValueError(f"{owner}: {step} is not a checkpoint of data.Checkpointer: {fault}") from None


def _read(step: pathlib.Path, like: T, partial: bool) -> tuple[T, dict[str, Any]]:
    import tensorstore  # a dependency of Orbax

    index, context = _read_index("restore", step), tensorstore.Context()
    base = {"driver": "file", "path": f"{step / _ARRAYS}/"}

    def read(number: str, stored: Any) -> Callable[[Any], np.ndarray]:
        spec = {"driver": "auto", "kvstore": {"driver": "ocdbt", "base": base, "path": f"{number}/"}}
        opened = tensorstore.open(spec, context=context, read=True, dtype=stored.dtype, shape=stored.shape)
        return _region_reader(opened.result(), index["parts"][number])

    numbered = _index.leaves_for(step, index, like, partial)
    targets, structure = jax.tree.flatten(like)
    leaves = []
    for (number, (name, _, _, key_impl)), x in zip(numbered, targets, strict=True):
        stored = jax.eval_shape(jax.random.key_data, x) if is_key(x) else x
        try:
            # Orbax stores no arrays without elements.
            reader = read(str(number), stored) if x.size else np.empty(stored.shape, stored.dtype).__getitem__
            leaves.append(_leaf(reader, stored, key_impl, x))
        except (OSError, ValueError) as fault:
            reason = str(fault).partition(" [tensorstore_spec=")[0]
            raise ValueError(f"restore: {step} is damaged: leaf {name or 'one array'} {reason}") from None
    return jax.tree.unflatten(structure, leaves), index


def _leaf(reader: Callable[[Any], np.ndarray], stored: Any, key_impl: str, like: Any) -> Any:
    """Reads a leaf with the sharding and type of ``like``."""
    everything = (slice(None),) * len(stored.shape)
    if _index.is_numpy(like):
        return reader(everything)
    sharding = getattr(like, "sharding", None)
    if sharding is None:
        array = jax.device_put(reader(everything))
    else:
        array = jax.make_array_from_callback(stored.shape, sharding, reader)
    return jax.random.wrap_key_data(array, impl=key_impl) if is_key(like) else array


def _region_reader(store: Any, parts: list[_Part]) -> Callable[[Any], np.ndarray]:
    """Returns a function that reads a region of an array, and raises a ``ValueError`` if a checksum differs."""
    array = np.empty(store.shape, store.dtype.numpy_dtype)  # pages of parts that are never read take no memory

    @functools.cache
    def load(number: int) -> None:
        crc32, bounds = parts[number]
        place = tuple(slice(*along) for along in bounds)
        array[place] = store[place].read().result()
        if _crc32(array[place]) != crc32:
            raise ValueError("has other values than were saved: their checksum differs")

    def read(region: tuple[slice, ...]) -> np.ndarray:
        wanted = [range(size)[along] for size, along in zip(array.shape, region, strict=True)]
        for number, (_, bounds) in enumerate(parts):
            if all(w.start < stop and start < w.stop for w, (start, stop) in zip(wanted, bounds, strict=True)):
                load(number)
        return array[region]

    return read


def _parts(arrays: dict[str, Any]) -> dict[str, list[_Part]]:
    """Returns the parts of all arrays; the first process returns those of every process. All processes call it."""
    found = _processes.collected({number: list(_local_parts(x)) for number, x in arrays.items()})

    def writers(x: Any) -> list[Any]:
        return found if isinstance(x, jax.Array) and not x.is_fully_addressable else found[:1]

    return {number: [part for process in writers(x) for part in process[number]] for number, x in arrays.items()}


def _local_parts(x: Any) -> Iterator[_Part]:
    """Yields the parts of an array that this process writes."""
    if isinstance(x, np.ndarray):
        yield _crc32(x), [[0, size] for size in x.shape]
        return
    for shard in x.addressable_shards:
        if shard.replica_id == 0:
            along = (range(size)[s] for size, s in zip(x.shape, shard.index, strict=True))
            yield _crc32(np.asarray(shard.data)), [[s.start, s.stop] for s in along]


def _crc32(x: np.ndarray) -> int:
    return zlib.crc32(np.ascontiguousarray(x).reshape(-1).view(np.uint8).data)


def _index_checksum(index: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(index, sort_keys=True).encode())


def _stored(x: Any) -> Any:
    """Returns an array as Orbax takes it: numbers, on the devices of all processes or in NumPy."""
    x = jax.random.key_data(x) if is_key(x) else x
    alone = not isinstance(x, jax.Array) or (jax.process_count() > 1 and x.is_fully_addressable)
    return np.asarray(x) if alone else x
