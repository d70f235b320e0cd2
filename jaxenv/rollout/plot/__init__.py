"""Plots of trajectories, metrics and learning curves, in the colours of `jaxenv.canvas`.

Every function returns a matplotlib figure and leaves the state of ``pyplot`` alone. The figure is a new one that a
notebook shows, unless ``axis`` or ``figure`` says where to draw. matplotlib is imported by the first plot.
"""

from jaxenv.rollout.plot._curves import curves as curves
from jaxenv.rollout.plot._metrics import metrics as metrics
from jaxenv.rollout.plot._trajectory import trajectory as trajectory
