"""PettingZoo's games as batched games of several agents: ``jaxenv.make("pettingzoo:classic/connect_four-v3")``.

They run outside JAX, as in `jaxenv.suites.gymnasium`: one process per lane, or all in this process. A game that
PettingZoo registers as a ``ParallelEnv`` has agents that act at once, the others are games of turns.
"""

import functools
import importlib
import inspect
from collections.abc import Mapping
from typing import Any, Literal

from jaxenv.core.environment import Environment
from jaxenv.suites._host import split_keywords, stack_around
from jaxenv.suites._options import check_known, library, reporting
from jaxenv.suites.gymnasium import Maker, action_of, process_engine
from jaxenv.tree import Tree

_pettingzoo = library("pettingzoo")


def ids() -> list[str]:
    """Returns the ids that ``load`` accepts, from PettingZoo's registries."""
    library = _pettingzoo()
    return sorted(library.aec_registry.keys() | library.parallel_registry.keys())


def docstring(name: str) -> str:
    """Returns the sentences of PettingZoo's docstring of a game; empty if a package of the game is not installed."""
    check_known("pettingzoo", name, ids())
    module = _pettingzoo().spec(_kind(name), name).entry_point
    try:
        text = inspect.cleandoc(importlib.import_module(module.partition(":")[0]).__doc__ or "")
    except Exception:  # the package is missing, or the entry point is a function
        return ""
    # Before them stand a title, a picture, a sentence that is the same for all games, and a table.
    passages = text.split("\n\n")
    return "\n\n".join(p for p in passages if not p.startswith(("#", "```", "|", "This environment is part of")))


def action_and_limit(name: str) -> tuple[Tree, int | None]:
    """Returns the action spec, ``None`` where the game cannot be made, and no time limit: its own is an argument."""
    check_known("pettingzoo", name, ids())
    return action_of(_maker(name, {}, None)), None


def load(
    name: str,
    /,
    num_envs: int | None = None,
    *,
    vectorization: Literal["async", "sync"] = "async",
    timeout: float = 60.0,
    context: Literal["forkserver", "spawn", "fork"] = "forkserver",
    **kwargs: Any,
) -> Environment:
    """Builds a game of PettingZoo, such as ``"butterfly/pistonball-v6"``; arguments as for `jaxenv.suites.gymnasium`.

    ``max_episode_steps`` is a time limit around each game, ``None`` or 0 for none but the game's own. Keywords of
    ``pettingzoo.make``, such as ``max_cycles``, go to the game.
    """
    owner = f"pettingzoo:{name}"
    check_known("pettingzoo", name, ids())
    options, arguments = split_keywords(owner, num_envs, kwargs)
    limit = options.max_episode_steps
    engine = process_engine(owner, num_envs, limit, _maker(name, arguments, limit), vectorization, timeout, context)
    with reporting(owner, arguments):
        engine.specs  # noqa: B018 (wrong arguments fail here)
    return stack_around(engine, num_envs, options)


def _maker(name: str, arguments: Mapping[str, Any], limit: int | None) -> Maker:
    # The spec travels to the workers, whose registries lack this process's registrations.
    kind, library = _kind(name), _pettingzoo()
    make = functools.partial(library.make, kind, library.spec(kind, name), **arguments)
    return Maker(make, f"pettingzoo:{name}", limit or None)


def _kind(id: str) -> Literal["parallel", "aec"]:
    return "parallel" if id in _pettingzoo().parallel_registry else "aec"
