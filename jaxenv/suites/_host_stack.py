"""Shared parts of ``load`` for suites outside JAX: checks of its keywords, and the stack around an engine."""

import math
import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax

from jaxenv import specs
from jaxenv._util.checks import check_bool, check_choice, check_integer, is_integer, is_real
from jaxenv.core.environment import Environment
from jaxenv.suites._engine import Engine
from jaxenv.suites._gymnasium_engine import GymnasiumEngine
from jaxenv.suites._host import HostEnvironment
from jaxenv.tree import Tree
from jaxenv.wrappers import ClipAction, stack
from jaxenv.wrappers.stack import _make
from jaxenv.wrappers.stack._make import OPTIONS

# The options of worker processes.
PROCESSES = ("vectorization", "timeout", "context")
# Options of `make` that engines take over.
_OWN = {"reset_strategy": "the engine restarts lanes", "fixed_reset_key": "the engine seeds a lane once, at a reset"}


class Options(NamedTuple):
    """The options of `jaxenv.make` that a suite outside JAX has."""

    max_episode_steps: int | None = None
    autoreset: str = "next_step"
    wrappers: Any = ()
    clip_action: bool = True
    mode: str = "train"


def split_keywords(owner: str, num_envs: Any, keywords: Mapping[str, Any]) -> tuple[Options, dict[str, Any]]:
    """Splits the options off the keywords of ``load``; the rest is for the other library."""
    for name, why in _OWN.items():
        if keywords.get(name) is not None:
            raise ValueError(f"{owner}: {name} must be left out, {why}, got {keywords[name]!r}")
    options = Options(**{name: value for name, value in keywords.items() if name in Options._fields})
    if num_envs is not None:
        check_integer(owner, "num_envs", num_envs, 1)
    check_choice(owner, "mode", options.mode, ("train", "eval"))
    check_bool(owner, "clip_action", options.clip_action)
    if options.autoreset != "next_step":
        rule = "autoreset must be 'next_step', since the engine restarts lanes and does not keep the last observation"
        raise ValueError(f"{owner}: {rule} of another mode, got {options.autoreset!r}")
    limit = options.max_episode_steps
    if limit is not None and (not is_integer(limit) or limit < 0):
        rule = "max_episode_steps must be a number of steps for all lanes, 0 for none"
        raise ValueError(f"{owner}: {rule}, got {limit!r}")
    return options, {name: value for name, value in keywords.items() if name not in OPTIONS}


def process_engine(
    owner: str, num_envs: int | None, limit: int | None, make: Callable[..., Any], mode: Any, timeout: Any, context: Any
) -> GymnasiumEngine:
    """Makes the engine of lanes that ``make`` makes, in processes if ``mode``, its vectorization, is ``"async"``."""
    check_choice(owner, "context", context, ("forkserver", "spawn", "fork"))
    if not (is_real(timeout) and 0 < timeout < math.inf):
        raise ValueError(f"{owner}: timeout must be seconds above 0, got {timeout!r}")
    return GymnasiumEngine(owner, int(num_envs or 1), limit or None, make, mode, float(timeout), context)


def action_of(make: Callable[[], Any]) -> Tree:
    """Returns the action spec of lanes that ``make`` makes, ``None`` if it fails, as where a package is missing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Gymnasium's, about ids that have a later version
        try:
            return GymnasiumEngine("", 1, None, make, "sync", 1.0, "spawn").specs.action
        except Exception:  # the environment's own code may raise anything
            return None


def stack_around(engine: Engine, num_envs: int | None, options: Options) -> Environment:
    """Builds the stack around an engine, with the wrappers of ``load``.

    ``num_envs`` counts the lanes of the stack, which may be agents; by default the lanes of the engine's games.
    """
    env: Environment = HostEnvironment(engine, num_envs=engine.num_envs, name=engine.owner)
    actions = jax.tree.leaves(env.action_spec())
    bounded = any(isinstance(s, specs.Bounded) and s.is_bounded and s.is_continuous for s in actions)
    if options.clip_action and bounded:
        env = ClipAction(env)
    base, added = stack.split(_make.wrapped(env, options.wrappers, "load"), env)
    added = stack.for_evaluation(added) if options.mode == "eval" else added
    env = stack.assemble(base, added, autoreset=None)
    return env if num_envs in (None, env.num_envs) else env._with_num_envs(int(num_envs))
