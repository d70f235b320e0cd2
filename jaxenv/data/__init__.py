"""Data from rollouts: returns and advantages, transitions, replay buffers, transformers and checkpoints."""

from jaxenv.data import transformers as transformers
from jaxenv.data.checkpoint import CheckpointInfo as CheckpointInfo
from jaxenv.data.checkpoint import checkpoint_info as checkpoint_info
from jaxenv.data.checkpoint import restore as restore
from jaxenv.data.checkpoint import save as save
from jaxenv.data.minibatches import minibatches as minibatches
from jaxenv.data.replay import Batch as Batch
from jaxenv.data.replay import PrioritizedSampling as PrioritizedSampling
from jaxenv.data.replay import Replay as Replay
from jaxenv.data.replay import ReplayState as ReplayState
from jaxenv.data.replay import Sampling as Sampling
from jaxenv.data.replay import UniformSampling as UniformSampling
from jaxenv.data.replay import episode_mask as episode_mask
from jaxenv.data.returns import Targets as Targets
from jaxenv.data.returns import discounted_return as discounted_return
from jaxenv.data.returns import gae as gae
from jaxenv.data.returns import n_step_return as n_step_return
from jaxenv.data.returns import td_lambda as td_lambda
from jaxenv.data.returns import vtrace as vtrace
from jaxenv.data.trajectory import Trajectory as Trajectory
from jaxenv.data.trajectory import to_trajectory as to_trajectory
from jaxenv.data.transition_mask import transition_mask as transition_mask
from jaxenv.data.transitions import Transitions as Transitions
from jaxenv.data.transitions import to_n_step_transitions as to_n_step_transitions
from jaxenv.data.transitions import to_transitions as to_transitions
from jaxenv.data.with_last import with_last as with_last
