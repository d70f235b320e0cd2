"""Plots of trajectories, metrics and learning curves, in the colours of `jaxenv.canvas`.

Every function returns a matplotlib figure and leaves the state of ``pyplot`` alone. The figure is a new one that a
notebook shows, unless ``axis`` or ``figure`` says where to draw. matplotlib is imported by the first plot.
"""

from jaxenv.plot.curves import curves as curves
from jaxenv.plot.metrics import metrics as metrics
from jaxenv.plot.trajectory import trajectory as trajectory
