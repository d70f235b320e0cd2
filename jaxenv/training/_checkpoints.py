"""The checkpoints of a run's folder, in either format."""

import pathlib
from typing import Any, Protocol, TypeVar

import jax

from jaxenv import data
from jaxenv.data import _processes, checkpointer

R = TypeVar("R")
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


def of_format(name: str | None, folder: pathlib.Path) -> "Checkpoints":
    """Returns the checkpoints of a run in a format; by default in the folder's, ``"npz"`` for a new one.

    Raises:
        ValueError: for another format than the folder's.
    """
    present = "npz" if (folder / FILE).exists() else "orbax" if (folder / FOLDER).exists() else None
    if None not in (name, present) and name != present:
        raise ValueError(f"train: {folder} holds checkpoints of the format {present!r}, not {name!r}")
    return InFolder(folder) if (name or present) == "orbax" else InFile(folder)


class Checkpoints(Protocol):
    """Saves and restores the state of a run. All processes call every method together."""

    def open(self) -> None:
        """Prepares to save; the run's folder exists."""

    def save(self, number: int, run: Any, settings: dict[str, Any]) -> None:
        """Saves a run after iteration ``number``."""

    def restore(self, shapes: R, start: Any, keys: jax.Array) -> R:
        """Restores the last saved `Run`, given its shapes; its learner is sharded like the one of ``start(keys)``."""

    def close(self) -> None:
        """Waits until the last save is complete."""


class InFile:
    """``checkpoint.npz``: the first process gathers all arrays and writes them before the run continues."""

    def __init__(self, folder: pathlib.Path):
        self._path = folder / FILE

    def open(self) -> None:
        pass

    def save(self, number: int, run: Any, settings: dict[str, Any]) -> None:
        whole = _processes.gathered(run)
        _processes.on_first_process(lambda: data.save(self._path, whole, config=settings))

    def restore(self, shapes: Any, start: Any, keys: jax.Array) -> Any:
        run = data.restore(self._path, shapes)
        return type(run)(_processes.spread(run.learner), run.curve, run.iterations)

    def close(self) -> None:
        pass


class InFolder:
    """``checkpoints/``: every process writes the arrays of its devices while the run continues."""

    def __init__(self, folder: pathlib.Path):
        self._folder = folder / FOLDER
        self._checkpointer: data.Checkpointer | None = None

    def open(self) -> None:
        self._checkpointer = data.Checkpointer(self._folder)

    def save(self, number: int, run: Any, settings: dict[str, Any]) -> None:
        assert self._checkpointer is not None
        self._checkpointer.save(number, run, config=settings)

    def restore(self, shapes: Any, start: Any, keys: jax.Array) -> Any:
        shardings = start.lower(keys).compile().output_shardings
        learner = jax.tree.map(
            lambda x, sharding: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding), shapes.learner, shardings
        )
        return data.restore(self._folder, type(shapes)(learner, shapes.curve, shapes.iterations))

    def close(self) -> None:
        if self._checkpointer is not None:
            self._checkpointer.close()
            self._checkpointer = None
