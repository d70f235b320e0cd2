"""Where figures go: lines of text, a CSV file, TensorBoard. Each is called as ``writer(step, figures)``.

``figures`` maps names to numbers, ``None`` where there is none, and lists of them (the components of a vector reward),
as `jaxenv.rollout.to_host` gives them; arrays are fetched. Sinks are context managers, which close what they opened.
"""

import csv
import io
import os
import pathlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from jaxenv.rollout.metrics import to_host

COLUMNS = ("episodes", "return_mean", "return_std", "length_mean", "reward_per_step")


class Writer:
    """What writers have in common: they can be closed, by hand or by ``with``."""

    def close(self) -> None:
        """Closes what was opened; nothing by default."""

    def __enter__(self) -> "Writer":
        return self

    def __exit__(self, *_) -> None:
        self.close()


class Table(Writer):
    """Aligned lines of text, with the names above the first.

    Args:
        columns: which figures, in which order; all where it is ``None``.
        stream: stdout by default.

    >>> table = Table(["episodes", "return_mean"])
    >>> table(1000, {"episodes": 12, "return_mean": 21.52})
             step    episodes  return_mean
            1,000          12        21.52
    >>> table(2000, {"episodes": 0, "return_mean": None})
            2,000           0            -
    """

    def __init__(self, columns: Sequence[str] | None = COLUMNS, stream: TextIO | None = None):
        self._columns = None if columns is None else tuple(columns)
        self._stream = stream
        self._names: tuple[str, ...] = ()

    def __call__(self, step: int, figures: Mapping[str, Any]) -> None:
        """Writes one line; a figure that is missing is an error."""
        found = _flat(figures, self._columns, "Table")
        stream = sys.stdout if self._stream is None else self._stream
        widths = [13, *(max(10, len(name)) for name in found)]
        lines = [[f"{step:,}", *map(_text, found.values())]]
        if tuple(found) != self._names:
            lines.insert(0, ["step", *found])
            self._names = tuple(found)
        for cells in lines:
            print("  ".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True)), file=stream)
        stream.flush()


class CSV(Writer):
    """A file with one line per call, below a line with the names; a number that is not there is an empty cell.

    A file that is there already goes on if its names are the same: then a last line without an end, which a killed run
    left, is dropped. Any other file stays as it is.

    Args:
        path: of the file; its folder must be there.

    Raises:
        ValueError: when it is called with other names than before or than in the file, or a figure is named ``step``.
    """

    def __init__(self, path: str | os.PathLike):
        self.path = pathlib.Path(path)
        self._file: TextIO | None = None
        self._names: list[str] = []

    def __call__(self, step: int, figures: Mapping[str, Any]) -> None:
        """Writes one line."""
        found = _flat(figures)
        if "step" in found:
            raise ValueError("CSV: no figure may be named 'step', the first column's name")
        row = {"step": step, **found}
        if self._file is None:
            self._file = self._opened(row)
        self._check(row)
        self._file.write(_line([row[name] for name in self._names]))
        self._file.flush()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _opened(self, row: dict[str, Any]) -> TextIO:
        """The file, once it is known to be empty or of these columns; until then nothing of it is touched."""
        content = self.path.read_bytes() if self.path.exists() else b""
        names = _line(list(row))
        whole = content.rfind(b"\n") + 1
        if names.encode().startswith(content):  # empty, or a run was killed while it wrote the names
            whole, self._names = 0, list(row)
        else:
            first = content.partition(b"\n")[0].decode(errors="replace").rstrip("\r")
            if not whole:
                raise ValueError(f"CSV: {self.path} is no file of these columns, it holds {first[:80]!r}")
            self._names = next(csv.reader([first]), [])
            self._check(row)
        if whole < len(content):  # a line that a killed run did not finish
            os.truncate(self.path, whole)
        file = self.path.open("a", newline="", encoding="utf-8")
        file.write("" if whole else names)
        return file

    def _check(self, row: dict[str, Any]) -> None:
        new, gone = sorted(row.keys() - set(self._names)), sorted(set(self._names) - row.keys())
        if new or gone:
            raise ValueError(f"CSV: the columns of {self.path} must stay the same, new are {new}, missing are {gone}")


class TensorBoard(Writer):
    """Event files for TensorBoard, one curve per figure.

    Args:
        path: of the folder, made where it is not there.

    Raises:
        ImportError: if tensorboardX is not installed.
    """

    def __init__(self, path: str | os.PathLike):
        try:
            from tensorboardX import SummaryWriter
        except ImportError as missing:
            raise ImportError("TensorBoard needs tensorboardX: pip install 'jaxenv[tensorboard]'") from missing
        self._writer = SummaryWriter(str(path))

    def __call__(self, step: int, figures: Mapping[str, Any]) -> None:
        """Adds a point to the curve of every number that is there."""
        for name, value in _flat(figures).items():
            if value is not None:
                self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


def _flat(figures: Mapping[str, Any], columns: Sequence[str] | None = None, writer: str = "") -> dict[str, Any]:
    """Figures on the host, the elements of lists as ``name.0``, ``name.1``."""
    names = tuple(figures) if columns is None else columns
    for name in names:
        if name not in figures:
            raise ValueError(f"{writer}: no figure {name!r}, the figures are {', '.join(figures)}")
    found: dict[str, Any] = {}
    for name, value in to_host({name: figures[name] for name in names}).items():
        found |= _elements(name, value)
    return found


def _elements(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, list):
        return {name: value}
    return {n: x for i, part in enumerate(value) for n, x in _elements(f"{name}.{i}", part).items()}


def _line(cells: Sequence[Any]) -> str:
    line = io.StringIO()
    csv.writer(line).writerow(cells)
    return line.getvalue()


def _text(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:.5g}"
