"""PettingZoo's games as batched games of several agents: ``jaxenv.load("pettingzoo:classic/connect_four-v3")``.

They run outside JAX, like those of `jaxenv.suites.gymnasium`: one process per lane, or all in this process. A game that
PettingZoo registers as a ``ParallelEnv`` has agents that act at once, the others are games of turns.

``tests/suites/test_pettingzoo.py`` compares games with PettingZoo's own loop; ``docs/suites/pettingzoo.md`` has the
mapping.
"""

import functools
import inspect
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Literal

from jaxenv._util.library import import_library
from jaxenv._util.source import install_command
from jaxenv.core.environment import Environment
from jaxenv.suites._gymnasium_engine import GymnasiumEngine
from jaxenv.suites._host_stack import check_processes, engine_keywords, stack_around
from jaxenv.suites._options import check_known, reporting
from jaxenv.suites._pettingzoo_lane import make_lane
from jaxenv.suites._step_pipes import ByValue
from jaxenv.tree import Tree


class PettingZooEngine(GymnasiumEngine):
    """Games of PettingZoo as lanes of a vector environment of Gymnasium.

    Args:
        id: an id of PettingZoo's registries.
        arguments: keywords of the game.
        num_envs: the number of lanes.
        limit: a time limit in steps around each game, or ``None``.
        vectorization: ``"async"`` or ``"sync"``.
        timeout: as for `GymnasiumEngine`.
        context: as for `GymnasiumEngine`.
    """

    suite = "pettingzoo"

    def __init__(self, id: str, arguments: Mapping[str, Any], num_envs: int, *, limit: int | None, **processes: Any):
        super().__init__(id, arguments, num_envs, **processes)
        self.options = {"limit": limit, **processes}
        self._limit = limit

    @property
    def limit(self) -> int | None:
        return self._limit

    def _single(self) -> Callable[[], Any]:
        kind = _kind(self.id)
        spec = _pettingzoo().spec(kind, self.id)
        return functools.partial(ByValue(make_lane), kind, spec, self.owner, self._limit, dict(self.arguments))


def ids() -> list[str]:
    """Returns the ids that ``load`` accepts: those of PettingZoo's registries."""
    library = _pettingzoo()
    return sorted(library.aec_registry.keys() | library.parallel_registry.keys())


def docstring(name: str) -> str:
    """Returns the sentences of PettingZoo's docstring of a game; empty if a package of the game is not installed."""
    check_known("pettingzoo", name, ids())
    module = _pettingzoo().spec(_kind(name), name).entry_point
    try:
        text = inspect.cleandoc(import_library(module.partition(":")[0], "").__doc__ or "")
    except Exception:  # the package is missing, or the entry point is a function
        return ""
    # Before them stand a title, a picture, a sentence that is the same for all games, and a table.
    passages = text.split("\n\n")
    return "\n\n".join(p for p in passages if not p.startswith(("#", "```", "|", "This environment is part of")))


def action_and_limit(name: str) -> tuple[Tree, int | None]:
    """Returns the action spec, ``None`` where the game cannot be made, and no time limit: its own is an argument."""
    check_known("pettingzoo", name, ids())
    engine = PettingZooEngine(name, {}, 1, limit=None, vectorization="sync", timeout=60.0, context="forkserver")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return engine.specs.action, None
        except Exception:  # the game's own code may raise anything
            return None, None


def load(
    name: str,
    /,
    num_envs: int | None = None,
    *,
    vectorization: Literal["async", "sync"] = "async",
    timeout: float = 60.0,
    context: Literal["forkserver", "spawn", "fork"] = "forkserver",
    max_episode_steps: int | None = None,
    autoreset: Literal["next_step"] = "next_step",
    wrappers: Any = (),
    clip_action: bool = True,
    mode: Literal["train", "eval"] = "train",
    **kwargs: Any,
) -> Environment:
    """Builds a game of PettingZoo with its stack of wrappers. Processes start at the first reset.

    Args:
        name: an id that is registered with PettingZoo, such as ``"butterfly/pistonball-v6"``.
        num_envs: the number of lanes, fixed: ``reset`` makes this many; by default those of one game.
        vectorization: ``"async"`` for one process per lane, or ``"sync"`` for all lanes in this process.
        timeout: seconds that worker processes have for a step, a reset or a picture; their start has no option.
        context: the start method of the processes.
        max_episode_steps: a time limit around each game, ``None`` or 0 for none but the game's own.
        autoreset: ``"next_step"``, the only mode.
        wrappers: as for `jaxenv.make`; they stand outside the restarts.
        clip_action: clip continuous actions to finite bounds.
        mode: as for `jaxenv.make`.
        **kwargs: keywords of ``pettingzoo.make``, such as ``max_cycles``, which are those of the game.

    Raises:
        ImportError: if PettingZoo is not installed.
        ValueError: for an unknown id, a keyword or a value that is refused, or agents whose spaces have no joint spec.
    """
    owner = f"pettingzoo:{name}"
    check_known("pettingzoo", name, ids())
    arguments = engine_keywords(owner, num_envs, max_episode_steps, autoreset, clip_action, mode, kwargs)
    check_processes(owner, vectorization, ("async", "sync"), timeout, context)
    engine = PettingZooEngine(
        name,
        arguments,
        int(num_envs or 1),
        limit=int(max_episode_steps) if max_episode_steps else None,
        vectorization=vectorization,
        timeout=float(timeout),
        context=context,
    )
    with reporting(owner, arguments):
        engine.specs  # noqa: B018 (wrong arguments fail here)
    return stack_around(engine, num_envs, wrappers, clip_action, mode)


def _kind(id: str) -> Literal["parallel", "aec"]:
    return "parallel" if id in _pettingzoo().parallel_registry else "aec"


def _pettingzoo() -> Any:
    return import_library("pettingzoo", install_command("pettingzoo"))
