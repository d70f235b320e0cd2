"""Wrappers, which change the behaviour of the environment inside them, and the bases to write them with."""

from typing import TYPE_CHECKING, Any

from jaxenv import _stack_data
from jaxenv._observation import map_observation as map_observation
from jaxenv._stack_data import from_data as from_data
from jaxenv._stack_data import register as register
from jaxenv._stack_data import to_data as to_data
from jaxenv._wrapper_bases import ActionWrapper as ActionWrapper
from jaxenv._wrapper_bases import BatchWrapper as BatchWrapper
from jaxenv._wrapper_bases import LaneWrapper as LaneWrapper
from jaxenv._wrapper_bases import LeafObservationWrapper as LeafObservationWrapper
from jaxenv._wrapper_bases import ObservationWrapper as ObservationWrapper
from jaxenv._wrapper_bases import RewardWrapper as RewardWrapper
from jaxenv._wrapper_bases import RowRewardWrapper as RowRewardWrapper
from jaxenv.wrappers.action_delay import ActionDelay as ActionDelay
from jaxenv.wrappers.action_noise import ActionNoise as ActionNoise
from jaxenv.wrappers.action_offset import ActionOffset as ActionOffset
from jaxenv.wrappers.action_repeat import ActionRepeat as ActionRepeat
from jaxenv.wrappers.add_white_noise import AddWhiteNoise as AddWhiteNoise
from jaxenv.wrappers.affine_action import AffineAction as AffineAction
from jaxenv.wrappers.autoreset import AutoReset as AutoReset
from jaxenv.wrappers.channel_first import ChannelFirst as ChannelFirst
from jaxenv.wrappers.clip_action import ClipAction as ClipAction
from jaxenv.wrappers.clip_observation import ClipObservation as ClipObservation
from jaxenv.wrappers.clip_reward import ClipReward as ClipReward
from jaxenv.wrappers.crop_observation import CropObservation as CropObservation
from jaxenv.wrappers.delay_observation import DelayObservation as DelayObservation
from jaxenv.wrappers.delay_reward import DelayReward as DelayReward
from jaxenv.wrappers.discount import Discount as Discount
from jaxenv.wrappers.discrete_actions import DiscreteActions as DiscreteActions
from jaxenv.wrappers.discretize_action import DiscretizeAction as DiscretizeAction
from jaxenv.wrappers.discretize_observation import DiscretizeObservation as DiscretizeObservation
from jaxenv.wrappers.dtype_observation import DtypeObservation as DtypeObservation
from jaxenv.wrappers.episode_statistics import EpisodeStatistics as EpisodeStatistics
from jaxenv.wrappers.eval_return import EvalReturn as EvalReturn
from jaxenv.wrappers.filter_observation import FilterObservation as FilterObservation
from jaxenv.wrappers.fixed_reset_key import FixedResetKey as FixedResetKey
from jaxenv.wrappers.flatten_action import FlattenAction as FlattenAction
from jaxenv.wrappers.flatten_observation import FlattenObservation as FlattenObservation
from jaxenv.wrappers.flip_observation import FlipObservation as FlipObservation
from jaxenv.wrappers.frame_stack import FrameStack as FrameStack
from jaxenv.wrappers.goal_conditioned import GoalConditioned as GoalConditioned
from jaxenv.wrappers.grayscale_observation import GrayscaleObservation as GrayscaleObservation
from jaxenv.wrappers.guard_non_finite import GuardNonFinite as GuardNonFinite
from jaxenv.wrappers.history import History as History
from jaxenv.wrappers.masked_actions import MaskedActions as MaskedActions
from jaxenv.wrappers.max_and_skip import MaxAndSkip as MaxAndSkip
from jaxenv.wrappers.noisy_observation import NoisyObservation as NoisyObservation
from jaxenv.wrappers.non_episodic import NonEpisodic as NonEpisodic
from jaxenv.wrappers.non_terminating import NonTerminating as NonTerminating
from jaxenv.wrappers.noop_reset import NoopReset as NoopReset
from jaxenv.wrappers.normalize_action import NormalizeAction as NormalizeAction
from jaxenv.wrappers.normalize_observation import NormalizeObservation as NormalizeObservation
from jaxenv.wrappers.normalize_reward import NormalizeReward as NormalizeReward
from jaxenv.wrappers.obstruct_view import ObstructView as ObstructView
from jaxenv.wrappers.one_hot_action import OneHotAction as OneHotAction
from jaxenv.wrappers.one_hot_observation import OneHotObservation as OneHotObservation
from jaxenv.wrappers.pixel_observation import PixelObservation as PixelObservation
from jaxenv.wrappers.preset import preset as preset
from jaxenv.wrappers.previous_action_and_reward import PreviousActionAndReward as PreviousActionAndReward
from jaxenv.wrappers.random_crop import RandomCrop as RandomCrop
from jaxenv.wrappers.random_first_episode_length import RandomFirstEpisodeLength as RandomFirstEpisodeLength
from jaxenv.wrappers.record_video import RecordVideo as RecordVideo
from jaxenv.wrappers.resample_params import ResampleParams as ResampleParams
from jaxenv.wrappers.rescale_action import RescaleAction as RescaleAction
from jaxenv.wrappers.rescale_observation import RescaleObservation as RescaleObservation
from jaxenv.wrappers.reshape_observation import ReshapeObservation as ReshapeObservation
from jaxenv.wrappers.resize_observation import ResizeObservation as ResizeObservation
from jaxenv.wrappers.reward_from_info import RewardFromInfo as RewardFromInfo
from jaxenv.wrappers.reward_noise import RewardNoise as RewardNoise
from jaxenv.wrappers.run_stats import RunStats as RunStats
from jaxenv.wrappers.scalarize_reward import ScalarizeReward as ScalarizeReward
from jaxenv.wrappers.scale_image import ScaleImage as ScaleImage
from jaxenv.wrappers.sign_reward import SignReward as SignReward
from jaxenv.wrappers.sparse_reward import SparseReward as SparseReward
from jaxenv.wrappers.standardize_observation import StandardizeObservation as StandardizeObservation
from jaxenv.wrappers.statistics import statistics as statistics
from jaxenv.wrappers.statistics import with_statistics as with_statistics
from jaxenv.wrappers.sticky_action import StickyAction as StickyAction
from jaxenv.wrappers.terminal_on_info import TerminalOnInfo as TerminalOnInfo
from jaxenv.wrappers.terminate_on import TerminateOn as TerminateOn
from jaxenv.wrappers.time_aware_observation import TimeAwareObservation as TimeAwareObservation
from jaxenv.wrappers.time_limit import TimeLimit as TimeLimit
from jaxenv.wrappers.transform_action import TransformAction as TransformAction
from jaxenv.wrappers.transform_observation import TransformObservation as TransformObservation
from jaxenv.wrappers.transform_reward import TransformReward as TransformReward
from jaxenv.wrappers.vector_reward import VectorReward as VectorReward

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        raise _stack_data.missing_wrapper(name)
