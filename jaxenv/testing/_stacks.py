"""Changes to a stack of wrappers: restarts, time limits, strategies and modes."""

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from jaxenv import tree
from jaxenv.core._declared import Declared, declared_leaves, map_declared
from jaxenv.core.environment import Environment
from jaxenv.core.multitask import Multitask
from jaxenv.core.task import Task
from jaxenv.core.wrapper import Wrapper, layers
from jaxenv.wrappers import AutoReset, TimeLimit, stack

E = TypeVar("E", bound=Environment)

LANES = 7
# A prime, above the range of 8-bit integers and the lanes that one block of a compact restart starts.
MANY_LANES = 307
# Different time limits make lanes end at different times; every other lane runs until its task ends.
NO_LIMIT = 10**6
LIMITS = np.array([1, NO_LIMIT, 4, NO_LIMIT, 7, NO_LIMIT, 10], np.int32)


def with_restarts(env: Environment, limits: np.ndarray = LIMITS) -> Environment:
    """Adds one time limit per lane and an ``AutoReset`` where `jaxenv.stack` places them."""
    if env.autoreset is not None:
        return _map_autoreset(env, lambda layer: tree.rebuild(layer, env=with_limits(layer.env, limits)), tree.rebuild)
    return stack.assemble(*_task_and_wrappers(with_limits(env, limits)))


def with_limits(env: Environment, limits: np.ndarray) -> Environment:
    """Puts these limits in the outermost ``TimeLimit``, or in one added where `jaxenv.stack` places it."""
    task, added = _task_and_wrappers(env)
    if places := [place for place, wrapper in enumerate(added) if isinstance(wrapper, TimeLimit)]:
        added[places[-1]] = tree.rebuild(added[places[-1]], duration=limits, follows_params=False)
        return stack.assemble(task, added, autoreset=None)
    return stack.assemble(task, added, limits, autoreset=None)


def _task_and_wrappers(env: Environment) -> tuple[Environment, list[Wrapper]]:
    return stack.split(env, env.unwrapped)


def with_strategy(env: Environment, strategy: str | None) -> Environment:
    """Sets the restart strategy of a stack."""
    return _map_autoreset(env, lambda layer: tree.rebuild(layer, reset_strategy=strategy), tree.rebuild)


def in_mode(env: Environment, mode: str) -> Environment:
    """Sets the mode of ``AutoReset`` in a stack; a wrapper outside of it may raise a ``ValueError``."""
    return _map_autoreset(env, lambda layer: tree.rebuild(layer, mode=mode), dataclasses.replace)


def without_restarts(env: Environment) -> Environment:
    """Removes the ``AutoReset`` from a stack."""
    return _map_autoreset(env, lambda layer: layer.env, tree.rebuild)


def _map_autoreset(
    env: Environment, change: Callable[[AutoReset], Environment], rebuild: Callable[..., Any]
) -> Environment:
    """Changes the ``AutoReset`` of a stack; ``rebuild`` rebuilds the wrappers outside, with or without checks."""
    if isinstance(env, AutoReset):
        return change(env)
    return rebuild(env, env=_map_autoreset(env.env, change, rebuild)) if isinstance(env, Wrapper) else env


def per_lane(env: E, *, varied: bool, only: str | None = None) -> tuple[E, list[str]]:
    """Gives shared values (all, or ``only`` one name) per lane; returns the stack and the names of the values.

    With ``varied`` the values differ between lanes: floats by up to a tenth, integers by one if the
    classes accept that.
    """
    names: list[str] = []

    def spread(d: Declared) -> np.ndarray:
        name = d.path.split(".")[-1]
        if d.per_lane or d.dtype is None or only not in (None, name):
            return d.value
        names.append(name)
        values = np.broadcast_to(np.asarray(d.value, d.dtype), (LANES, *np.shape(d.value))).copy()
        if varied and d.dtype.kind == "f":
            values *= tree.expand(1 - np.arange(LANES, dtype=np.float32) / (10 * LANES), values.ndim)
        return values

    shared = [d for d in declared_leaves(env) if not d.per_lane and d.dtype is not None]
    env = map_declared(spread, env)
    for d in shared if varied else ():
        if d.dtype is not None and d.dtype.kind == "i":
            env = _with_varied_integer(env, d.path)
    return env, names


def _with_varied_integer(env: E, path: str) -> E:
    """Adds one to an integer in every other lane, unless a class refuses that."""

    def add(d: Declared) -> Any:
        return d.value + tree.expand(np.arange(LANES, dtype=np.int32) % 2, d.value.ndim) if d.path == path else d.value

    changed = map_declared(add, env)
    try:
        for layer in layers(changed):
            layer.check()
    except ValueError:
        return env
    return changed


def takes_multiple_steps(env: Environment) -> bool:
    """Returns whether a wrapper takes several steps of the environment at once, so that rows do not count them."""
    return any(isinstance(layer, Wrapper) and layer.place == "several_steps" for layer in layers(env))


def carries(env: Environment) -> bool:
    """Returns whether the task, or one of several, keeps part of its state across episodes."""
    task = env.unwrapped
    if isinstance(task, Multitask):
        return any(carries(one) for one in task.envs)
    return isinstance(task, Task) and type(task).carry is not Task.carry
