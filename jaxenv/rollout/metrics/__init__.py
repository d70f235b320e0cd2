"""Metrics of a rollout: per-lane sums inside the compiled loop, reduced and named only when they are read.

`Metrics` declares what to measure; its methods are pure. `Metrics.update` and `Metrics.update_rows` add rows to a
`MetricsState`, `Metrics.totals` reduces its lanes to `Totals`, `merge_totals` and `Totals.psum` combine chunks and
shards, and `Metrics.compute` turns totals into named metrics. FIRST rows are not steps, and an episode whose start was
seen counts at its LAST row, in every auto-reset mode.
"""

from jaxenv.rollout.metrics._to_host import to_host as to_host
from jaxenv.rollout.metrics.metrics import Metrics as Metrics
from jaxenv.rollout.metrics.metrics_state import MetricsState as MetricsState
from jaxenv.rollout.metrics.totals import Totals as Totals
from jaxenv.rollout.metrics.totals import merge_totals as merge_totals
