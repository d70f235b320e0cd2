"""The bases of wrappers, public in ``jaxenv.wrappers``."""

from jaxenv.core.bases.action_wrapper import ActionWrapper as ActionWrapper
from jaxenv.core.bases.batch_wrapper import BatchState as BatchState
from jaxenv.core.bases.batch_wrapper import BatchWrapper as BatchWrapper
from jaxenv.core.bases.batch_wrapper import has_batch_state as has_batch_state
from jaxenv.core.bases.lane_wrapper import LaneState as LaneState
from jaxenv.core.bases.lane_wrapper import LaneWrapper as LaneWrapper
from jaxenv.core.bases.leafwise import LeafObservationWrapper as LeafObservationWrapper
from jaxenv.core.bases.leafwise import Leafwise as Leafwise
from jaxenv.core.bases.observation_wrapper import ObservationWrapper as ObservationWrapper
from jaxenv.core.bases.reward_wrapper import RewardWrapper as RewardWrapper
from jaxenv.core.bases.reward_wrapper import RowRewardWrapper as RowRewardWrapper
