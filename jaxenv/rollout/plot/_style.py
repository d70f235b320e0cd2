"""Prepares axes and figures, and styles plots."""

import functools
import io
from typing import Any

import numpy as np

from jaxenv import canvas
from jaxenv._util.library import import_library

INSTALL = "pip install matplotlib"
INK, GREY, PAPER = (tuple(map(float, c)) for c in (canvas.INK, canvas.GREY, canvas.PAPER))
TERMINATED, TRUNCATED = (tuple(map(float, c)) for c in (canvas.RED, canvas.GOLD))
# Colours of lanes and curves. Red and gold mark ends of episodes.
COLOURS = [
    tuple(map(float, c)) for c in (canvas.BLUE, canvas.ORANGE, canvas.TEAL, canvas.PURPLE, canvas.GREEN, canvas.BROWN)
]


def colour(number: int) -> tuple[float, ...]:
    """Returns the colour of a lane or a curve."""
    return COLOURS[number % len(COLOURS)]


def axes_of(
    owner: str,
    axis: Any,
    figure: Any,
    rows: int = 1,
    columns: int = 1,
    size: tuple[float, float] = (7, 4),
    **options: Any,
) -> tuple[Any, list[Any]]:
    """Returns the figure to return, and the axes to draw on.

    ``owner`` is the name of the calling function, for errors. The panels are ``axis``, axes of matplotlib; or they fill
    ``figure``; or a new figure of ``size`` inches, with the same ground on light and dark pages. ``options`` go to
    ``Figure.subplots``.
    """
    axes, figures = (import_library(f"matplotlib.{name}", INSTALL) for name in ("axes", "figure"))
    if axis is not None:
        given = list(np.ravel(np.asarray(axis, object)))
        if figure is not None:
            raise ValueError(f"{owner}: give axis or figure, not both")
        if not all(isinstance(x, axes.Axes) for x in given):
            raise ValueError(f"{owner}: axis must be axes of matplotlib, got {type(axis).__name__}")
        if len(given) != rows * columns:
            raise ValueError(f"{owner}: axis must hold one axis per panel, {rows * columns}, got {len(given)}")
        return given[0].figure, given
    is_new = figure is None
    if is_new:
        figure = figures.Figure(figsize=size, layout="constrained", facecolor=PAPER)
        # Notebooks know how to show the figures of pyplot only, and this is none.
        figure._repr_png_ = functools.partial(_png, figure)
    elif not isinstance(figure, figures.FigureBase):
        raise ValueError(f"{owner}: figure must be a figure of matplotlib, got {type(figure).__name__}")
    panels = list(figure.subplots(rows, columns, squeeze=False, **options).reshape(-1))
    for panel in panels if is_new else ():
        _dress(panel)
    return figure, panels


def _dress(axis: Any) -> None:
    axis.set_facecolor("none")
    axis.spines[["top", "right"]].set_visible(False)
    axis.spines[["left", "bottom"]].set_color(GREY)
    axis.tick_params(color=GREY, labelcolor=INK)
    axis.grid(axis="y", color=GREY, alpha=0.25, linewidth=0.8)
    axis.set_axisbelow(True)
    for label in (axis.xaxis.label, axis.yaxis.label, axis.title):
        label.set_color(INK)


def ink(axis: Any) -> Any:
    """Returns the colour of text on an axis."""
    return axis.yaxis.label.get_color()


def legend(axis: Any, **options: Any) -> None:
    """Adds a legend without a frame, if there is anything to list."""
    handles = options.pop("handles", None) or axis.get_legend_handles_labels()[0]
    if handles:
        axis.legend(handles=handles, frameon=False, labelcolor=ink(axis), **options)


def _png(figure: Any) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    return buffer.getvalue()
