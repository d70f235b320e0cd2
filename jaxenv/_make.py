"""`make` and `load`, which build the complete stack of an environment from its id."""

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, get_args

from jaxenv import registry, stack
from jaxenv._checks import check_bool, check_choice
from jaxenv._stack_data import build
from jaxenv.environment import AutoResetMode, Environment, ResetStrategy
from jaxenv.wrappers import FixedResetKey

WrapperLike = Callable[[Environment], Environment] | str | tuple[str, Mapping[str, Any]]


def make(
    id: str | registry.EnvSpec,
    num_envs: int = 1,
    *,
    max_episode_steps: Any = None,
    autoreset: AutoResetMode = "next_step",
    wrappers: Sequence[WrapperLike] = (),
    clip_action: bool = True,
    mode: Literal["train", "eval"] = "train",
    reset: ResetStrategy | None = None,
    fixed_reset_key: Any = None,
    **params,
) -> Environment:
    """Makes an environment with its time limit, restarts and wrappers, in the order of `jaxenv.stack`.

    Args:
        id: a registered id, or an `EnvSpec` that is not registered.
        num_envs: number of lanes that ``reset`` makes from one key; a batch of keys makes one lane per key.
        max_episode_steps: ``None`` for the registered limit, 0 for no limit, a number, or int32 ``[num_envs]``. The
            limit counts agent steps.
        autoreset: ``"next_step"``, ``"same_step"``, or ``None`` if the caller restarts lanes by ``reset_where``.
        wrappers: innermost first: callables ``env -> env``, such as a wrapper class, names in ``jaxenv.wrappers``, or
            ``(name, kwargs)``.
        clip_action: clip continuous actions to finite bounds.
        mode: ``"eval"`` freezes wrappers with batch state and leaves out those that own only the reward.
        reset: how lanes are restarted, the ``strategy`` of `AutoReset`: ``"select"``, ``"cond"`` or ``"compact"``;
            ``None`` for the one that the environment declares.
        fixed_reset_key: a typed key (or ``Key[num_envs]``); every episode of a lane starts in the state it gives.
        **params: params of the physics and constructor arguments; an array ``[num_envs]`` gives each lane its own.

    Raises:
        ValueError: for an unknown id, name or option, listing the valid ones; for wrappers out of order, naming the two
            to swap; or for a value that an environment or wrapper refuses.
    """
    check_choice("make", "mode", mode, ("train", "eval"))
    check_choice("make", "autoreset", autoreset, ("next_step", "same_step", None))
    check_choice("make", "reset", reset, (*get_args(ResetStrategy), None))
    check_bool("make", "clip_action", clip_action)
    spec = id if isinstance(id, registry.EnvSpec) else registry.spec(id)
    env = spec.make(num_envs, **params)
    if fixed_reset_key is not None:
        env = FixedResetKey(env, fixed_reset_key)
    env = stack.add_guards(env, clip_action)
    wrapped = env
    if isinstance(wrappers, str) or not isinstance(wrappers, Sequence):
        example = wrappers if isinstance(wrappers, str) else "ClipReward"
        raise ValueError(f"make: wrappers must be a sequence of wrappers, such as [{example!r}], got {wrappers!r}")
    for wrapper in wrappers:
        wrapped = _builder(wrapper)(wrapped)
        if not isinstance(wrapped, Environment):
            raise ValueError(f"make: a wrapper must return an environment, {wrapper!r} returned {wrapped!r}")
    base, added = stack.split(wrapped, env)
    if mode == "eval":
        added = stack.for_evaluation(added)
    limit = spec.max_episode_steps if max_episode_steps is None else max_episode_steps
    env = stack.assemble(base, added, limit, spec.terminal_limit, autoreset, reset)
    env.check_lanes(num_envs)
    return env


# Suites of other libraries' environments: prefix -> module with a function ``load(name, num_envs, **kwargs)``.
SUITES = {"gymnax": "jaxenv.suites.gymnax"}


def load(id: str, num_envs: int = 1, **kwargs) -> Environment:
    """`make` across suites: ``load("CartPole-v1", num_envs=8)``; a prefix names a suite: ``"suite:id"``.

    ``load.batched`` is True: one call makes the whole batch.

    Raises:
        ValueError: for an unknown suite or id.
    """
    if not isinstance(id, str) or ":" not in id:
        return make(id, num_envs, **kwargs)
    suite, _, name = id.partition(":")
    if suite not in SUITES:
        known = ", ".join(sorted(SUITES))
        raise ValueError(f"load: no suite {suite!r} (known: {known}); ids of jaxenv itself have no prefix")
    return importlib.import_module(SUITES[suite]).load(name, num_envs, **kwargs)


load.batched = True  # type: ignore[attr-defined]


def _builder(wrapper: WrapperLike) -> Callable[[Environment], Environment]:
    if callable(wrapper):
        return wrapper
    pair = (wrapper, {}) if isinstance(wrapper, str) else wrapper
    match pair:
        case [str(name), Mapping() as kwargs]:
            return lambda env: build(env, name, kwargs, "make")
    raise ValueError(f"make: a wrapper must be a callable env -> env, a name or (name, kwargs), got {wrapper!r}")
