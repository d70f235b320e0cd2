"""Draws learning curves with intervals over seeds."""

import csv
import errno
import math
import os
import pathlib
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import numpy as np

from jaxenv._util.checks import check_bool, check_choice, check_integer, check_real, check_text, is_real
from jaxenv._util.library import import_library
from jaxenv._util.names import did_you_mean
from jaxenv.rollout.plot import _style

Run: TypeAlias = str | os.PathLike[str] | tuple[Any, Any]
Average: TypeAlias = Literal["mean", "iqm"]


def curves(
    runs: Run | Mapping[str, Run],
    *,
    column: str = "eval_return",
    average: Average = "mean",
    level: float = 0.95,
    num_resamples: int = 2000,
    threshold: float | None = None,
    seeds: bool | None = None,
    title: str = "",
    axis: Any = None,
    figure: Any = None,
) -> Any:
    """Draws learning curves: an average over seeds, and its bootstrap interval as a band.

    The interval is the percentile interval of averages of seeds that are resampled with replacement (Efron 1979,
    doi:10.1214/aos/1176344552), the same in every call. One seed has no interval, and fewer than about five seeds give
    one that is too narrow. Where a seed lacks a value, the curve has a gap.

    Args:
        runs: one run, or several by the name that the legend shows. A run is a folder of ``jaxenv train``, a CSV file
            with the columns ``steps``, ``seed`` (may be left out if there is one) and ``column``, or a pair of arrays:
            steps ``[N]`` and returns ``[N, num_seeds]`` or ``[N]``.
        column: the column to read from files.
        average: ``"mean"``, or ``"iqm"`` for the mean of the middle half of the seeds, which is robust to outliers
            (Agarwal et al. 2021, arXiv:2108.13264); an interquartile mean needs at least 4 seeds.
        level: the fraction of the resampled averages inside the band.
        num_resamples: the number of times that the seeds are resampled.
        threshold: a value to mark by a line.
        seeds: whether to draw a thin line per seed; by default if there is one curve.
        title: the title of the plot.
        axis: axes of matplotlib to draw on; by default a new figure.
        figure: a figure of matplotlib to fill.

    >>> steps, returns = np.arange(3) * 1000, np.array([[20, 25], [90, 110], [200, 190]])
    >>> figure = curves({"PPO": (steps, returns)}, threshold=195)
    >>> [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    ['PPO, 2 seeds', 'solved at 195']
    """
    check_choice("plot.curves", "average", average, tuple(_AVERAGES))
    if not (is_real(level) and 0 < level < 1):
        raise ValueError(f"plot.curves: level must be in (0, 1), got {level!r}")
    if threshold is not None:
        check_real("plot.curves", "threshold", threshold, -math.inf)
    check_integer("plot.curves", "num_resamples", num_resamples, 1)
    check_text("plot.curves", "column", column)
    check_text("plot.curves", "title", title)
    if seeds is not None:
        check_bool("plot.curves", "seeds", seeds)
    named = dict(runs) if isinstance(runs, Mapping) else {"": runs}
    if not named:
        raise ValueError("plot.curves: runs must hold at least one run, got none")
    read = {name: _read(run, column) for name, run in named.items()}
    figure, (axis,) = _style.axes_of("plot.curves", axis, figure)
    for number, (name, (steps, returns)) in enumerate(read.items()):
        count = returns.shape[1]
        if average == "iqm" and count < 4:
            raise ValueError(f"plot.curves: average 'iqm' needs at least 4 seeds, got {count}")
        colour = _style.colour(number)
        centre, low, high = interval(returns, average, level, num_resamples)
        if count > 1:
            axis.fill_between(steps, low, high, color=colour, alpha=0.2, linewidth=0)
            if len(read) == 1 if seeds is None else seeds:
                axis.plot(steps, returns, color=colour, alpha=0.3, linewidth=0.8)
        seeds_of = f"{count} seed{'s' * (count > 1)}"
        alone = f"{_AVERAGES[average]} of {seeds_of}, {100 * level:g}% interval" if count > 1 else seeds_of
        label = _plain(f"{name}, {seeds_of}") if name else alone
        marker = "o" if len(steps) <= 30 else ""
        axis.plot(steps, centre, color=colour, linewidth=2, marker=marker, markersize=4, label=label)
    if threshold is not None:
        axis.axhline(threshold, color=_style.GREY, linestyle="--", linewidth=1.2, label=f"solved at {threshold:g}")
    axis.set(xlabel="environment steps", ylabel=_LABELS.get(column, column.replace("_", " ")), title=title)
    axis.set_xlim(left=0)
    axis.xaxis.set_major_formatter(import_library("matplotlib.ticker", _style.INSTALL).EngFormatter(sep=""))
    _style.legend(axis)
    return figure


