"""The folder of a run: its checkpoints in either format, its config, and the lock of the run that writes to it."""

import contextlib
import dataclasses
import json
import os
import pathlib
from collections.abc import Callable
from typing import Any

import jax

from jaxenv import data
from jaxenv._util.files import LOCK, FolderLock, check_unused, is_held_elsewhere, replacing
from jaxenv.data import _processes, checkpointer

FILE, FOLDER = "checkpoint.npz", "checkpoints"
CONFIG, CURVE, PICTURE = "config.json", "curve.csv", "curve.png"
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


def forget(folder: pathlib.Path) -> None:
    """Removes the config of a run that ended before its first evaluation, and its folder, if nothing else is in it.

    Folders that another process writes to are left alone.
    """
    if is_held_elsewhere(folder):
        return
    for within, own in ((folder / FOLDER, set()), (folder, {CONFIG})):
        with contextlib.suppress(OSError):  # there is no folder, or it cannot be removed, like the working directory
            names = {path.name for path in within.iterdir()}
            if names - {LOCK} == own:
                for name in names:
                    (within / name).unlink()
                within.rmdir()


@dataclasses.dataclass
class RunFolder:
    """The folder of a run, locked inside ``with``; it writes nothing before. All processes call its methods together.

    In the format ``"npz"`` the first process gathers all arrays and writes them before the run continues. In the format
    ``"orbax"`` every process writes the arrays of its devices while the run continues.
    """

    folder: pathlib.Path
    settings: dict[str, Any]
    write: Callable[[Any], None]  # writes the curve and the picture of a run
    checkpoint_every: int
    checkpoint_format: str | None  # by default the folder's, "npz" for a new one
    resume: bool
    can_resume: Callable[[], bool]
    _sharded: bool = False
    _checkpointer: data.Checkpointer | None = None
    _lock: FolderLock | None = None  # in the first process

    def check(self) -> None:
        """Raises a ``ValueError`` unless the run may start in the folder."""
        _processes.on_first_process(lambda: check_unused("train", self.folder))
        self._check_run()

    def _check_run(self) -> None:
        """Raises a ``ValueError`` if the folder cannot be made, or holds a run that this one does not resume."""
        folder, settings, asked = self.folder, self.settings, self.checkpoint_format
        held = "npz" if (folder / FILE).exists() else "orbax" if (folder / FOLDER).exists() else None
        if None not in (asked, held) and asked != held:
            raise ValueError(f"train: {folder} holds checkpoints of the format {held!r}, not {asked!r}")
        self._sharded = (asked or held) == "orbax"
        nearest = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        if not os.access(nearest, os.W_OK):
            got = f"got {str(folder)!r}: {nearest} cannot be written to"
            raise ValueError(f"train: folder must be one that can be made, {got}")
        names = (FILE, FOLDER, CONFIG, CURVE, PICTURE)
        present = [name for name in names if (folder / name).exists()]
        if not present:
            return
        if not self.resume:
            raise ValueError(f"train: {folder} holds a run ({present[0]}): resume it, or choose another folder")
        try:
            stored = dict(json.loads((folder / CONFIG).read_text()))
        except (OSError, ValueError, TypeError):
            raise ValueError(f"train: {folder / CONFIG} is not the config of a run, none can be resumed") from None
        # The checkpoint holds the config too, and may have been copied from another run.
        checkpoint = newest(folder)
        checkpointed = stored if checkpoint is None else data.checkpoint_info(checkpoint).config
        for source in (stored, checkpointed):
            for name in dict.fromkeys([*settings, *source]):
                if name not in source or name not in settings:
                    difference = f"{'with' if name in source else 'without'} the setting {name!r}"
                    origin = f"another version of jaxenv, {difference}: it cannot be resumed"
                    raise ValueError(f"train: {folder} holds a run of {origin}")
                if settings[name] != source[name]:
                    found = f"{name} = {source[name]!r}, not {settings[name]!r}"
                    raise ValueError(f"train: {folder} holds a run with {found}")
        if checkpoint is not None and not self.can_resume():
            where = "its lanes live outside JAX, so a checkpoint does not hold them"
            raise ValueError(f"train: a run on {settings['env_id']} cannot be resumed: {where}")

    def __enter__(self) -> None:
        """Claims the folder for this run."""
        _processes.on_first_process(self._claim)
        try:
            self._check_run()  # another run may have written since the first check
            _processes.on_first_process(lambda: None)  # no process makes files before all have checked
            _processes.on_first_process(self._write_config)
            if self._sharded:
                self._checkpointer = data.Checkpointer(self.folder / FOLDER)
        except BaseException:
            self._release()
            raise

    def __exit__(self, *_: Any) -> None:
        try:
            self._finish()
        finally:
            self._release()

    def _claim(self) -> None:
        self._lock = FolderLock("train", self.folder)

    def _finish(self) -> None:
        """Waits until the last checkpoint is complete."""
        if self._checkpointer is not None:
            self._checkpointer.close()
            self._checkpointer = None

    def _release(self) -> None:
        """Releases the folder in the first process. It waits for no other: a process that failed is here alone."""
        if self._lock is not None:
            forget(self.folder)
            self._lock.release()
            self._lock = None

    def _write_config(self) -> None:
        if not (self.folder / CONFIG).exists():
            with replacing(self.folder / CONFIG) as file:
                file.write_text(json.dumps(self.settings, indent=1) + "\n")

    def restore(self, shapes: Any, start: Any, keys: jax.Array) -> Any:
        """Restores the last saved `Run`, given its shapes; its learner is sharded like the one of ``start(keys)``."""
        if not self._sharded:
            run = data.restore(self.folder / FILE, shapes)
            return dataclasses.replace(run, learner=_processes.spread(run.learner))
        shardings = start.lower(keys).compile().output_shardings
        learner = jax.tree.map(
            lambda x, sharding: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding), shapes.learner, shardings
        )
        return data.restore(self.folder / FOLDER, dataclasses.replace(shapes, learner=learner))

    def save(self, run: Any, num_evaluations: int) -> None:
        """Writes curve, picture and checkpoint; raises an ``OSError`` that describes the folder's contents."""
        number = int(run.iterations)
        try:
            _processes.on_first_process(lambda: self.write(run))
            # The checkpoint comes last: it must not claim an iteration whose other files are missing.
            if number % self.checkpoint_every == 0 or number == num_evaluations:
                if self._checkpointer is not None:
                    self._checkpointer.save(number, run, config=self.settings)
                else:
                    whole = _processes.gathered(run)
                    _processes.on_first_process(lambda: data.save(self.folder / FILE, whole, config=self.settings))
            if number == num_evaluations:
                self._finish()
        except OSError as fault:
            kept = f"the last checkpoint in {self.folder} is unchanged: {fault.__cause__ or fault}"
            what = f"train: evaluation {number} of {num_evaluations} cannot be saved, {kept}"
            raise OSError(fault.errno, what) from fault
