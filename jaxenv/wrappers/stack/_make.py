"""`make`, which builds the complete stack of an environment from its id."""

import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from jaxenv import envs as envs  # registers the ids
from jaxenv._util.checks import check_bool, check_choice, is_integer
from jaxenv._util.library import library_of
from jaxenv.core import registry
from jaxenv.core._checks.given import check_lanes
from jaxenv.core._restart import check_strategy
from jaxenv.core.environment import Environment
from jaxenv.core.facts import AutoResetMode, ResetStrategy
from jaxenv.core.multitask import Multitask
from jaxenv.core.registry import EnvSpec
from jaxenv.core.wrapper import Wrapper, layers
from jaxenv.wrappers import stack
from jaxenv.wrappers.agents.agents_as_lanes import AgentsAsLanes
from jaxenv.wrappers.episode.starts import FixedResetKey
from jaxenv.wrappers.episode.time_limit import TimeLimit
from jaxenv.wrappers.stack._wrapper_data import PRESETS, wrap, wrapper_class

WrapperLike = Callable[[Environment], Environment] | str | tuple[str | type[Wrapper], Mapping[str, Any]]


def make(
    id: Any,
    num_envs: int | None = None,
    *,
    max_episode_steps: Any = None,
    autoreset: AutoResetMode = "next_step",
    wrappers: Sequence[WrapperLike] = (),
    clip_action: bool = True,
    mode: Literal["train", "eval"] = "train",
    reset_strategy: ResetStrategy | Mapping[str, ResetStrategy] | None = None,
    fixed_reset_key: Any = None,
    **params: Any,
) -> Environment:
    """Makes an environment of any suite, with its time limit, restarts and wrappers in the order of `jaxenv.stack`.

    Several ids make one batch whose lanes play one of the tasks each, a `Multitask`:
    ``make(["CartPole-v0", "CartPole-v1"], num_envs=8)``. The specs of the tasks must be equal. Every task keeps its
    registered time limit. Params and constructor arguments go to all tasks, and each task must have them. Wrappers go
    around the `Multitask`, except that the wrappers up to the last one that must be inside a time limit, such as
    `ActionRepeat`, go around each task.

    An environment of Gymnasium, dm_env or PettingZoo that the program made itself is a batch of one lane, and a
    function that makes one is called for each lane: ``make(lambda: MyEnv(size=5), num_envs=8)``. Options are the
    arguments of ``jaxenv.suites.gymnasium.load_object``.

    ``make.batched`` is True: one call makes the whole batch. `load` is another name of this function.

    Args:
        id: a registered id; ``"suite:ID"``; ``"module:ID"`` to import the module that registers it; a sequence of ids;
            an `EnvSpec` that is not registered; or an environment of Gymnasium, dm_env or PettingZoo, or a function
            that makes one.
        num_envs: number of lanes that ``reset`` makes from one key; a batch of keys makes one lane per key. By default
            one, or with `AgentsAsLanes` the lanes of one game.
        max_episode_steps: ``None`` for the registered limit, 0 for no limit, a number, or int32 ``[num_envs]``, where
            0 means no limit. The limit counts agent steps. A given limit applies to the stack alone. If the
            reward depends on the limit, as in MiniGrid, the registered limit follows from the task's params.
        autoreset: ``"next_step"``, ``"same_step"``, or ``None`` if the caller restarts lanes by ``reset_where``.
        wrappers: innermost first: callables ``env -> env``, such as a wrapper class, names in ``jaxenv.wrappers`` or
            of registered wrappers (`jaxenv.wrappers.register`), or ``(name, kwargs)`` or ``(class, kwargs)``.
        clip_action: clip continuous actions to finite bounds.
        mode: ``"eval"`` keeps, freezes or leaves out each of ``wrappers`` as its class declares
            (``Wrapper.in_evaluation``): statistics stand still; rewards and episodes come from the task.
        reset_strategy: how `AutoReset` restarts lanes: ``"select"``, ``"cond"`` or ``"compact"``, or one of them per
            platform with a ``"default"`` entry; ``None`` for the strategy that the environment declares.
        fixed_reset_key: a typed key (or ``Key[num_envs]``); every episode of a lane starts in the state it gives.
        **params: params of the physics and constructor arguments; an array ``[num_envs]`` gives each lane its own.
            With several ids also ``task`` and ``agent_chooses``, the arguments of `Multitask`.

    Raises:
        ValueError: for an unknown id, suite, module, name or option, listing the valid ones; for wrappers out of order,
            naming the two to swap; for tasks with different specs; or for a value that an environment or wrapper
            refuses.
    """
    options = (max_episode_steps, autoreset, wrappers, clip_action, mode, reset_strategy, fixed_reset_key)
    changed = {name: x for (name, default), x in zip(_DEFAULTS.items(), options, strict=True) if x is not default}
    if isinstance(id, list | tuple):
        return _make_tasks(id, 1 if num_envs is None else num_envs, **changed, **params)
    if _is_foreign(id):
        return importlib.import_module(registry.SUITES["gymnasium"]).load_object(id, num_envs, **changed, **params)
    if isinstance(id, str) and (suite := registry.suite_of(id)) is not None:
        return importlib.import_module(registry.SUITES[suite]).load(id.partition(":")[2], num_envs, **changed, **params)
    spec = id if isinstance(id, EnvSpec) else registry.spec(id)
    check_choice("make", "mode", mode, ("train", "eval"))
    check_choice("make", "autoreset", autoreset, ("next_step", "same_step", None))
    check_strategy("make", reset_strategy)
    check_bool("make", "clip_action", clip_action)
    spec.check_keywords(params, ["num_envs", *OPTIONS])
    _check_wrappers("make", wrappers)
    env = spec.make(num_games(spec, num_envs, wrappers, params), **params)
    if any(isinstance(layer, TimeLimit) for layer in layers(env)):
        hint = "register the id with max_episode_steps= instead (terminal_limit=True if it ends the task)"
        raise ValueError(f"{spec.id}: make adds the time limit, but {env} already has one: {hint}")
    if fixed_reset_key is not None:
        env = FixedResetKey(env, fixed_reset_key)
    env = stack.add_guards(env, clip_action)
    base, added = stack.split(wrapped(env, wrappers, "make"), env)
    if mode == "eval":
        added = stack.for_evaluation(added)
    limit, follows_params = max_episode_steps, max_episode_steps is None and spec.limit_follows_params
    if follows_params and (limit := getattr(env.unwrapped, "time_limit", None)) is None:
        raise ValueError(f"{spec.id}: limit_follows_params must be False for a task without a time_limit, got True")
    if limit is None:
        limit = spec.max_episode_steps
    env = stack.assemble(base, added, limit, spec.terminal_limit, autoreset, reset_strategy, follows_params)
    if num_envs is not None and env.num_envs != num_envs:  # a function of wrappers made agents lanes
        env = env._with_num_envs(num_envs)
    check_lanes(env, env.num_envs)
    return env