def _plain(label: str) -> str:
    """Escapes a label: Matplotlib hides a leading underscore and reads dollars as formulas."""
    return "\u200b" * label.startswith("_") + label.replace("$", r"\$")


_LABELS = {"eval_return": "mean return of evaluations", "train_return": "mean return"}
_AVERAGES = {"mean": "mean", "iqm": "interquartile mean"}


def interval(
    returns: np.ndarray, average: Average, level: float, num_resamples: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns averages of ``returns [N, num_seeds]`` over the seeds, and their bootstrap interval: three ``[N]``."""
    count = returns.shape[1]
    index = np.random.default_rng(0).integers(count, size=(num_resamples, count))
    centre, low, high = (np.full(len(returns), np.nan) for _ in range(3))
    for n, values in enumerate(returns):  # all at once may not fit into memory
        centre[n] = _averaged(values, average)
        low[n], high[n] = np.quantile(_averaged(values[index], average), ((1 - level) / 2, (1 + level) / 2))
    return centre, low, high


def _averaged(values: np.ndarray, average: Average) -> np.ndarray:
    """Returns the average over the last axis; NaN if there is a NaN in it."""
    if average == "iqm":
        cut = values.shape[-1] // 4
        missing = np.isnan(values).any(axis=-1, keepdims=True)
        values = np.sort(np.where(missing, np.nan, values), axis=-1)[..., cut : values.shape[-1] - cut]
    return values.mean(axis=-1)


def _read(run: Run, column: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns steps ``[N]`` and returns ``[N, num_seeds]``, float64."""
    if isinstance(run, str | os.PathLike):
        return _read_csv(pathlib.Path(run), column)
    rule = "a run must be a path or a pair of steps and returns"
    if not (isinstance(run, tuple | list) and len(run) == 2):
        raise ValueError(f"plot.curves: {rule}, got {type(run).__name__}")
    if any(isinstance(x, str | os.PathLike) for x in run):
        raise ValueError(f"plot.curves: {rule}, got {run!r}: pass several paths as a dict of them by name")
    steps, returns = (np.asarray(x, np.float64) for x in run)
    returns = returns[:, None] if returns.ndim == 1 else returns
    if steps.ndim != 1 or returns.ndim != 2 or len(returns) != len(steps) or not returns.size:
        rule = "steps must be [N] and returns [N, num_seeds]"
        raise ValueError(f"plot.curves: {rule}, got shapes {np.shape(run[0])} and {np.shape(run[1])}")
    return steps, returns


def _read_csv(path: pathlib.Path, column: str) -> tuple[np.ndarray, np.ndarray]:
    path = path / "curve.csv" if path.is_dir() else path
    if not path.is_file():
        raise FileNotFoundError(
            errno.ENOENT, f"plot.curves: runs must be paths of runs or CSV files, there is no {path}"
        )
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    if not rows:
        raise ValueError(f"plot.curves: {path} has no rows")
    for name in ("steps", column):
        if name not in rows[0]:
            columns = ", ".join(map(str, rows[0]))
            hint = did_you_mean(name, map(str, rows[0]), otherwise=f"the columns are {columns}")
            raise ValueError(f"plot.curves: {path} has no column {name!r}, {hint}")
    values = {}
    for line, row in enumerate(rows, start=2):
        at = _number(row["steps"], f"{path}, line {line}: steps")
        if np.isnan(at):
            raise ValueError(f"plot.curves: {path}, line {line}: steps must be a number, got none")
        values[at, row.get("seed", "0")] = _number(row[column], f"{path}, line {line}: {column}")
    steps, seeds = sorted({step for step, _ in values}), list(dict.fromkeys(seed for _, seed in values))
    return np.array(steps), np.array([[values.get((step, seed), np.nan) for seed in seeds] for step in steps])


def _number(entry: str | None, where: str) -> float:
    """Returns the number of a cell, NaN if it is empty."""
    try:
        return float(entry) if entry else np.nan
    except ValueError:
        raise ValueError(f"plot.curves: {where} must be a number, got {entry!r}") from None
