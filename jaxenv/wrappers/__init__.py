"""Wrappers, which change the behaviour of the environment inside them, and the bases to write them with.

Constructors raise a ``ValueError`` that names wrapper, argument, rule and value. A wrapper lists under
``Raises`` only what its description and arguments do not tell. Around a ``same_step`` ``AutoReset``, a wrapper with
state per lane cannot change observations or actions; other wrappers map ``env_info["final_observation"]`` as they map
the observation.
"""

import typing as _typing

from jaxenv._util.names import explained as _explained
from jaxenv.core._checks.rows import map_observation as map_observation
from jaxenv.core.bases.stateful import BatchWrapper as BatchWrapper
from jaxenv.core.bases.stateful import LaneWrapper as LaneWrapper
from jaxenv.core.bases.stateless import ActionWrapper as ActionWrapper
from jaxenv.core.bases.stateless import LeafObservationWrapper as LeafObservationWrapper
from jaxenv.core.bases.stateless import ObservationWrapper as ObservationWrapper
from jaxenv.core.bases.stateless import RewardWrapper as RewardWrapper
from jaxenv.core.bases.stateless import RowRewardWrapper as RowRewardWrapper
from jaxenv.wrappers.action.continuous import ActionNoise as ActionNoise
from jaxenv.wrappers.action.continuous import ActionOffset as ActionOffset
from jaxenv.wrappers.action.continuous import ClipAction as ClipAction
from jaxenv.wrappers.action.continuous import FlattenAction as FlattenAction
from jaxenv.wrappers.action.continuous import RescaleAction as RescaleAction
from jaxenv.wrappers.action.continuous import TransformAction as TransformAction
from jaxenv.wrappers.action.discrete import DiscreteActions as DiscreteActions
from jaxenv.wrappers.action.discrete import DiscretizeAction as DiscretizeAction
from jaxenv.wrappers.action.discrete import MaskedActions as MaskedActions
from jaxenv.wrappers.action.discrete import OneHotAction as OneHotAction
from jaxenv.wrappers.action.timing import ActionDelay as ActionDelay
from jaxenv.wrappers.action.timing import ActionRepeat as ActionRepeat
from jaxenv.wrappers.action.timing import MaxAndSkip as MaxAndSkip
from jaxenv.wrappers.action.timing import StickyAction as StickyAction
from jaxenv.wrappers.agents.agents_as_lanes import AgentsAsLanes as AgentsAsLanes
from jaxenv.wrappers.agents.opponent import Opponent as Opponent
from jaxenv.wrappers.episode.autoreset import AutoReset as AutoReset
from jaxenv.wrappers.episode.ends import Discount as Discount
from jaxenv.wrappers.episode.ends import GuardNonFinite as GuardNonFinite
from jaxenv.wrappers.episode.ends import NonEpisodic as NonEpisodic
from jaxenv.wrappers.episode.ends import NonTerminating as NonTerminating
from jaxenv.wrappers.episode.ends import TerminalOnInfo as TerminalOnInfo
from jaxenv.wrappers.episode.ends import TerminateOn as TerminateOn
from jaxenv.wrappers.episode.goal_conditioned import GoalConditioned as GoalConditioned
from jaxenv.wrappers.episode.level_replay import LevelReplay as LevelReplay
from jaxenv.wrappers.episode.resample_params import ResampleParams as ResampleParams
from jaxenv.wrappers.episode.starts import FixedResetKey as FixedResetKey
from jaxenv.wrappers.episode.starts import NoopReset as NoopReset
from jaxenv.wrappers.episode.starts import RandomFirstEpisodeLength as RandomFirstEpisodeLength
from jaxenv.wrappers.episode.time_limit import TimeLimit as TimeLimit
from jaxenv.wrappers.episode.trials import Trials as Trials
from jaxenv.wrappers.image.geometry import ChannelFirst as ChannelFirst
from jaxenv.wrappers.image.geometry import CropObservation as CropObservation
from jaxenv.wrappers.image.geometry import FlipObservation as FlipObservation
from jaxenv.wrappers.image.geometry import RandomCrop as RandomCrop
from jaxenv.wrappers.image.geometry import ResizeObservation as ResizeObservation
from jaxenv.wrappers.image.pixels import AddWhiteNoise as AddWhiteNoise
from jaxenv.wrappers.image.pixels import GrayscaleObservation as GrayscaleObservation
from jaxenv.wrappers.image.pixels import ObstructView as ObstructView
from jaxenv.wrappers.image.pixels import PixelObservation as PixelObservation
from jaxenv.wrappers.image.pixels import ScaleImage as ScaleImage
from jaxenv.wrappers.observation.layout import DiscretizeObservation as DiscretizeObservation
from jaxenv.wrappers.observation.layout import DtypeObservation as DtypeObservation
from jaxenv.wrappers.observation.layout import FilterObservation as FilterObservation
from jaxenv.wrappers.observation.layout import FlattenObservation as FlattenObservation
from jaxenv.wrappers.observation.layout import OneHotObservation as OneHotObservation
from jaxenv.wrappers.observation.layout import ReshapeObservation as ReshapeObservation
from jaxenv.wrappers.observation.memory import DelayObservation as DelayObservation
from jaxenv.wrappers.observation.memory import FrameStack as FrameStack
from jaxenv.wrappers.observation.memory import History as History
from jaxenv.wrappers.observation.memory import PreviousActionAndReward as PreviousActionAndReward
from jaxenv.wrappers.observation.memory import TimeAwareObservation as TimeAwareObservation
from jaxenv.wrappers.observation.values import ClipObservation as ClipObservation
from jaxenv.wrappers.observation.values import NoisyObservation as NoisyObservation
from jaxenv.wrappers.observation.values import NormalizeObservation as NormalizeObservation
from jaxenv.wrappers.observation.values import RescaleObservation as RescaleObservation
from jaxenv.wrappers.observation.values import StandardizeObservation as StandardizeObservation
from jaxenv.wrappers.observation.values import TransformObservation as TransformObservation
from jaxenv.wrappers.recording.record_video import RecordVideo as RecordVideo
from jaxenv.wrappers.recording.state_in_info import StateInInfo as StateInInfo
from jaxenv.wrappers.recording.stats import EpisodeStatistics as EpisodeStatistics
from jaxenv.wrappers.recording.stats import EvalReturn as EvalReturn
from jaxenv.wrappers.recording.stats import RunStats as RunStats
from jaxenv.wrappers.recording.stats import statistics as statistics
from jaxenv.wrappers.recording.stats import with_statistics as with_statistics
from jaxenv.wrappers.reward.components import RewardFromInfo as RewardFromInfo
from jaxenv.wrappers.reward.components import ScalarizeReward as ScalarizeReward
from jaxenv.wrappers.reward.components import ShapedReward as ShapedReward
from jaxenv.wrappers.reward.components import VectorReward as VectorReward
from jaxenv.wrappers.reward.values import ClipReward as ClipReward
from jaxenv.wrappers.reward.values import DelayReward as DelayReward
from jaxenv.wrappers.reward.values import NormalizeReward as NormalizeReward
from jaxenv.wrappers.reward.values import RewardNoise as RewardNoise
from jaxenv.wrappers.reward.values import SignReward as SignReward
from jaxenv.wrappers.reward.values import SparseReward as SparseReward
from jaxenv.wrappers.reward.values import TransformReward as TransformReward
from jaxenv.wrappers.stack._wrapper_data import add_library as _add_library
from jaxenv.wrappers.stack._wrapper_data import from_data as from_data
from jaxenv.wrappers.stack._wrapper_data import preset as preset
from jaxenv.wrappers.stack._wrapper_data import register as register
from jaxenv.wrappers.stack._wrapper_data import to_data as to_data

_add_library(globals())

if not _typing.TYPE_CHECKING:

    def __getattr__(name: str) -> _typing.Any:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(_explained(message, name, r"^use jaxenv\.wrappers\."), name=name)