_DEFAULTS = {p.name: p.default for p in inspect.signature(make).parameters.values() if p.kind is p.KEYWORD_ONLY}
OPTIONS = list(_DEFAULTS)
make.batched = True  # type: ignore[attr-defined]


def load(id: Any, num_envs: int | None = None, **kwargs: Any) -> Environment:
    """Makes an environment as `make` does. ``load`` is its name in ALF, where ``load.batched`` is True, too."""
    return make(id, num_envs, **kwargs)


load.batched = True  # type: ignore[attr-defined]


def _is_foreign(id: Any) -> bool:
    """Returns whether ``id`` is an environment of Gymnasium, dm_env or PettingZoo, or a function that makes one."""
    if isinstance(id, str | Environment | EnvSpec):
        return False
    is_made = isinstance(id, type) and issubclass(id, Environment)
    return (callable(id) and not is_made) or library_of(id) is not None


def num_games(spec: EnvSpec, num_envs: int | None, wrappers: Any, given: Mapping[str, Any]) -> int:
    """Returns how many lanes the task has, so that the stack has ``num_envs``: fewer where its agents become lanes.

    ``num_envs=None`` is one lane of the task. ``given`` holds params and constructor arguments.
    """
    if num_envs is None:
        return 1
    kinds = [entry[0] if isinstance(entry, tuple | list) and entry else entry for entry in wrappers]
    if not is_integer(num_envs) or not any(kind in (AgentsAsLanes, "AgentsAsLanes") for kind in kinds):
        return num_envs
    options = {name: value for name, value in given.items() if name not in spec.params}
    agents = spec.make(1, **options).num_agents
    return num_envs // agents if num_envs % agents == 0 else num_envs  # the wrapper refuses a part of a game


