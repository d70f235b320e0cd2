"""Draws the episodes of an evaluation."""

from typing import Any

import jax
import numpy as np

from jaxenv._util.checks import check_text, is_concrete
from jaxenv.rollout import Evaluation
from jaxenv.rollout.plot import _style


def evaluation(evaluation: Evaluation, *, title: str = "", axis: Any = None, figure: Any = None) -> Any:
    """Draws histograms of the returns and lengths of finished episodes, coloured by how the episodes ended.

    ``evaluation`` is the result of `jaxenv.evaluate`, ``[N]``, with scalar rewards and at least one finished episode.
    ``axis`` are two axes of matplotlib.
    """
    check_text("plot.evaluation", "title", title)
    if not isinstance(evaluation, Evaluation):
        hint = ": jaxenv.rollout.Table prints metrics by name" if isinstance(evaluation, dict) else ""
        rule = "evaluation must be an Evaluation, the result of jaxenv.evaluate"
        raise ValueError(f"plot.evaluation: {rule}, got {type(evaluation).__name__}{hint}")
    if not all(map(is_concrete, jax.tree.leaves(evaluation))):
        raise ValueError("plot.evaluation: evaluation must hold numbers, got a traced one: plot outside of jit")
    returns, lengths, terminated, finished, abnormal = map(np.asarray, vars(evaluation).values())
    if returns.ndim != 1:
        raise ValueError(f"plot.evaluation: the returns of an Evaluation must be [N], got shape {returns.shape}")
    valid = finished & ~abnormal
    if not valid.any():
        raise ValueError(f"plot.evaluation: an Evaluation must hold a finished episode, got none of {len(valid)}")
    figure, axes = _style.axes_of("plot.evaluation", axis, figure, columns=2, size=(7.4, 2.6))
    _histogram(axes[0], "return", returns[valid], terminated[valid])
    _histogram(axes[1], "length in steps", lengths[valid], terminated[valid])
    for panel, name in zip(axes, ("returns", "lengths"), strict=True):
        panel.set_title(name, fontsize=10)
    if title:
        figure.suptitle(title, color=_style.ink(axes[0]))
    return figure


def _histogram(axis: Any, what: str, x: np.ndarray, terminated: np.ndarray) -> None:
    kinds = (("terminated", terminated, _style.TERMINATED), ("truncated", ~terminated, _style.TRUNCATED))
    labels, values, colours = zip(*((f"{m.sum()} {name}", x[m], c) for name, m, c in kinds if m.any()), strict=True)
    axis.hist(values, _edges(x), stacked=True, color=colours, label=labels)
    axis.set(xlabel=what, ylabel="episodes")
    axis.axvline(x.mean(), color=_style.ink(axis), linestyle="--", linewidth=1.2, label=f"mean {x.mean():.4g}")
    _style.legend(axis, fontsize=9)


def _edges(x: np.ndarray) -> np.ndarray:
    """Returns the edges of at most 30 bins; bins of whole numbers hold equally many of them."""
    if np.any(x != np.round(x)) or x.max() - x.min() > 1e9:
        return np.histogram_bin_edges(x, bins=int(np.clip(2 * np.sqrt(len(x)), 5, 30)))
    width = np.ceil((x.max() - x.min() + 1) / 30)
    return np.arange(x.min() - 0.5, x.max() + width, width)
