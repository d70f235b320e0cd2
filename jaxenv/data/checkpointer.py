"""Checkpoints of sharded arrays: a folder for each, written in the background by all processes, with Orbax."""

import errno
import os
import pathlib
from types import ModuleType
from typing import Any, TypeVar

import jax
import numpy as np

from jaxenv import _source, tree
from jaxenv._checks import check_folder, check_integer
from jaxenv._library import outside_traces
from jaxenv._typed_keys import is_key
from jaxenv.data import _index

T = TypeVar("T")
_INDEX, _ARRAYS = "index", "arrays"


class Checkpointer:
    """Writes checkpoints of arrays that are sharded over devices or processes, in the background.

    Every process writes the parts of the arrays that its own devices hold, so none has to hold a whole one.
    `jaxenv.data.restore` reads the newest checkpoint of the folder onto any number of devices and processes, and
    `jaxenv.data.checkpoint_info` its config. Each checkpoint is a folder named by its step. The file that says that it
    is complete is written last: one that was cut short is never read, and the next `Checkpointer` of the folder removes
    it. A checkpoint is deleted only after a newer one is complete.

    The format is that of Orbax. Use it as a context manager, or call `close`.

    Args:
        folder: a folder of its own, created if missing; with several processes, one that all of them see. Only one run
            may write to it at a time.
        keep: how many checkpoints to keep. ``restore(folder / "3", ...)`` reads that of step 3.

    Raises:
        ImportError: if Orbax is not installed.
        ValueError: for a ``keep`` that is not an integer of at least 1, or the path of a file.

    >>> import jax.numpy as jnp, tempfile
    >>> from jaxenv import data
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Checkpointer(folder) as checkpointer:
    ...         checkpointer.save(1, {"lanes": jnp.arange(3)})
    ...     data.restore(folder, {"lanes": jnp.zeros(3, jnp.int32)})["lanes"].tolist()
    [0, 1, 2]
    """

    def __init__(self, folder: str | os.PathLike, *, keep: int = 1):
        folder = check_folder("Checkpointer", "folder", folder)
        check_integer("Checkpointer", "keep", keep, 1)
        self._ocp = _orbax("Checkpointer")
        self._folder = folder.absolute()
        policy = self._ocp.checkpoint_managers.preservation_policy.LatestN(keep)
        options = self._ocp.CheckpointManagerOptions(
            preservation_policy=policy, cleanup_tmp_directories=True, atomicity_options=_atomicity(self._ocp)
        )
        self._manager = self._ocp.CheckpointManager(self._folder, options=options)

    def save(self, step: int, state: Any, *, config: Any = None) -> None:
        """Copies every array of a tree from its devices, and writes them while the caller goes on.

        The arrays may be changed or donated as soon as it returns. Where the save before is still being written, waits
        for it first. All processes call it together.

        Args:
            step: the number of the checkpoint, above that of the last one.
            state: a tree of arrays of any shape and dtype, typed keys included. Arrays that are not shared with other
                processes are taken from the first process.
            config: plain data to store with the arrays.

        Raises:
            ValueError: for a ``step`` that is not above the last one; for a leaf that is not an array; or for a config
                that JSON cannot hold.
            OSError: if the save before could not be written, naming its step, or this one cannot be started. The
                checkpoints before it are unchanged.
        """
        check_integer("save", "step", step, 0)
        index = _index.index_of(state, config)
        self.wait()
        last = self._manager.latest_step()
        if last is not None and step <= last:
            raise ValueError(f"save: step must be above {last}, that of the last checkpoint, got {step}")
        arrays = {str(i): _stored(x) for i, x in enumerate(tree.flatten(state)[0]) if x.size}
        items = {_INDEX: self._ocp.args.JsonSave(index)}
        if arrays:
            items[_ARRAYS] = self._ocp.args.PyTreeSave(arrays)
        self._step = step
        try:
            self._manager.save(step, args=self._ocp.args.Composite(**items))
        except Exception as fault:
            raise self._failed(fault) from fault

    def wait(self) -> None:
        """Returns when the last save is complete. All processes call it together.

        Raises:
            OSError: if it could not be written, for example because the disk is full. The checkpoints before it are
                unchanged.
        """
        try:
            self._manager.wait_until_finished()
        except Exception as fault:
            raise self._failed(fault) from fault

    def close(self) -> None:
        """Waits for the last save, as `wait`, and ends the threads of Orbax."""
        try:
            self.wait()
        finally:
            self._manager.close()

    def __enter__(self) -> "Checkpointer":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def _failed(self, fault: Exception) -> OSError:
        self._manager.reload()  # Orbax counts the step that failed
        number = fault.errno if isinstance(fault, OSError) else None
        where = f"save: step {self._step} of {self._folder} cannot be written, what it held is unchanged"
        return OSError(number or errno.EIO, f"{where}: {fault}")


def read(folder: pathlib.Path, like: T, partial: bool) -> tuple[T, dict[str, Any]]:
    """The newest checkpoint of a folder, as `jaxenv.data.restore` describes it, and its index."""
    while True:
        step = _newest("restore", folder)
        try:
            return _read(step, like, partial)
        except Exception:
            # A run that goes on may have deleted it for a newer one meanwhile.
            if step.exists():
                raise


