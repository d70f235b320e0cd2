"""Batched reinforcement learning environments as pure functions under JAX."""

import ast
import functools
import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

from jaxenv._util.version import __version__ as __version__

if TYPE_CHECKING:  # the public names: type checkers read this block, and so does `_homes`
    from jaxenv import canvas as canvas
    from jaxenv import core as core
    from jaxenv import data as data
    from jaxenv import envs as envs
    from jaxenv import interop as interop
    from jaxenv import random as random
    from jaxenv import rollout as rollout
    from jaxenv import specs as specs
    from jaxenv import suites as suites
    from jaxenv import testing as testing
    from jaxenv import training as training
    from jaxenv import tree as tree
    from jaxenv import wrappers as wrappers
    from jaxenv.core import elements as elements
    from jaxenv.core.environment import Environment as Environment
    from jaxenv.core.lanes import partition_specs as partition_specs
    from jaxenv.core.lanes import reset_where as reset_where
    from jaxenv.core.lanes import step_where as step_where
    from jaxenv.core.levels import mutate_level as mutate_level
    from jaxenv.core.levels import sample_level as sample_level
    from jaxenv.core.multitask import Multitask as Multitask
    from jaxenv.core.registry import EnvSpec as EnvSpec
    from jaxenv.core.registry import ids as ids
    from jaxenv.core.registry import register as register
    from jaxenv.core.registry import spec as spec
    from jaxenv.core.task import Task as Task
    from jaxenv.core.timestep import StepType as StepType
    from jaxenv.core.timestep import TimeStep as TimeStep
    from jaxenv.core.timestep import Transition as Transition
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
else:

    def __getattr__(name: str) -> Any:
        """Imports a public name when it is first used, so that the command line answers without JAX.

        A package is imported alone, since the modules of this library import packages from here; all other names come
        together.
        """
        if not name.startswith("_") and _homes().get(name) == __name__:
            return importlib.import_module(f"{__name__}.{name}")
        if name == "__all__" or (not name.startswith("_") and name in _homes()):
            globals().update({key: _imported(key, home) for key, home in _homes().items()})
            globals()["__all__"] = list(_homes())
            return globals()[name]
        from jaxenv._util.names import explained

        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(explained(message, name, r"\bjaxenv\."), name=name)

    def __dir__() -> list[str]:
        return sorted({*_homes(), "__version__"})

    @functools.cache
    def _homes() -> dict[str, str]:
        """Returns the module that each public name is imported from, as listed above."""
        source = importlib.util.find_spec(__name__).loader.get_source(__name__)
        listing = next(node for node in ast.parse(source).body if isinstance(node, ast.If))
        return {node.names[0].name: node.module for node in listing.body}

    def _imported(name: str, home: str) -> Any:
        module = importlib.import_module(home)
        return getattr(module, name) if hasattr(module, name) else importlib.import_module(f"{home}.{name}")
