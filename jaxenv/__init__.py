"""Batched reinforcement learning environments as pure functions under JAX."""

from jaxenv import data as data
from jaxenv import elements as elements
from jaxenv import envs as envs
from jaxenv import plot as plot
from jaxenv import random as random
from jaxenv import rollout as rollout
from jaxenv import specs as specs
from jaxenv import stack as stack
from jaxenv import suites as suites
from jaxenv import testing as testing
from jaxenv import training as training
from jaxenv import tree as tree
from jaxenv import wrappers as wrappers
from jaxenv._env_data import from_data as from_data
from jaxenv._env_data import to_data as to_data
from jaxenv._make import load as load
from jaxenv._make import make as make
from jaxenv.environment import Environment as Environment
from jaxenv.multitask import Multitask as Multitask
from jaxenv.partition_specs import partition_specs as partition_specs
from jaxenv.play import play as play
from jaxenv.registry import EnvSpec as EnvSpec
from jaxenv.registry import ids as ids
from jaxenv.registry import register as register
from jaxenv.registry import spec as spec
from jaxenv.reset_where import reset_where as reset_where
from jaxenv.rollout import evaluate as evaluate
from jaxenv.rollout import film as film
from jaxenv.rollout import record as record
from jaxenv.rollout import unroll as unroll
from jaxenv.step_where import step_where as step_where
from jaxenv.task import Task as Task
from jaxenv.task import Transition as Transition
from jaxenv.timestep import StepType as StepType
from jaxenv.timestep import TimeStep as TimeStep
from jaxenv.timestep import restart as restart
from jaxenv.timestep import termination as termination
from jaxenv.timestep import transition as transition
from jaxenv.timestep import truncation as truncation
from jaxenv.wrapper import Wrapper as Wrapper

__version__ = "0.1.0"
