"""The bases of wrappers, public in ``jaxenv.wrappers``."""

from jaxenv._wrapper_bases.action_wrapper import ActionWrapper as ActionWrapper
from jaxenv._wrapper_bases.batch_wrapper import BatchState as BatchState
from jaxenv._wrapper_bases.batch_wrapper import BatchWrapper as BatchWrapper
from jaxenv._wrapper_bases.lane_wrapper import LaneState as LaneState
from jaxenv._wrapper_bases.lane_wrapper import LaneWrapper as LaneWrapper
from jaxenv._wrapper_bases.leaf_observation_wrapper import LeafObservationWrapper as LeafObservationWrapper
from jaxenv._wrapper_bases.leafwise import Leafwise as Leafwise
from jaxenv._wrapper_bases.observation_wrapper import ObservationWrapper as ObservationWrapper
from jaxenv._wrapper_bases.reward_wrapper import RewardWrapper as RewardWrapper
from jaxenv._wrapper_bases.row_reward_wrapper import RowRewardWrapper as RowRewardWrapper
