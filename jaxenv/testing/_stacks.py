"""Changes to a stack of wrappers: restarts, time limits, strategies and modes."""

import dataclasses
from collections.abc import Callable

import numpy as np

from jaxenv import stack, tree
from jaxenv.environment import Environment
from jaxenv.task import Task
from jaxenv.wrapper import Wrapper, layers
from jaxenv.wrappers import AutoReset, BatchWrapper, TimeLimit

LANES = 7
MORE_LANES = 11
# Different time limits make lanes end at different times; every other lane runs until its task ends.
NO_LIMIT = 10**6
LIMITS = np.array([1, NO_LIMIT, 4, NO_LIMIT, 7, NO_LIMIT, 10], np.int32)


def with_restarts(env: Environment, limits: np.ndarray = LIMITS) -> Environment:
    """The stack with one time limit per lane and an ``AutoReset``, added where `jaxenv.stack` places them."""
    if env.autoreset is not None:
        return _map_autoreset(env, lambda layer: tree.rebuild(layer, env=with_limits(layer.env, limits)), tree.rebuild)
    return stack.assemble(*_task_and_wrappers(with_limits(env, limits)))


def with_limits(env: Environment, limits: np.ndarray) -> Environment:
    """The stack with these limits in its outermost ``TimeLimit``, or in one added where `jaxenv.stack` places it."""
    task, added = _task_and_wrappers(env)
    if places := [place for place, wrapper in enumerate(added) if isinstance(wrapper, TimeLimit)]:
        added[places[-1]] = tree.rebuild(added[places[-1]], duration=limits)
        return stack.assemble(task, added, autoreset=None)
    return stack.assemble(task, added, limits, autoreset=None)


def _task_and_wrappers(env: Environment) -> tuple[Environment, list[Wrapper]]:
    return stack.split(env, env.unwrapped)


def with_strategy(env: Environment, strategy: str | None) -> Environment:
    """The stack with another restart strategy."""
    return _map_autoreset(env, lambda layer: tree.rebuild(layer, reset_strategy=strategy), tree.rebuild)


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
