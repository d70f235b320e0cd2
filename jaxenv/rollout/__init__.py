"""Rollouts: a policy in an environment for many steps, in one compiled loop."""

from jaxenv._count import Count as Count
from jaxenv.rollout._policy import PolicyStep as PolicyStep
from jaxenv.rollout._policy import policy_stream as policy_stream
from jaxenv.rollout._policy import random_policy as random_policy
from jaxenv.rollout.chunked_rollout import Chunk as Chunk
from jaxenv.rollout.chunked_rollout import ChunkedRollout as ChunkedRollout
from jaxenv.rollout.evaluate import Evaluation as Evaluation
from jaxenv.rollout.evaluate import evaluate as evaluate
from jaxenv.rollout.experience import Experience as Experience
from jaxenv.rollout.film import Film as Film
from jaxenv.rollout.film import film as film
from jaxenv.rollout.fold import Fold as Fold
from jaxenv.rollout.fold import fold as fold
from jaxenv.rollout.fold import fold_episodes as fold_episodes
from jaxenv.rollout.fold import fold_steps as fold_steps
from jaxenv.rollout.metrics import Metrics as Metrics
from jaxenv.rollout.metrics import MetricsState as MetricsState
from jaxenv.rollout.metrics import Totals as Totals
from jaxenv.rollout.metrics import merge_totals as merge_totals
from jaxenv.rollout.metrics import to_host as to_host
from jaxenv.rollout.record import record as record
from jaxenv.rollout.statistic import Statistic as Statistic
from jaxenv.rollout.unroll import unroll as unroll
from jaxenv.rollout.writers import CSV as CSV
from jaxenv.rollout.writers import Table as Table
from jaxenv.rollout.writers import TensorBoard as TensorBoard
