"""The order of a stack: an environment, its wrappers, a time limit and restarts.

From the innermost layer to the outermost:

1. the task, ``FixedResetKey``, then ``GuardNonFinite`` and ``ClipAction``, which contain bad numbers;
2. the given wrappers up to the last one that takes several steps or removes ends;
3. ``TimeLimit``, which counts the steps of the environment inside;
4. the other lane wrappers;
5. ``AutoReset``;
6. the wrappers from the first one with state of the whole batch on.

`jaxenv.make` and the conformance kit build their stacks here.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import jax
import numpy as np

from jaxenv import specs, tree
from jaxenv._util.checks import is_concrete, is_integer
from jaxenv.core._checks.returned import check_specs
from jaxenv.core.bases.stateful import BatchWrapper, LaneWrapper
from jaxenv.core.environment import Environment
from jaxenv.core.facts import AutoResetMode, ResetStrategy
from jaxenv.core.multitask import Multitask
from jaxenv.core.task import Task
from jaxenv.core.wrapper import Wrapper, layers
from jaxenv.wrappers.action.continuous import ClipAction
from jaxenv.wrappers.episode.autoreset import AutoReset
from jaxenv.wrappers.episode.ends import GuardNonFinite
from jaxenv.wrappers.episode.time_limit import TimeLimit
from jaxenv.wrappers.episode.trials import Trials
from jaxenv.wrappers.observation.memory import PreviousActionAndReward


def add_guards(env: Environment, clip_action: bool = True) -> Environment:
    """Adds ``GuardNonFinite`` if actions are continuous or ``env`` can diverge, and ``ClipAction`` if they have bounds.

    ``clip_action=False`` leaves out ``ClipAction``. A guard that is already in the stack is not added again.
    """
    if isinstance(env.unwrapped, Task):
        check_specs(env.unwrapped)
    continuous = [s for s in jax.tree.leaves(env.action_spec()) if s.is_continuous]
    diverges = bool(continuous) or (isinstance(env.unwrapped, Task) and env.unwrapped.can_diverge)
    if diverges and not _has_guard(env, GuardNonFinite):
        env = GuardNonFinite(env)
    bounded = any(isinstance(s, specs.Bounded) and s.is_bounded for s in continuous)
    if clip_action and bounded and not _has_guard(env, ClipAction):
        env = ClipAction(env)
    return env


def _has_guard(env: Environment, guard: type[Wrapper]) -> bool:
    """Returns whether ``env``, or each of its tasks, has a wrapper of this class."""
    tasks = env.unwrapped.envs if isinstance(env.unwrapped, Multitask) else ()
    all_tasks = bool(tasks) and all(_has_guard(task, guard) for task in tasks)
    return all_tasks or any(isinstance(layer, guard) for layer in layers(env))


def split(wrapped: Environment, env: Environment) -> tuple[Environment, list[Wrapper]]:
    """Splits ``wrapped`` into the environment below the wrappers added to ``env``, and these wrappers, innermost first.

    That environment may differ from ``env``, since a callable that adds a wrapper may also rebuild the layers below it.
    """
    found = layers(wrapped)
    num_added = max(0, len(found) - len(layers(env)))
    return found[num_added], [layer for layer in reversed(found[:num_added]) if isinstance(layer, Wrapper)]


def for_evaluation(added: Sequence[Wrapper]) -> list[Wrapper]:
    """Returns the wrappers, innermost first, in the form that ``Wrapper.in_evaluation`` declares for evaluations.

    Raises:
        ValueError: if the observation shows a reward that is left out, or if the policy would not fit without a wrapper
            that is left out.
    """
    hidden = ""  # the innermost wrapper that is left out and owns the reward
    kept: list[Wrapper] = []
    for wrapper in added:
        name, role = type(wrapper).__name__, role_in_evaluation(wrapper)
        if isinstance(wrapper, PreviousActionAndReward) and wrapper.reward and hidden:
            raise ValueError(
                f"make: mode='eval' leaves out {hidden}, so PreviousActionAndReward would show other rewards: "
                f"put PreviousActionAndReward before {hidden} in wrappers"
            )
        if role == "left_out":
            for what in ("observation_spec", "action_spec"):
                if (with_it := getattr(wrapper, what)()) != (without := getattr(wrapper.env, what)()):
                    changed = f"which changes the {what} from {without} to {with_it}"
                    raise ValueError(
                        f"make: mode='eval' leaves out {name}, {changed}: declare in_evaluation = 'kept' in {name}"
                    )
            hidden = hidden or (name if "reward" in wrapper.owns else "")
        else:
            kept.append(wrapper if role == "kept" else dataclasses.replace(wrapper, **role))
    return kept


def role_in_evaluation(wrapper: Wrapper) -> Literal["kept", "left_out"] | Mapping[str, Any]:
    """Returns the role of a wrapper in an evaluation: as it declares, or the default that `Wrapper` states.

    A wrapper that changes the shape of the reward is never left out: the layers outside were built for that shape.
    """
    role = wrapper.in_evaluation
    if role is None and wrapper.owns == {"reward"} and wrapper.place != "several_steps":
        role = "left_out"
    if role == "left_out" and "reward" in wrapper.owns:
        role = role if wrapper.reward_spec().shape == wrapper.env.reward_spec().shape else None
    if role is None:
        return {"frozen": True} if isinstance(wrapper, BatchWrapper) else "kept"
    return role


def training_only(env: Environment) -> Iterator[Wrapper]:
    """Yields the wrappers of a stack, tasks included, that an evaluation leaves out or gives other arguments.

    Reward wrappers without batch state are not among them: a caller may want returns in another reward.
    """
    for layer in layers(env):
        if isinstance(layer, Multitask):
            for task in layer.envs:
                yield from training_only(task)
        if not isinstance(layer, Wrapper):
            continue
        role = role_in_evaluation(layer)
        only_pays = layer.owns == {"reward"} and not isinstance(layer, BatchWrapper)
        arguments = role.items() if isinstance(role, Mapping) else ()
        others = any(not np.array_equal(getattr(layer, name), value) for name, value in arguments)
        if others or (role == "left_out" and not only_pays):
            yield layer


def assemble(
    env: Environment,
    added: Sequence[Wrapper],
    max_episode_steps: Any = None,
    terminal: bool = False,
    autoreset: AutoResetMode = "next_step",
    reset_strategy: ResetStrategy | Mapping[str, ResetStrategy] | None = None,
    follows_params: bool = False,
) -> Environment:
    """Builds the stack of ``env``, the wrappers (innermost first), a time limit and restarts, each in its place.

    A wrapper below which a layer is inserted is checked again. `TimeLimit` and `AutoReset` have the other arguments;
    ``None`` or 0 is no limit, and ``autoreset=None`` no restarts.

    Raises:
        ValueError: for wrappers out of order, naming the two to swap, an invalid limit, or `Trials` without a limit.
    """
    below_limit, below_restarts = limit_place(added), restart_place(added)
    _check_order(added, autoreset)
    for place in range(len(added) + 1):
        if place == below_limit:
            env = _limited(env, max_episode_steps, terminal, follows_params)
        if place == below_restarts and autoreset is not None:
            env = AutoReset(env, autoreset, reset_strategy)
        if place < len(added):
            env = _moved(added[place], env)
    for layer in layers(env):
        if isinstance(layer, Trials):
            layer.check_ends()
    return env


# The largest int32: a limit that no episode reaches.
NEVER = 2**31 - 1


def limit_place(added: Sequence[Wrapper]) -> int:
    """Counts the wrappers, innermost first, that stand inside the time limit."""
    places = [place for place, wrapper in enumerate(added) if stands_inside_limit(wrapper)]
    return places[-1] + 1 if places else 0


def restart_place(added: Sequence[Wrapper]) -> int:
    """Counts the wrappers, innermost first, that stand inside ``AutoReset``."""
    places = [place for place, wrapper in enumerate(added) if wrapper.place == "batch"]
    return places[0] if places else len(added)


def stands_inside_limit(layer: Environment) -> bool:
    """Returns whether a time limit must stand outside a layer, to count the agent's steps and keep its end."""
    return isinstance(layer, Wrapper) and layer.place in ("task", "several_steps", "hides_ends")


