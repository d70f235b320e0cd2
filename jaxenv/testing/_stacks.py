"""Changes to a stack of wrappers: restarts, time limits, strategies and modes."""

import dataclasses
from collections.abc import Callable

import numpy as np

from jaxenv import tree
from jaxenv.environment import Environment
from jaxenv.task import Task
from jaxenv.wrapper import Wrapper, layers
from jaxenv.wrappers import AutoReset, BatchWrapper, FixedResetKey, GuardNonFinite, TimeLimit

LANES = 7
MORE_LANES = 11
# Different time limits make lanes end at different times; every other lane runs until its task ends.
NO_LIMIT = 10**6
LIMITS = np.array([1, NO_LIMIT, 4, NO_LIMIT, 7, NO_LIMIT, 10], np.int32)


def with_restarts(env: Environment, limits: np.ndarray = LIMITS) -> Environment:
    """The stack with an ``AutoReset`` and one time limit per lane; a layer of the stack is used where there is one."""
    if isinstance(env, AutoReset):
        return tree.rebuild(env, env=with_limits(env.env, limits))
    if isinstance(env, Wrapper) and (env.autoreset is not None or isinstance(env, BatchWrapper)):
        return tree.rebuild(env, env=with_restarts(env.env, limits))
    return AutoReset(with_limits(env, limits)) if env.autoreset is None else env


def with_limits(env: Environment, limits: np.ndarray) -> Environment:
    """The stack with the limits in its ``TimeLimit``; without one, a ``TimeLimit`` is added where ``make`` adds it."""
    if isinstance(env, TimeLimit):
        return tree.rebuild(env, duration=limits)
    has_one = any(isinstance(layer, TimeLimit) for layer in layers(env))
    if isinstance(env, Wrapper) and (has_one or not _belongs_inside_limits(env)):
        return tree.rebuild(env, env=with_limits(env.env, limits))
    return TimeLimit(env, limits)


def _belongs_inside_limits(layer: Wrapper) -> bool:
    return layer.multi_step or layer.removes_ends or isinstance(layer, GuardNonFinite | FixedResetKey)


def with_strategy(env: Environment, strategy: str | None) -> Environment:
    """The stack with another restart strategy."""
    return _map_autoreset(env, lambda layer: tree.rebuild(layer, strategy=strategy), tree.rebuild)


def in_mode(env: Environment, mode: str) -> Environment:
    """The stack with another mode of ``AutoReset``; a wrapper outside of it may raise a ``ValueError``."""
    return _map_autoreset(env, lambda layer: tree.rebuild(layer, mode=mode), dataclasses.replace)


def without_restarts(env: Environment) -> Environment:
    """The stack without its ``AutoReset``."""
    return _map_autoreset(env, lambda layer: layer.env, tree.rebuild)


def _map_autoreset(env: Environment, change: Callable[[AutoReset], Environment], rebuild: Callable) -> Environment:
    """The stack with its ``AutoReset`` changed; ``rebuild`` rebuilds the wrappers outside, with or without checks."""
    if isinstance(env, AutoReset):
        return change(env)
    return rebuild(env, env=_map_autoreset(env.env, change, rebuild)) if isinstance(env, Wrapper) else env


def without_batch_state(env: Environment) -> Environment:
    """The stack without its ``AutoReset`` and wrappers with batch state."""
    if isinstance(env, AutoReset | BatchWrapper):
        return without_batch_state(env.env)
    return tree.rebuild(env, env=without_batch_state(env.env)) if isinstance(env, Wrapper) else env


def takes_multiple_steps(env: Environment) -> bool:
    """Whether a wrapper takes several steps of the environment in one, so that rows do not count them."""
    return any(isinstance(layer, Wrapper) and layer.multi_step for layer in layers(env))


def carries(env: Environment) -> bool:
    """Whether the task keeps part of its state across episodes."""
    return isinstance(env.unwrapped, Task) and type(env.unwrapped).carry is not Task.carry
