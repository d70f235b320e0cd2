"""The bases of wrappers, public in ``jaxenv.wrappers``."""

from jaxenv.core.bases.stateful import BatchState as BatchState
from jaxenv.core.bases.stateful import BatchWrapper as BatchWrapper
from jaxenv.core.bases.stateful import LaneState as LaneState
from jaxenv.core.bases.stateful import LaneWrapper as LaneWrapper
from jaxenv.core.bases.stateful import has_batch_state as has_batch_state
from jaxenv.core.bases.stateless import ActionWrapper as ActionWrapper
from jaxenv.core.bases.stateless import LeafObservationWrapper as LeafObservationWrapper
from jaxenv.core.bases.stateless import Leafwise as Leafwise
from jaxenv.core.bases.stateless import ObservationWrapper as ObservationWrapper
from jaxenv.core.bases.stateless import RewardWrapper as RewardWrapper
from jaxenv.core.bases.stateless import RowRewardWrapper as RowRewardWrapper
