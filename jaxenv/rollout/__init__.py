"""Rollouts: run a policy in an environment for many steps, in one compiled loop."""

import typing as _typing

from jaxenv._util.names import explained as _explained
from jaxenv.core._moments import Count as Count
from jaxenv.rollout._evaluate import Evaluation as Evaluation
from jaxenv.rollout._evaluate import evaluate as evaluate
from jaxenv.rollout._film import Film as Film
from jaxenv.rollout._film import film as film
from jaxenv.rollout._film import record as record
from jaxenv.rollout._fold import Fold as Fold
from jaxenv.rollout._fold import fold as fold
from jaxenv.rollout._iteration import steps_per_iteration as steps_per_iteration
from jaxenv.rollout._policy import Policy as Policy
from jaxenv.rollout._policy import PolicyStep as PolicyStep
from jaxenv.rollout._policy import policy_stream as policy_stream
from jaxenv.rollout._policy import random_policy as random_policy
from jaxenv.rollout._unroll import unroll as unroll
from jaxenv.rollout.experience import Experience as Experience
from jaxenv.rollout.metrics import Metrics as Metrics
from jaxenv.rollout.metrics import MetricsState as MetricsState
from jaxenv.rollout.metrics import Totals as Totals
from jaxenv.rollout.metrics import merge_totals as merge_totals
from jaxenv.rollout.statistic import Statistic as Statistic
from jaxenv.rollout.statistic import to_host as to_host
from jaxenv.rollout.writers import CSV as CSV
from jaxenv.rollout.writers import Table as Table
from jaxenv.rollout.writers import TensorBoard as TensorBoard
from jaxenv.rollout.writers import WandB as WandB

if not _typing.TYPE_CHECKING:

    def __getattr__(name: str) -> _typing.Any:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(_explained(message, name, r"^use .*\bjaxenv\.rollout\."), name=name)
