"""The checkpoints of a run's folder, in either format."""

import dataclasses
import pathlib
from typing import Any

import jax

from jaxenv import data
from jaxenv.data import _processes, checkpointer

FILE, FOLDER = "checkpoint.npz", "checkpoints"
FORMATS = ("npz", "orbax")


def newest(folder: pathlib.Path) -> pathlib.Path | None:
    """Returns the path in a run's folder that `jaxenv.data.restore` reads, ``None`` without a complete checkpoint."""
    if (folder / FILE).exists():
        return folder / FILE
    return None if checkpointer.newest_step(folder / FOLDER) is None else folder / FOLDER


def version(folder: pathlib.Path) -> int | None:
    """Returns a number that changes when a newer checkpoint of a run's folder is complete."""
    file = folder / FILE
    return file.stat().st_mtime_ns if file.exists() else checkpointer.newest_step(folder / FOLDER)


class Checkpoints:
    """Saves and restores the state of a run. All processes call every method together.

    In the format ``"npz"`` the first process gathers all arrays and writes them before the run continues. In the format
    ``"orbax"`` every process writes the arrays of its devices while the run continues.

    Args:
        folder: the run's folder.
        name: the format; by default the folder's, ``"npz"`` for a new one.

    Raises:
        ValueError: for another format than the folder's.
    """

    def __init__(self, folder: pathlib.Path, name: str | None):
        present = "npz" if (folder / FILE).exists() else "orbax" if (folder / FOLDER).exists() else None
        if None not in (name, present) and name != present:
            raise ValueError(f"train: {folder} holds checkpoints of the format {present!r}, not {name!r}")
        self._sharded = (name or present) == "orbax"
        self._path = folder / (FOLDER if self._sharded else FILE)
        self._checkpointer: data.Checkpointer | None = None

    def open(self) -> None:
        """Prepares to save; the run's folder exists."""
        if self._sharded:
            self._checkpointer = data.Checkpointer(self._path)

    def save(self, number: int, run: Any, settings: dict[str, Any]) -> None:
        """Saves a run after iteration ``number``."""
        if self._checkpointer is not None:
            self._checkpointer.save(number, run, config=settings)
        else:
            whole = _processes.gathered(run)
            _processes.on_first_process(lambda: data.save(self._path, whole, config=settings))

    def restore(self, shapes: Any, start: Any, keys: jax.Array) -> Any:
        """Restores the last saved `Run`, given its shapes; its learner is sharded like the one of ``start(keys)``."""
        if not self._sharded:
            run = data.restore(self._path, shapes)
            return dataclasses.replace(run, learner=_processes.spread(run.learner))
        shardings = start.lower(keys).compile().output_shardings
        learner = jax.tree.map(
            lambda x, sharding: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding), shapes.learner, shardings
        )
        return data.restore(self._path, dataclasses.replace(shapes, learner=learner))

    def close(self) -> None:
        """Waits until the last save is complete."""
        if self._checkpointer is not None:
            self._checkpointer.close()
            self._checkpointer = None
