"""Plots of trajectories, evaluations and learning curves, in the colours of `jaxenv.canvas`.

Every function returns a ``matplotlib.figure.Figure`` and leaves the state of ``pyplot`` alone. The figure is a new
one that a notebook shows, unless ``axis`` or ``figure`` says where to draw. The first plot imports matplotlib.
"""

from typing import Any

from jaxenv.rollout.plot._curves import curves as curves
from jaxenv.rollout.plot._evaluation import evaluation as evaluation
from jaxenv.rollout.plot._trajectory import trajectory as trajectory


def __getattr__(name: str) -> Any:
    hint = ": plot.evaluation draws an Evaluation, jaxenv.rollout.Table prints metrics" if name == "metrics" else ""
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")
