"""Replay buffers: rows in, windows of consecutive rows out."""

from jaxenv.data.replay.batch import Batch as Batch
from jaxenv.data.replay.batch import episode_mask as episode_mask
from jaxenv.data.replay.replay import Replay as Replay
from jaxenv.data.replay.replay_state import ReplayState as ReplayState
from jaxenv.data.replay.sampling import PrioritizedSampling as PrioritizedSampling
from jaxenv.data.replay.sampling import Sampling as Sampling
from jaxenv.data.replay.sampling import UniformSampling as UniformSampling
