"""Writes metrics as lines of text, to a CSV file, TensorBoard or Weights & Biases.

Writers are called as ``writer(step, metrics)``. ``metrics`` maps names to numbers, to ``None`` where there is no value,
or to lists of them (the components of a vector reward), as returned by `jaxenv.rollout.to_host`; arrays are fetched
from the device. Writers are context managers and close what they open.
"""

import csv
import io
import os
import pathlib
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self, SupportsFloat, SupportsInt, TextIO

from jaxenv._util import files, source
from jaxenv._util.checks import check_bool, check_folder, check_names, check_path, described
from jaxenv.rollout.statistic import to_host

COLUMNS = ("episodes", "return_mean", "return_std", "length_mean", "reward_per_step")


class Writer:
    """Base class of writers. `close` or ``with`` closes them."""

    def close(self) -> None:
        """Closes files and runs that the writer has opened; nothing by default."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


class Table(Writer):
    """Aligned lines of text below a header.

    ``columns`` are the metrics to print, in this order; all if ``None``. ``file`` is an open file, by default stdout.

    >>> table = Table(["episodes", "return_mean"])
    >>> table(1000, {"episodes": 12, "return_mean": 21.52})
             step    episodes  return_mean
            1,000          12        21.52
    >>> table(2000, {"episodes": 0, "return_mean": None})
            2,000           0            -
    """

    def __init__(self, columns: Sequence[str] | None = COLUMNS, file: TextIO | None = None):
        if columns is not None:
            check_names("Table", "columns", columns)
        if not (file is None or hasattr(file, "write")):
            raise ValueError(f"Table: file must be an open file, got {file!r}")
        self._columns = None if columns is None else tuple(columns)
        self._file = file
        self._names: tuple[str, ...] = ()

    def __call__(self, step: SupportsInt, metrics: Mapping[str, Any]) -> None:
        """Prints one line. Raises a ``ValueError`` if a column is not among the metrics."""
        row = _flatten("Table", step, metrics, self._columns)
        file = sys.stdout if self._file is None else self._file
        widths = [13, *(max(10, len(name)) for name in row)]
        lines = [[f"{int(step):,}", *map(text_of, row.values())]]
        if tuple(row) != self._names:
            lines.insert(0, ["step", *row])
            self._names = tuple(row)
        for cells in lines:
            print("  ".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True)), file=file)
        file.flush()


class CSV(Writer):
    """A CSV file in an existing folder, with one line per call below a header; ``None`` is an empty cell.

    Lines are appended to an existing file with the same columns. If its last line is unfinished, because the run that
    wrote it was killed, that line is removed. A file with other columns is left untouched. From the first line on the
    file is locked until `close`. A ``ValueError`` refuses other names than before or than in the file, a metric named
    ``step``, and a file that another process or writer has.
    """

    def __init__(self, path: str | os.PathLike[str]):
        self.path = check_path("CSV", "path", path)
        if self.path.is_dir():
            raise ValueError(f"CSV: path must be a file, got the folder {str(path)!r}")
        if not self.path.parent.is_dir():
            raise ValueError(f"CSV: path must be in an existing folder, there is no {str(self.path.parent)!r}")
        self._file: TextIO | None = None
        self._names: list[str] = []

    def __call__(self, step: SupportsInt, metrics: Mapping[str, Any]) -> None:
        """Writes one line."""
        flat = _flatten("CSV", step, metrics)
        if "step" in flat:
            raise ValueError("CSV: no metric may be named 'step', the name of the first column")
        row = {"step": int(step), **flat}
        if self._file is None:
            self._file = self._open(row)
        self._check(row)
        self._file.write(_line([row[name] for name in self._names]))
        self._file.flush()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self, row: dict[str, Any]) -> TextIO:
        """Opens the file after checking that it is empty or has these columns; until then it is not modified."""
        file = self.path.open("a", newline="", encoding="utf-8")
        try:
            files.lock("CSV", self.path, file.fileno())
            complete = self._checked(row)
        except BaseException:
            file.close()
            raise
        file.write("" if complete else _line(list(row)))
        return file

    def _checked(self, row: dict[str, Any]) -> int:
        """Removes an unfinished line from the file, and returns the number of bytes that remain."""
        content = self.path.read_bytes()
        header = _line(list(row))
        complete = content.rfind(b"\n") + 1  # bytes of complete lines
        if header.encode().startswith(content):  # empty, or a run was killed while it wrote the header
            complete, self._names = 0, list(row)
        else:
            first = content.partition(b"\n")[0].decode(errors="replace").rstrip("\r")
            if not complete:
                raise ValueError(f"CSV: {self.path} must have these columns, it starts with {first[:80]!r}")
            self._names = next(csv.reader([first]), [])
            self._check(row)
        if complete < len(content):
            os.truncate(self.path, complete)
        return complete

    def _check(self, row: dict[str, Any]) -> None:
        new, missing = sorted(row.keys() - set(self._names)), sorted(set(self._names) - row.keys())
        if new or missing:
            rule = f"the columns of {self.path} must stay the same (another run needs another path)"
            raise ValueError(f"CSV: {rule}, new: {new}, missing: {missing}")


class TensorBoard(Writer):
    """Event files for TensorBoard, one curve per metric. All points of a call are on disk when it returns.

    Args:
        path: the folder; it is created if it does not exist.
        against: names of counts among the metrics, such as ``"episodes"``, or ``"calls"``, the number of calls. Every
            metric is also drawn over the sum of each since the first call, as ``return_mean_vs_episodes``.
        resume: leave out points that the folder holds already: a run that continues from its last checkpoint repeats
            what it wrote after it.
    """

    def __init__(self, path: str | os.PathLike[str], against: Sequence[str] = (), resume: bool = False):
        path = check_folder("TensorBoard", "path", path)
        check_names("TensorBoard", "against", against)
        check_bool("TensorBoard", "resume", resume)
        try:
            from tensorboardX import event_file_writer, summary
            from tensorboardX.proto import event_pb2
        except ImportError as missing:
            raise source.missing("TensorBoard", missing, "tensorboard") from missing
        self._event, self._scalar = event_pb2.Event, summary.scalar
        self._written = set(_points(path, event_pb2.Event)) if resume else set()
        path.mkdir(parents=True, exist_ok=True)
        # Files of one second would have one name. SummaryWriter flushes without the points in its queue.
        self._file = event_file_writer.EventsWriter(str(path / "events"), f".{os.getpid()}.{time.time_ns()}")
        self._counts = dict.fromkeys(against, 0)

    def __call__(self, step: SupportsInt, metrics: Mapping[str, Any]) -> None:
        """Adds a point to the curves of every metric that has a value.

        Raises a ``ValueError`` if a name of ``against`` does not name a count among the metrics.
        """
        flat, at = _flatten("TensorBoard", step, metrics), int(step)
        counts = {"calls": 1, **flat}
        for name in self._counts:
            if not isinstance(counts.get(name), int):
                raise ValueError(f"TensorBoard: against must name counts, {name!r} is {counts.get(name)!r}")
            self._counts[name] += counts[name]
        for name, value in flat.items():
            if value is not None:
                self._add(name, value, at)
                for count, total in self._counts.items():
                    if count != name:
                        self._add(f"{name}_vs_{count}", value, total)
        self._file.flush()

    def _add(self, name: str, value: float, step: int) -> None:
        summary = self._scalar(name, value)
        if (summary.value[0].tag, step) not in self._written:
            self._file.write_event(self._event(summary=summary, step=step, wall_time=time.time()))

    def close(self) -> None:
        self._file.close()


def _points(folder: pathlib.Path, event: Any) -> Iterator[tuple[str, int]]:
    """Yields tag and step of the points in event files: records of a length, 4 bytes, an event and 4 more bytes."""
    for path in folder.glob("events.out.tfevents.*"):
        content, start = path.read_bytes(), 12
        while start <= len(content):
            end = start + int.from_bytes(content[start - 12 : start - 4], "little")
            if end > len(content):  # a run was killed while it wrote the event
                break
            found = event.FromString(content[start:end])
            yield from ((value.tag, found.step) for value in found.summary.value)
            start = end + 16


class WandB(Writer):
    """A run of Weights & Biases, one curve per metric.

    ``options`` are further arguments of ``wandb.init``, such as ``name`` and ``config``.
    """

    def __init__(self, project: str, **options: Any):
        try:
            import wandb
        except ImportError as missing:
            raise ImportError("WandB needs wandb, which is not installed: pip install wandb") from missing
        self._run = wandb.init(project=project, **options)

    def __call__(self, step: SupportsInt, metrics: Mapping[str, Any]) -> None:
        """Logs every metric that has a value. Steps must not decrease, as wandb requires."""
        flat = _flatten("WandB", step, metrics)
        self._run.log({name: value for name, value in flat.items() if value is not None}, step=int(step))

    def close(self) -> None:
        self._run.finish()


def _flatten(
    writer: str, step: SupportsInt, metrics: Mapping[str, Any], columns: Sequence[str] | None = None
) -> dict[str, Any]:
    """Checks the arguments of a call and fetches its metrics; elements of lists are named ``name.0``, ``name.1``."""
    if (
        isinstance(step, bool | str)
        or not isinstance(step, SupportsInt)
        or (isinstance(step, SupportsFloat) and float(step) % 1 != 0)
    ):  # also NaN
        raise ValueError(f"{writer}: step must be an integer, got {described(step)}")
    if not isinstance(metrics, Mapping):
        raise ValueError(f"{writer}: metrics must be a dict of names and numbers, got {described(metrics)}")
    names = tuple(metrics) if columns is None else columns
    for name in names:
        if name not in metrics:
            raise ValueError(f"{writer}: no metric {name!r}, the metrics are {', '.join(metrics)}")
    flat: dict[str, Any] = {}
    for name, value in to_host({name: metrics[name] for name in names}).items():
        flat |= _elements(name, value)
    return flat


def _elements(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, list):
        return {name: value}
    return {n: x for i, part in enumerate(value) for n, x in _elements(f"{name}.{i}", part).items()}


def _line(cells: Sequence[Any]) -> str:
    line = io.StringIO()
    csv.writer(line).writerow(cells)
    return line.getvalue()


def text_of(value: Any) -> str:
    """Returns a number as a cell of a table; ``-`` for ``None``."""
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:.5g}"
