"""Draws the metrics of a rollout, and the episodes of an evaluation."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from jaxenv._util.checks import check_text, is_concrete
from jaxenv.rollout import Evaluation, to_host
from jaxenv.rollout.plot import _style

_COUNTS = ("terminated", "truncated", "abnormal", "unfinished")
_COLOURS = {"terminated": _style.TERMINATED, "truncated": _style.TRUNCATED}
_OF_EPISODES = (
    *("steps", "episodes", "reward_per_step", "discounted_return_start", "discounted_return"),
    *("return_standard_error", "return_low", "return_high"),
)


def metrics(metrics: Mapping[str, Any] | Evaluation, *, title: str = "", axis: Any = None, figure: Any = None) -> Any:
    """Draws the metrics of a rollout, or the episodes of an evaluation.

    Metrics by name have a panel of bars for how episodes ended; a panel each for returns and lengths, with the mean as
    a dot, one standard deviation as a thick line and the extremes as a thin one, for all episodes and by ending; and a
    panel of bars for the entries of ``env_info``. Metrics without data are left out. The episodes of an
    `jaxenv.rollout.Evaluation` make histograms of returns and lengths, coloured by how episodes ended.

    Args:
        metrics: the result of `jaxenv.rollout.Metrics` or ``Evaluation.summary``, a row of `ChunkedRollout`, or an
            `jaxenv.rollout.Evaluation` ``[N]``; rewards must be scalar.
        title: the title of the plot.
        axis: axes of matplotlib, one per panel; by default a new figure.
        figure: a figure of matplotlib to fill.

    Returns:
        The ``matplotlib.figure.Figure``.

    Raises:
        ValueError: if there are no metrics of episodes, for metrics of vector rewards, traced metrics, or the wrong
            number of axes.

    >>> figure = metrics({"terminated": 7, "truncated": 3, "return_mean": 5.2, "return_min": 1.0, "return_max": 9.0})
    >>> [axis.get_title() for axis in figure.axes]
    ['10 episodes', 'return']
    """
    check_text("plot.metrics", "title", title)
    if isinstance(metrics, Evaluation):
        panels = _evaluation_panels(metrics)
    elif isinstance(metrics, Mapping):
        panels = _metrics_panels(metrics)
    else:
        raise ValueError(f"plot.metrics: metrics must be a dict or an Evaluation, got {type(metrics).__name__}")
    figure, axes = _style.axes_of("plot.metrics", axis, figure, columns=len(panels), size=(1 + 3.2 * len(panels), 2.6))
    for panel, (name, draw) in zip(axes, panels, strict=True):
        draw(panel)
        panel.set_title(name, fontsize=10)
    if title:
        figure.suptitle(title, color=_style.ink(axes[0]))
    return figure


def _metrics_panels(metrics: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Returns the titles of panels, and the functions that draw them."""
    if not all(map(is_concrete, jax.tree.leaves(dict(metrics)))):
        raise ValueError("plot.metrics: metrics must be numbers, got traced ones: plot outside of jit")
    values = {name: x for name, x in to_host(dict(metrics)).items() if x is not None}
    if any(isinstance(values.get(f"{what}_mean"), list) for what in ("return", "length")):
        raise ValueError("plot.metrics: metrics must be of scalar rewards, got return_mean of a vector")
    panels: list[tuple[str, Any]] = []
    counts = {name: values[name] for name in _COUNTS if values.get(name) or (name in values and name in _COLOURS)}
    if counts:
        total = sum(counts.values())
        panels.append((f"{total} episode{'s' * (total != 1)}", lambda axis: _bars(axis, counts, _COLOURS)))
    used = {*_COUNTS, *_OF_EPISODES}
    for what in ("return", "length"):
        names = [f"{what}_{part}" for part in ("mean", "std", "min", "max", "mean_terminated", "mean_truncated")]
        used.update(names)
        if f"{what}_mean" in values:
            found = {name.removeprefix(f"{what}_"): values[name] for name in names if name in values}
            panels.append((what, lambda axis, found=found: _spread(axis, found)))
    if not panels:
        raise ValueError(f"plot.metrics: metrics must hold some of episodes, such as return_mean, got {list(metrics)}")
    others = {name: x for name, x in values.items() if name not in used and isinstance(x, int | float)}
    if others:
        panels.append(("mean of episodes", lambda axis: _bars(axis, others, {})))
    return panels


