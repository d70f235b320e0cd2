"""Batched reinforcement learning environments as pure functions under JAX."""

from jaxenv import data as data
from jaxenv import envs as envs
from jaxenv import random as random
from jaxenv import rollout as rollout
from jaxenv import specs as specs
from jaxenv import suites as suites
from jaxenv import testing as testing
from jaxenv import training as training
from jaxenv import tree as tree
from jaxenv import wrappers as wrappers
from jaxenv.core import elements as elements
from jaxenv.core._partition_specs import partition_specs as partition_specs
from jaxenv.core._reset_where import reset_where as reset_where
from jaxenv.core._step_where import step_where as step_where
from jaxenv.core.environment import Environment as Environment
from jaxenv.core.multitask import Multitask as Multitask
from jaxenv.core.registry import EnvSpec as EnvSpec
from jaxenv.core.registry import ids as ids
from jaxenv.core.registry import register as register
from jaxenv.core.registry import spec as spec
from jaxenv.core.task import Task as Task
from jaxenv.core.task import Transition as Transition
from jaxenv.core.timestep import StepType as StepType
from jaxenv.core.timestep import TimeStep as TimeStep
from jaxenv.core.timestep import restart as restart
from jaxenv.core.timestep import termination as termination
from jaxenv.core.timestep import transition as transition
from jaxenv.core.timestep import truncation as truncation
from jaxenv.core.wrapper import Wrapper as Wrapper
from jaxenv.rollout import evaluate as evaluate
from jaxenv.rollout import film as film
from jaxenv.rollout import plot as plot
from jaxenv.rollout import record as record
from jaxenv.rollout import unroll as unroll
from jaxenv.rollout.play import play as play
from jaxenv.wrappers import stack as stack
from jaxenv.wrappers.stack._env_data import from_data as from_data
from jaxenv.wrappers.stack._env_data import to_data as to_data
from jaxenv.wrappers.stack._make import load as load
from jaxenv.wrappers.stack._make import make as make

__version__ = "0.1.0"