def _moves_ends(wrapper: Wrapper) -> bool:
    """Returns whether a wrapper moves the ends of episodes, itself or because the time limit must stand outside it."""
    return stands_inside_limit(wrapper) or "step_type" in wrapper.owns


def _check_order(added: Sequence[Wrapper], autoreset: AutoResetMode) -> None:
    outside = restart_place(added)
    for place, wrapper in enumerate(added):
        name = type(wrapper).__name__
        if isinstance(wrapper, AutoReset):
            raise ValueError("make: AutoReset is added by make, choose its mode with autoreset=")
        if wrapper.place == "sees_ends" and (mover := next(filter(_moves_ends, added[place + 1 : outside]), None)):
            moving = type(mover).__name__
            raise ValueError(f"make: {name} must see where episodes end: put {moving} before {name} in wrappers")
        rewrites = autoreset == "same_step" and isinstance(wrapper, LaneWrapper) and bool(wrapper.rewrites)
        if place > outside and (stands_inside_limit(wrapper) or rewrites or isinstance(wrapper, TimeLimit)):
            blocking = type(added[outside]).__name__
            raise ValueError(
                f"make: {name} must stand inside AutoReset, and {blocking} outside it: "
                f"put {name} before {blocking} in wrappers"
            )


def _limited(env: Environment, limit: Any, terminal: bool, follows_params: bool) -> Environment:
    if isinstance(limit, bool):
        raise ValueError(f"make: max_episode_steps must be a number of steps, 0 for no limit, got {limit}")
    if is_integer(limit) and limit < 0:
        raise ValueError(f"make: max_episode_steps must be at least 0, which is no limit, got {limit}")
    if np.ndim(limit) == 1 and np.shape(limit)[0] != env.num_envs:
        rule = f"one number or one per lane [{env.num_envs}]"
        raise ValueError(f"make: max_episode_steps must be {rule}, got {np.shape(limit)[0]} numbers")
    if limit is None or (is_concrete(limit) and not np.any(np.asarray(limit))):
        return env
    if is_concrete(limit) and np.ndim(limit) == 1:
        limit = np.where(np.asarray(limit) == 0, NEVER, limit)  # lanes without a limit
    try:
        return TimeLimit(env, limit, terminal, follows_params)
    except ValueError as fault:
        raise ValueError(f"make: max_episode_steps: {fault}") from None


def _moved(wrapper: Wrapper, env: Environment) -> Wrapper:
    """Moves a wrapper around ``env``; it is checked again if ``env`` is new to it."""
    if wrapper.env is env:
        return wrapper
    moved = tree.rebuild(wrapper, env=env)
    moved.check()
    return moved