def _bars(axis: Any, values: Mapping[str, float], colours: Mapping[str, Any]) -> None:
    names = list(values)[::-1]
    bars = axis.barh(
        names, [values[name] for name in names], height=0.6, color=[colours.get(n, _style.colour(0)) for n in names]
    )
    axis.bar_label(bars, [f"{values[name]:.4g}" for name in names], padding=4, color=_style.ink(axis), fontsize=9)
    axis.margins(x=0.2)
    _horizontal(axis)


def _spread(axis: Any, values: Mapping[str, float]) -> None:
    """Draws mean, standard deviation and extremes of all episodes, and the means by ending."""
    rows = [("all", values["mean"], _style.colour(0))]
    rows += [(name, values[f"mean_{name}"], colour) for name, colour in _COLOURS.items() if f"mean_{name}" in values]
    if "min" in values and "max" in values:
        axis.plot(
            [values["min"], values["max"]], [0, 0], color=_style.colour(0), linewidth=1.2, marker="|", markersize=8
        )
    if "std" in values:
        axis.plot(
            [values["mean"] - values["std"], values["mean"] + values["std"]],
            [0, 0],
            color=_style.colour(0),
            linewidth=6,
            alpha=0.4,
        )
    for y, (_, mean, colour) in enumerate(rows):
        axis.plot([mean], [y], color=colour, marker="o", markersize=7)
        axis.annotate(
            f"{mean:.4g}",
            (mean, y),
            (0, 8),
            textcoords="offset points",
            ha="center",
            color=_style.ink(axis),
            fontsize=9,
        )
    axis.set_yticks(range(len(rows)), [name for name, *_ in rows])
    axis.set_ylim(len(rows) - 0.5, -0.7)
    axis.margins(x=0.1)
    _horizontal(axis)


def _horizontal(axis: Any) -> None:
    axis.grid(visible=False, axis="y")
    axis.spines["left"].set_visible(False)
    axis.tick_params(axis="y", length=0)


def _evaluation_panels(evaluation: Evaluation) -> list[tuple[str, Any]]:
    if not all(map(is_concrete, jax.tree.leaves(evaluation))):
        raise ValueError("plot.metrics: metrics must be numbers, got a traced Evaluation: plot outside of jit")
    returns, lengths, terminated, finished, abnormal = map(np.asarray, vars(evaluation).values())
    if returns.ndim != 1:
        raise ValueError(f"plot.metrics: the returns of an Evaluation must be [N], got shape {returns.shape}")
    valid = finished & ~abnormal
    if not valid.any():
        raise ValueError(f"plot.metrics: an Evaluation must hold a finished episode, got none of {len(valid)}")
    kinds = {"terminated": valid & terminated, "truncated": valid & ~terminated}
    kinds = {name: mask for name, mask in kinds.items() if mask.any()}

    def histogram(axis: Any, x: np.ndarray, what: str) -> None:
        edges = _edges(x[valid])
        labels = [f"{mask.sum()} {name}" for name, mask in kinds.items()]
        axis.hist(
            [x[mask] for mask in kinds.values()], edges, stacked=True, color=[_COLOURS[n] for n in kinds], label=labels
        )
        axis.set(xlabel=what, ylabel="episodes")
        mean = x[valid].mean()
        axis.axvline(mean, color=_style.ink(axis), linestyle="--", linewidth=1.2, label=f"mean {mean:.4g}")
        _style.legend(axis, fontsize=9)

    return [
        ("returns", lambda axis: histogram(axis, returns, "return")),
        ("lengths", lambda axis: histogram(axis, lengths, "length in steps")),
    ]


def _edges(x: np.ndarray) -> np.ndarray:
    """Returns the edges of at most 30 bins; bins of whole numbers hold equally many of them."""
    if np.any(x != np.round(x)) or x.max() - x.min() > 1e9:
        return np.histogram_bin_edges(x, bins=int(np.clip(2 * np.sqrt(len(x)), 5, 30)))
    width = np.ceil((x.max() - x.min() + 1) / 30)
    return np.arange(x.min() - 0.5, x.max() + width, width)