def wrapped(env: Environment, wrappers: Any, owner: str) -> Environment:
    """Wraps ``env`` in a sequence of `WrapperLike`, innermost first; errors start with ``owner``."""
    _check_wrappers(owner, wrappers)
    for place, wrapper in enumerate(wrappers):
        env = _wrapped(env, wrapper, f"{owner}: wrappers[{place}]")
    return env


def _check_wrappers(owner: str, wrappers: Any) -> None:
    if isinstance(wrappers, str) or not isinstance(wrappers, Sequence):
        such = f"[{wrappers!r}]" if isinstance(wrappers, str) else "['FlattenObservation']"
        if isinstance(wrappers, str) and wrappers in PRESETS:
            such = f"jaxenv.wrappers.preset({wrappers!r})"
        raise ValueError(f"{owner}: wrappers must be a sequence of wrappers, such as {such}, got {wrappers!r}")


def _wrapped(env: Environment, wrapper: Any, owner: str) -> Environment:
    """Wraps ``env`` in a `WrapperLike`; errors start with ``owner``."""
    if isinstance(wrapper, Environment):
        raise ValueError(f"{owner} is the environment {wrapper}, pass a class, (name, arguments) or a function")
    kind, arguments = wrapper if isinstance(wrapper, tuple | list) and len(wrapper) == 2 else (wrapper, {})
    if isinstance(kind, str) or (isinstance(kind, type) and issubclass(kind, Wrapper)):
        if not isinstance(arguments, Mapping):
            name = getattr(kind, "__name__", kind)
            raise ValueError(f"{owner}: the arguments of {name} must be a dict, got {arguments!r}")
        return wrap(env, wrapper_class(kind, owner) if isinstance(kind, str) else kind, arguments, owner)
    if not callable(wrapper):
        rule = "must be a wrapper class, a name, one of them with its arguments as a dict, or a function"
        hint = ": a name and its arguments are one entry, [(name, {...})]" if isinstance(wrapper, Mapping) else ""
        raise ValueError(f"{owner} {rule}, got {wrapper!r}{hint}")
    wrapped = wrapper(env)
    if not isinstance(wrapped, Environment):
        raise ValueError(f"{owner} must return an environment, got {wrapped!r}")
    return wrapped


# --- several tasks ---------------------------------------------------------------------------------------------------

# Keywords of `make` that apply to each task rather than to the `Multitask`.
_OF_TASKS = ("max_episode_steps", "clip_action", "fixed_reset_key")


def _make_tasks(
    ids: Sequence[str], num_envs: int, *, task: Any = -1, agent_chooses: bool = False, wrappers: Any = (), **kwargs: Any
) -> Environment:
    if not ids or not all(isinstance(id, str) for id in ids):
        raise ValueError(f"make: id must be an id or a sequence of ids, got {ids!r}")
    _check_wrappers("make", wrappers)
    outside = {name: value for name, value in kwargs.items() if name in OPTIONS and name not in _OF_TASKS}
    inside = {name: value for name, value in kwargs.items() if name not in outside}

    def multitask(num_envs: int, wrappers: Sequence[WrapperLike] = ()) -> Environment:
        mode = kwargs.get("mode", "train")
        tasks = [make(id, num_envs, autoreset=None, mode=mode, wrappers=wrappers, **inside) for id in ids]
        return Multitask(_with_limits(tasks), task, agent_chooses=agent_chooses)

    below = _num_inside_limit(multitask(num_envs), wrappers) if wrappers else 0
    spec = EnvSpec("+".join(ids), lambda num_envs: multitask(num_envs, wrappers[:below]))
    return make(spec, num_envs, clip_action=False, wrappers=wrappers[below:], **outside)


def _with_limits(tasks: list[Environment]) -> list[Environment]:
    """Gives each task a `TimeLimit` if one of them has one, since a limit adds an entry to ``env_info``."""
    limited = [any(isinstance(layer, TimeLimit) for layer in layers(env)) for env in tasks]
    if not any(limited):
        return tasks
    return [env if has else TimeLimit(env, stack.NEVER) for env, has in zip(tasks, limited, strict=True)]


def _num_inside_limit(env: Environment, wrappers: Sequence[WrapperLike]) -> int:
    """Counts the ``wrappers`` up to the last one that a time limit must stand outside of."""
    below = 0
    for place, wrapper in enumerate(wrappers):
        inner, env = env, _wrapped(env, wrapper, f"make: wrappers[{place}]")
        if any(map(stack.stands_inside_limit, stack.split(env, inner)[1])):
            below = place + 1
    return below
