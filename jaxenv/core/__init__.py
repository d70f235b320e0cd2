"""What authors import: base classes of environments and wrappers, and the building blocks of their code.

`jaxenv.specs`, `jaxenv.tree`, `jaxenv.random` and `jaxenv.canvas` are the other rooms that an author needs.
"""

from jaxenv._util.checks import Range as Range
from jaxenv._util.checks import check_callable as check_callable
from jaxenv._util.checks import check_choice as check_choice
from jaxenv._util.checks import check_folder as check_folder
from jaxenv._util.checks import check_integer as check_integer
from jaxenv._util.checks import check_interval as check_interval
from jaxenv._util.checks import check_numbers as check_numbers
from jaxenv._util.checks import check_order as check_order
from jaxenv._util.checks import check_real as check_real
from jaxenv._util.checks import is_concrete as is_concrete
from jaxenv._util.checks import is_real as is_real
from jaxenv._util.numeric import clip as clip
from jaxenv._util.numeric import sin_cos as sin_cos
from jaxenv._util.numeric import wrap_angle as wrap_angle
from jaxenv._util.xla import computed_once as computed_once
from jaxenv._util.xla import flat_in_own_kernels as flat_in_own_kernels
from jaxenv._util.xla import in_one_kernel as in_one_kernel
from jaxenv._util.xla import in_own_kernels as in_own_kernels
from jaxenv._util.xla import in_small_kernel as in_small_kernel
from jaxenv._util.xla import take_rows as take_rows
from jaxenv._util.xla import unshare as unshare
from jaxenv.core import _describe, levels
from jaxenv.core import _moments as moments  # noqa: F401
from jaxenv.core._checks.actions import clip_discrete as clip_discrete
from jaxenv.core._checks.actions import conform as conform
from jaxenv.core._checks.actions import finite as finite
from jaxenv.core._checks.actions import toward as toward
from jaxenv.core._checks.given import reporting as reporting
from jaxenv.core._checks.returned import check_no_autoreset as check_no_autoreset
from jaxenv.core._checks.returned import check_no_turns as check_no_turns
from jaxenv.core._checks.rows import bounded_reward as bounded_reward
from jaxenv.core._checks.rows import check_reward_spec as check_reward_spec
from jaxenv.core._checks.rows import checked_observation as checked_observation
from jaxenv.core._checks.rows import checked_reward as checked_reward
from jaxenv.core._checks.rows import map_observation as map_observation
from jaxenv.core._moments import Count as Count
from jaxenv.core._moments import Sum as Sum
from jaxenv.core.bases.stateful import BatchWrapper as BatchWrapper
from jaxenv.core.bases.stateful import LaneState as LaneState
from jaxenv.core.bases.stateful import LaneWrapper as LaneWrapper
from jaxenv.core.bases.stateful import Stateful as Stateful
from jaxenv.core.bases.stateful import has_batch_state as has_batch_state
from jaxenv.core.bases.stateless import ActionWrapper as ActionWrapper
from jaxenv.core.bases.stateless import LeafObservationWrapper as LeafObservationWrapper
from jaxenv.core.bases.stateless import Leafwise as Leafwise
from jaxenv.core.bases.stateless import ObservationWrapper as ObservationWrapper
from jaxenv.core.bases.stateless import RewardWrapper as RewardWrapper
from jaxenv.core.bases.stateless import RowRewardWrapper as RowRewardWrapper
from jaxenv.core.entries import check_agents_lead as check_agents_lead
from jaxenv.core.entries import check_combined as check_combined
from jaxenv.core.entries import combined_info as combined_info
from jaxenv.core.entries import marks_of_agents as marks_of_agents
from jaxenv.core.environment import Environment as Environment
from jaxenv.core.environment import check_environment as check_environment
from jaxenv.core.facts import AutoResetMode as AutoResetMode
from jaxenv.core.facts import Facts as Facts
from jaxenv.core.facts import ResetStrategy as ResetStrategy
from jaxenv.core.multitask import Multitask as Multitask
from jaxenv.core.registry import EnvSpec as EnvSpec
from jaxenv.core.registry import register as register
from jaxenv.core.starts import Levels as Levels
from jaxenv.core.starts import Place as Place
from jaxenv.core.starts import Starts as Starts
from jaxenv.core.starts import next_episodes as next_episodes
from jaxenv.core.task import Task as Task
from jaxenv.core.timestep import StepType as StepType
from jaxenv.core.timestep import TimeStep as TimeStep
from jaxenv.core.timestep import Transition as Transition
from jaxenv.core.timestep import end_abnormal as end_abnormal
from jaxenv.core.wrapper import Wrapper as Wrapper
from jaxenv.core.wrapper import layers as layers

# Methods that read layers of every kind, which stand above `Environment`.
Environment.describe = _describe.describe  # type: ignore[method-assign]
Environment._repr_html_ = _describe.describe_html  # type: ignore[attr-defined]
Environment.with_level = levels.with_level  # type: ignore[method-assign]
