"""Wrappers: environments made of another environment, one a file."""

from jaxenv.wrappers.autoreset import AutoReset as AutoReset
from jaxenv.wrappers.base import ActionWrapper as ActionWrapper
from jaxenv.wrappers.base import BatchWrapper as BatchWrapper
from jaxenv.wrappers.base import LaneWrapper as LaneWrapper
from jaxenv.wrappers.base import ObservationWrapper as ObservationWrapper
from jaxenv.wrappers.base import RewardWrapper as RewardWrapper
from jaxenv.wrappers.clip_action import ClipAction as ClipAction
from jaxenv.wrappers.fixed_reset_key import FixedResetKey as FixedResetKey
from jaxenv.wrappers.guard_non_finite import GuardNonFinite as GuardNonFinite
from jaxenv.wrappers.rescale_action import RescaleAction as RescaleAction
from jaxenv.wrappers.time_limit import TimeLimit as TimeLimit
