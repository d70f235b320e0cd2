"""Shared parts of ``load`` for suites outside JAX: checks of its keywords, and the stack around an engine."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax

from jaxenv import specs
from jaxenv._util.checks import check_bool, check_choice, check_integer, is_integer, is_real
from jaxenv.core.environment import Environment
from jaxenv.suites._engine import Engine
from jaxenv.suites._host import HostEnvironment
from jaxenv.wrappers import ClipAction, stack
from jaxenv.wrappers.stack import _make
from jaxenv.wrappers.stack._make import OPTIONS

# Options that engines take over.
_OWN = {"reset_strategy": "the engine restarts lanes", "fixed_reset_key": "the engine seeds a lane once, at a reset"}


def engine_keywords(
    owner: str, num_envs: Any, limit: Any, autoreset: Any, clip_action: Any, mode: Any, further: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns the keywords in ``further`` that are for the engine; options of ``make`` among them must be ``None``.

    Raises:
        ValueError: for an option that an engine cannot follow.
    """
    if num_envs is not None:
        check_integer(owner, "num_envs", num_envs, 1)
    check_choice(owner, "mode", mode, ("train", "eval"))
    check_bool(owner, "clip_action", clip_action)
    if autoreset != "next_step":
        rule = "autoreset must be 'next_step', since the engine restarts lanes and does not keep the last observation"
        raise ValueError(f"{owner}: {rule} of another mode, got {autoreset!r}")
    for option in sorted(further.keys() & set(OPTIONS)):
        if further[option] is not None:
            raise ValueError(f"{owner}: {option} must be left out, {_OWN[option]}, got {further[option]!r}")
    if limit is not None and (not is_integer(limit) or limit < 0):
        rule = "max_episode_steps must be a number of steps for all lanes, 0 for none"
        raise ValueError(f"{owner}: {rule}, got {limit!r}")
    return {name: value for name, value in further.items() if name not in OPTIONS}


def check_processes(owner: str, vectorization: Any, known: Sequence[str], timeout: Any, context: Any) -> None:
    """Raises a ``ValueError`` for an option of worker processes that they cannot follow."""
    check_choice(owner, "vectorization", vectorization, known)
    check_choice(owner, "context", context, ("forkserver", "spawn", "fork"))
    if not (is_real(timeout) and 0 < timeout < math.inf):
        raise ValueError(f"{owner}: timeout must be seconds above 0, got {timeout!r}")


def stack_around(engine: Engine, num_envs: int | None, wrappers: Any, clip_action: bool, mode: str) -> Environment:
    """Builds the stack around an engine whose specs have been found, with the wrappers of ``load``.

    ``num_envs`` counts the lanes of the stack, which may be agents; by default it has those of the engine's games.
    """
    env: Environment = HostEnvironment(engine, num_envs=engine.num_envs, name=engine.owner)
    actions = jax.tree.leaves(env.action_spec())
    if clip_action and any(isinstance(s, specs.Bounded) and s.is_bounded and s.is_continuous for s in actions):
        env = ClipAction(env)
    base, added = stack.split(_make.wrapped(env, wrappers, "load"), env)
    env = stack.assemble(base, stack.for_evaluation(added) if mode == "eval" else added, autoreset=None)
    return env if num_envs in (None, env.num_envs) else env._with_num_envs(int(num_envs))
