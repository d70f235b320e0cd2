"""Tables of results: columns of rows, aligned or in Markdown, means of ratios, notes, and lines of progress."""

import statistics
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import Any


def millions(per_second: float) -> str:
    """Formats a rate in millions, with three digits."""
    return f"{per_second / 1e6:.3g}"


def means(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns a row with the geometric means of the ratios for each number of lanes."""
    found = []
    for lanes in sorted({row["num_envs"] for row in rows}):
        ratios: dict[str, list[float]] = {}
        for row in rows:
            for name, ratio in row["ratios"].items() if row["num_envs"] == lanes else ():
                ratios.setdefault(name, []).append(ratio)
        mean = {name: statistics.geometric_mean(values) for name, values in ratios.items()}
        counts = {name: len(values) for name, values in ratios.items()}
        found.append({"id": "geometric mean", "num_envs": lanes, "contestants": {}, "ratios": mean, "counts": counts})
    return found


def notes(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Returns the notes of the rows as lines, each note once. The ids that a peer lacks share a line."""
    lacking: dict[str, list[str]] = {}
    others = []
    for note in dict.fromkeys(note for row in rows for note in row["notes"]):
        peer, found, id = note.partition(" has no ")
        if found and " " not in id:
            lacking.setdefault(peer, []).append(id)
        else:
            others.append(note)
    shared = [f"{peer} has no {', '.join(ids)}" for peer, ids in lacking.items()]
    return [textwrap.fill(f"note: {note}", 110, subsequent_indent="  ") for note in others + shared]


def columns(rows: Sequence[dict[str, Any]], *columns: tuple[str, str | Callable[[Any], Any]]) -> str:
    """Formats rows as an aligned table.

    A column is a title and what stands below it: the name of an entry or a function of the row. Where that is missing
    there is a dash.
    """

    def cell(row: dict[str, Any], of: Any) -> str:
        try:
            return str(of(row) if callable(of) else row[of])
        except (LookupError, StopIteration):
            return "-"

    return table([title for title, _ in columns], [[cell(row, of) for _, of in columns] for row in rows])


def side(name: str, entry: str = "steps_per_second", text: Callable[[Any], str] = millions) -> Callable[[Any], str]:
    """Returns the column of an entry of one contestant."""
    return lambda row: text(row["contestants"][name][entry])


def ratio(name: str, form: str = ".1f") -> Callable[[Any], str]:
    """Returns the column of one ratio, as a multiple or, with the form ``".0%"``, in percent."""
    return lambda row: f"{row['ratios'][name]:{form}}{'' if '%' in form else 'x'}"


def markdown(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    """Formats the lines of a table of a page."""
    lines = [f"| {' | '.join(map(str, row))} |" for row in [header, *rows]]
    return [lines[0], f"|{'---|' * len(header)}", *lines[1:]]


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Formats aligned columns: the first to the left, the others to the right."""
    widths = [max(len(line[i]) for line in [header, *rows]) for i in range(len(header))]

    def aligned(line: Sequence[str]) -> str:
        cells = [line[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(line[1:], widths[1:], strict=True))]
        return "  ".join(cells).rstrip()

    return "\n".join(aligned(line) for line in [header, *rows])


def progress(row: dict[str, Any]) -> str:
    """Formats what a row is of, and the rates of its sides, in one line."""
    sides = row.get("contestants", {})
    for what in ("steps_per_second", "rows_per_second", "frames_per_second"):
        if rates := [f"{name} {millions(side[what])}" for name, side in sides.items() if what in side]:
            return f"{_settings(row)}: million {what.replace('_', ' ')}: {'; '.join(rates)}"
    return _settings(row)


def _settings(row: dict[str, Any]) -> str:
    values = {k: f"{v:.3g}" if type(v) is float else v for k, v in row.items()}
    return "  ".join(f"{k} {v}" for k, v in values.items() if type(v) in (str, int))