def index_of(owner: str, folder: pathlib.Path) -> dict[str, Any]:
    """The index of the newest checkpoint of a folder."""
    while True:
        step = _newest(owner, folder)
        try:
            return _read_index(owner, step)
        except Exception:
            if step.exists():
                raise


def newest_step(folder: pathlib.Path) -> int | None:
    """The number of the newest complete checkpoint of a folder, ``None`` if there is none."""
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
            raise _source.missing(owner, missing, "orbax") from None
    if not hasattr(orbax.checkpoint.options, "AtomicityOptions"):  # flax brings any version
        raise ImportError(f"{owner} needs orbax-checkpoint 0.12.4 or later: {_source.install_command('orbax')}")
    return orbax.checkpoint


def _atomicity(ocp: ModuleType) -> Any:
    """A file that is written last marks a complete checkpoint, also where folders cannot be renamed or are copied."""
    return ocp.options.AtomicityOptions(mode=ocp.options.AtomicityMode.COMMIT_FILE)


def _newest(owner: str, folder: pathlib.Path) -> pathlib.Path:
    if (folder / _INDEX).is_dir():  # a checkpoint itself
        return folder.absolute()
    step = newest_step(folder)
    if step is None:
        raise ValueError(f"{owner}: {folder} holds no complete checkpoint of data.Checkpointer")
    return folder.absolute() / str(step)


def _read_index(owner: str, step: pathlib.Path) -> dict[str, Any]:
    try:
        return _index.checked(_reader("JsonCheckpointHandler").restore(step / _INDEX))
    except Exception as fault:  # a folder of other origin fails in a dozen ways
        raise ValueError(f"{owner}: {step} is not a checkpoint of data.Checkpointer: {fault}") from None


def _read(step: pathlib.Path, like: T, partial: bool) -> tuple[T, dict[str, Any]]:
    ocp = _orbax("restore")
    index = _read_index("restore", step)
    numbered = _index.leaves_for(step, index, like, partial)
    targets, structure = tree.flatten(like)
    wanted = {str(number): x for (number, _), x in zip(numbered, targets, strict=True) if x.size}
    found: dict[str, Any] = {}
    if wanted:
        args = {name: _restore_args(ocp, x) for name, x in wanted.items()}
        arguments = ocp.args.PyTreeRestore(dict.fromkeys(wanted, 0), restore_args=args, partial_restore=True)
        try:
            found = _reader("PyTreeCheckpointHandler").restore(step / _ARRAYS, args=arguments)
        except Exception as fault:
            raise ValueError(f"restore: {step} is damaged: {fault}") from None
    leaves = [_leaf(step, found.get(str(number)), leaf, x) for (number, leaf), x in zip(numbered, targets, strict=True)]
    return structure.unflatten(leaves), index


def _reader(handler: str) -> Any:
    """Orbax's reader of an item. Each process reads for itself, so one may do so while the others do not."""
    ocp, own = _orbax("restore"), jax.process_index()
    options = ocp.options.MultiprocessingOptions(primary_host=own, active_processes={own})
    made = getattr(ocp, handler)(multiprocessing_options=options)
    return ocp.Checkpointer(made, multiprocessing_options=options)


def _stored(x: Any) -> Any:
    """An array as Orbax takes it: numbers, either over the devices of all processes or of NumPy."""
    x = jax.random.key_data(x) if is_key(x) else x
    alone = not isinstance(x, jax.Array) or (jax.process_count() > 1 and x.is_fully_addressable)
    return np.asarray(x) if alone else x


def _sharding(like: Any) -> Any:
    """The sharding over which Orbax reads an array; ``None`` for whole arrays of one process."""
    sharding = None if _index.is_numpy(like) else getattr(like, "sharding", None)
    alone = sharding is None or (jax.process_count() > 1 and sharding.is_fully_addressable)
    return None if alone else sharding


def _restore_args(ocp: ModuleType, like: Any) -> Any:
    sharding = _sharding(like)
    if sharding is None:
        return ocp.RestoreArgs(restore_type=np.ndarray)
    return ocp.ArrayRestoreArgs(restore_type=jax.Array, sharding=sharding)


def _leaf(step: pathlib.Path, found: Any, leaf: _index.Leaf, like: Any) -> Any:
    """A leaf as ``like`` has it; raises a ``ValueError`` that names it if it is not what the index says."""
    name, _, _, key_impl = leaf
    stored = jax.eval_shape(jax.random.key_data, like) if is_key(like) else like
    if found is None:  # nothing is stored of arrays without elements
        found = np.zeros(stored.shape, stored.dtype)
    if (found.dtype, found.shape) != (stored.dtype, stored.shape):
        expected, got = (f"{x.dtype}{list(x.shape)}" for x in (stored, found))
        raise ValueError(f"restore: {step} is damaged: leaf {name or 'one array'} must be {expected}, got {got}")
    if _index.is_numpy(like):
        return found
    if not isinstance(found, jax.Array):
        found = jax.device_put(found)
    array: Any = jax.random.wrap_key_data(found, impl=key_impl) if is_key(like) else found
    return array if _sharding(like) is not None else jax.device_put(array, getattr(like, "sharding", None))
