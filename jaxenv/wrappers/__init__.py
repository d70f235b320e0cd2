"""Wrappers, which change the behaviour of the environment inside them, and the bases to write them with.

Constructors raise a ``ValueError`` that names wrapper, argument, rule and value. A wrapper lists under
``Raises`` only what its description and arguments do not tell.
"""

import typing as _typing

from jaxenv._util.names import explained as _explained
from jaxenv.core._checks.rows import map_observation as map_observation
from jaxenv.core.bases import ActionWrapper as ActionWrapper
from jaxenv.core.bases import BatchWrapper as BatchWrapper
from jaxenv.core.bases import LaneWrapper as LaneWrapper
from jaxenv.core.bases import LeafObservationWrapper as LeafObservationWrapper
from jaxenv.core.bases import ObservationWrapper as ObservationWrapper
from jaxenv.core.bases import RewardWrapper as RewardWrapper
from jaxenv.core.bases import RowRewardWrapper as RowRewardWrapper
from jaxenv.wrappers.action.action_delay import ActionDelay as ActionDelay
from jaxenv.wrappers.action.action_noise import ActionNoise as ActionNoise
from jaxenv.wrappers.action.action_offset import ActionOffset as ActionOffset
from jaxenv.wrappers.action.action_repeat import ActionRepeat as ActionRepeat
from jaxenv.wrappers.action.clip_action import ClipAction as ClipAction
from jaxenv.wrappers.action.discrete_actions import DiscreteActions as DiscreteActions
from jaxenv.wrappers.action.discretize_action import DiscretizeAction as DiscretizeAction
from jaxenv.wrappers.action.flatten_action import FlattenAction as FlattenAction
from jaxenv.wrappers.action.masked_actions import MaskedActions as MaskedActions
from jaxenv.wrappers.action.max_and_skip import MaxAndSkip as MaxAndSkip
from jaxenv.wrappers.action.one_hot_action import OneHotAction as OneHotAction
from jaxenv.wrappers.action.rescale_action import RescaleAction as RescaleAction
from jaxenv.wrappers.action.sticky_action import StickyAction as StickyAction
from jaxenv.wrappers.action.transform_action import TransformAction as TransformAction
from jaxenv.wrappers.agents.agents_as_lanes import AgentsAsLanes as AgentsAsLanes
from jaxenv.wrappers.agents.opponent import Opponent as Opponent
from jaxenv.wrappers.episode.autoreset import AutoReset as AutoReset
from jaxenv.wrappers.episode.discount import Discount as Discount
from jaxenv.wrappers.episode.fixed_reset_key import FixedResetKey as FixedResetKey
from jaxenv.wrappers.episode.goal_conditioned import GoalConditioned as GoalConditioned
from jaxenv.wrappers.episode.guard_non_finite import GuardNonFinite as GuardNonFinite
from jaxenv.wrappers.episode.level_replay import LevelReplay as LevelReplay
from jaxenv.wrappers.episode.non_episodic import NonEpisodic as NonEpisodic
from jaxenv.wrappers.episode.non_terminating import NonTerminating as NonTerminating
from jaxenv.wrappers.episode.noop_reset import NoopReset as NoopReset
from jaxenv.wrappers.episode.random_first_episode_length import RandomFirstEpisodeLength as RandomFirstEpisodeLength
from jaxenv.wrappers.episode.resample_params import ResampleParams as ResampleParams
from jaxenv.wrappers.episode.terminal_on_info import TerminalOnInfo as TerminalOnInfo
from jaxenv.wrappers.episode.terminate_on import TerminateOn as TerminateOn
from jaxenv.wrappers.episode.time_limit import TimeLimit as TimeLimit
from jaxenv.wrappers.image.add_white_noise import AddWhiteNoise as AddWhiteNoise
from jaxenv.wrappers.image.channel_first import ChannelFirst as ChannelFirst
from jaxenv.wrappers.image.crop_observation import CropObservation as CropObservation
from jaxenv.wrappers.image.flip_observation import FlipObservation as FlipObservation
from jaxenv.wrappers.image.grayscale_observation import GrayscaleObservation as GrayscaleObservation
from jaxenv.wrappers.image.obstruct_view import ObstructView as ObstructView
from jaxenv.wrappers.image.pixel_observation import PixelObservation as PixelObservation
from jaxenv.wrappers.image.random_crop import RandomCrop as RandomCrop
from jaxenv.wrappers.image.resize_observation import ResizeObservation as ResizeObservation
from jaxenv.wrappers.image.scale_image import ScaleImage as ScaleImage
from jaxenv.wrappers.observation.clip_observation import ClipObservation as ClipObservation
from jaxenv.wrappers.observation.delay_observation import DelayObservation as DelayObservation
from jaxenv.wrappers.observation.discretize_observation import DiscretizeObservation as DiscretizeObservation
from jaxenv.wrappers.observation.dtype_observation import DtypeObservation as DtypeObservation
from jaxenv.wrappers.observation.filter_observation import FilterObservation as FilterObservation
from jaxenv.wrappers.observation.flatten_observation import FlattenObservation as FlattenObservation
from jaxenv.wrappers.observation.frame_stack import FrameStack as FrameStack
from jaxenv.wrappers.observation.history import History as History
from jaxenv.wrappers.observation.noisy_observation import NoisyObservation as NoisyObservation
from jaxenv.wrappers.observation.normalize_observation import NormalizeObservation as NormalizeObservation
from jaxenv.wrappers.observation.one_hot_observation import OneHotObservation as OneHotObservation
from jaxenv.wrappers.observation.previous_action_and_reward import PreviousActionAndReward as PreviousActionAndReward
from jaxenv.wrappers.observation.rescale_observation import RescaleObservation as RescaleObservation
from jaxenv.wrappers.observation.reshape_observation import ReshapeObservation as ReshapeObservation
from jaxenv.wrappers.observation.standardize_observation import StandardizeObservation as StandardizeObservation
from jaxenv.wrappers.observation.time_aware_observation import TimeAwareObservation as TimeAwareObservation
from jaxenv.wrappers.observation.transform_observation import TransformObservation as TransformObservation
from jaxenv.wrappers.recording._statistics import statistics as statistics
from jaxenv.wrappers.recording._statistics import with_statistics as with_statistics
from jaxenv.wrappers.recording.episode_statistics import EpisodeStatistics as EpisodeStatistics
from jaxenv.wrappers.recording.eval_return import EvalReturn as EvalReturn
from jaxenv.wrappers.recording.record_video import RecordVideo as RecordVideo
from jaxenv.wrappers.recording.run_stats import RunStats as RunStats
from jaxenv.wrappers.recording.state_in_info import StateInInfo as StateInInfo
from jaxenv.wrappers.reward.clip_reward import ClipReward as ClipReward
from jaxenv.wrappers.reward.delay_reward import DelayReward as DelayReward
from jaxenv.wrappers.reward.normalize_reward import NormalizeReward as NormalizeReward
from jaxenv.wrappers.reward.reward_from_info import RewardFromInfo as RewardFromInfo
from jaxenv.wrappers.reward.reward_noise import RewardNoise as RewardNoise
from jaxenv.wrappers.reward.scalarize_reward import ScalarizeReward as ScalarizeReward
from jaxenv.wrappers.reward.shaped_reward import ShapedReward as ShapedReward
from jaxenv.wrappers.reward.sign_reward import SignReward as SignReward
from jaxenv.wrappers.reward.sparse_reward import SparseReward as SparseReward
from jaxenv.wrappers.reward.transform_reward import TransformReward as TransformReward
from jaxenv.wrappers.reward.vector_reward import VectorReward as VectorReward
from jaxenv.wrappers.stack._presets import preset as preset
from jaxenv.wrappers.stack._wrapper_data import add_library as _add_library
from jaxenv.wrappers.stack._wrapper_data import from_data as from_data
from jaxenv.wrappers.stack._wrapper_data import register as register
from jaxenv.wrappers.stack._wrapper_data import to_data as to_data

_add_library(globals())

if not _typing.TYPE_CHECKING:

    def __getattr__(name: str) -> _typing.Any:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(_explained(message, name, r"^use jaxenv\.wrappers\."), name=name)
