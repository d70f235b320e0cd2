"""Rollouts: an environment and a policy, many steps in one compiled loop."""

from jaxenv.rollout.evaluate import Evaluation as Evaluation
from jaxenv.rollout.evaluate import evaluate as evaluate
from jaxenv.rollout.policy import PolicyStep as PolicyStep
from jaxenv.rollout.policy import policy_stream as policy_stream
from jaxenv.rollout.policy import random_policy as random_policy
from jaxenv.rollout.statistics import EpisodeTotals as EpisodeTotals
from jaxenv.rollout.unroll import Experience as Experience
from jaxenv.rollout.unroll import unroll as unroll
