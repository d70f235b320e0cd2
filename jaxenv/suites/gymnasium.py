"""Gymnasium's environments as batched environments: ``jaxenv.make("gymnasium:LunarLander-v3", num_envs=8)``.

They run outside JAX, on Gymnasium's own vector environments: ``AsyncVectorEnv`` with shared memory, one process per
lane, or ``SyncVectorEnv`` in this process. Under ``jit`` a step is one ordered ``io_callback`` for the whole batch.
"""

import dataclasses
import functools
import importlib
import inspect
import math
import warnings
from collections.abc import Callable
from typing import Any, Literal

from jaxenv._util.checks import check_choice, is_real
from jaxenv._util.library import library_of
from jaxenv._util.names import unknown_keyword
from jaxenv.core.environment import Environment
from jaxenv.suites._engine import Engine
from jaxenv.suites._engine import HostEnvironmentError as HostEnvironmentError
from jaxenv.suites._host import Options, split_keywords, stack_around
from jaxenv.suites._options import check_known, library, reporting
from jaxenv.tree import Tree

_gymnasium = library("gymnasium")
# The options of worker processes.
_PROCESSES = ("vectorization", "timeout", "context")


def ids() -> list[str]:
    """Returns the ids that ``load`` accepts: all ids registered with Gymnasium except this library's own."""
    return sorted(id for id in _gymnasium().registry if not id.startswith("jaxenv/"))


def docstring(name: str) -> str:
    """Returns Gymnasium's docstring of an environment; empty if its package is not installed."""
    entry = _spec(name).entry_point
    try:
        entry = _gymnasium().envs.registration.load_env_creator(entry) if isinstance(entry, str) else entry
    except Exception:  # the package is missing
        return ""
    return inspect.cleandoc(getattr(entry, "__doc__", None) or "").removeprefix("## Description").strip()


def action_and_limit(name: str) -> tuple[Tree, int | None]:
    """Returns the action spec and the time limit of an environment.

    The environment is made and closed for that. The spec is ``None`` if this fails, as where its package is missing.
    """
    spec = _spec(name)
    return action_of(Maker(functools.partial(_gymnasium().make, spec), name)), spec.max_episode_steps


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
    """Builds a Gymnasium environment. Processes start at the first reset, of a fixed number of lanes.

    Args:
        name: an id that is registered with Gymnasium.
        num_envs: the number of lanes.
        vectorization: ``"async"`` for one process per lane, ``"sync"`` for all lanes in this process.
        timeout: seconds that worker processes have for a step, a reset or a picture; their start has no option.
        context: the start method of the processes.
        **kwargs: ``max_episode_steps``, the limit of Gymnasium's ``TimeLimit``, 0 for none; ``wrappers``, which stand
            outside the restarts, ``clip_action`` and ``mode``, as for `jaxenv.make`; ``autoreset``, which is
            ``"next_step"``; keywords of ``gymnasium.make`` and of the environment's constructor.
    """
    owner, spec = f"gymnasium:{name}", _spec(name)
    options, arguments = split_keywords(owner, num_envs, kwargs)
    limit = options.max_episode_steps
    if limit is not None:
        arguments["max_episode_steps"] = int(limit) or -1
    # The spec travels to the workers, whose registries lack this process's registrations.
    make = Maker(functools.partial(_gymnasium().make, spec, **arguments), owner)
    limit = spec.max_episode_steps if limit is None else limit
    engine = process_engine(owner, num_envs, limit, make, vectorization, timeout, context)
    try:
        with reporting(owner, arguments):
            engine.specs  # noqa: B018 (wrong arguments fail here)
    except ValueError as error:
        if "unexpected keyword" not in str(error):
            raise
        raise ValueError(f"{error}; load itself takes {', '.join((*_PROCESSES, *Options._fields))}") from None
    return stack_around(engine, num_envs, options)


def load_object(
    env: Any,
    num_envs: int | None = None,
    *,
    vectorization: Literal["async", "sync"] = "sync",
    timeout: float = 60.0,
    context: Literal["forkserver", "spawn", "fork"] = "forkserver",
    **kwargs: Any,
) -> Environment:
    """Builds the stack of an environment that the program made itself; `jaxenv.make` calls it.

    ``env`` is a ``gymnasium.Env``, a ``dm_env.Environment``, or a ``ParallelEnv`` or ``AECEnv`` of PettingZoo, which is
    one lane of this process, or a function without arguments that makes one for each lane, which must travel by pickle
    to processes. ``max_episode_steps`` is a time limit around each, ``None`` or 0 for its own; the rest as for `load`.
    """
    name = getattr(env, "__name__", type(env).__name__)
    owner = f"load: {name}"
    options, unknown = split_keywords(owner, num_envs, kwargs)
    if unknown:
        raise ValueError(unknown_keyword(owner, next(iter(unknown)), {"options": [*_PROCESSES, *Options._fields]}))
    make = Maker(env, owner, options.max_episode_steps or None)
    if make.has_one and num_envs not in (1, None):
        rule = "num_envs must be 1, an object is one lane: pass a function that makes one"
        raise ValueError(f"{owner}: {rule}, got {num_envs}")
    if make.has_one and vectorization == "async":
        raise ValueError(f"{owner}: vectorization must be 'sync', an object stays in this process, got 'async'")
    if vectorization == "async" and context != "fork":
        try:
            library("gymnasium", "cloudpickle")().dumps(env)
        except Exception as error:
            raise ValueError(f"{owner}: the function must be picklable for vectorization='async': {error}") from None
    limit, full = options.max_episode_steps, f"gymnasium:{name}"
    engine = process_engine(full, num_envs, limit, make, vectorization, timeout, context)
    return stack_around(engine, num_envs, options)


def _spec(name: str) -> Any:
    check_known("gymnasium", name, ids())
    return _gymnasium().spec(name)


# --- engines, also of PettingZoo's games ------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Maker:
    """Makes one lane: an environment of Gymnasium from ``given``, an environment or a function that makes one.

    Environments of dm_env and PettingZoo are adapted. ``max_episode_steps`` is a time limit around the environment.
    """

    given: Any
    owner: str
    max_episode_steps: int | None = None

    @property
    def has_one(self) -> bool:
        """Whether ``given`` is the one environment, which is not copied and belongs to the program."""
        return library_of(self.given) is not None

    def __call__(self) -> Any:
        env = self.given if self.has_one else self.given()
        return _lanes().lane_of(env, self.owner, self.max_episode_steps)

    def __reduce__(self) -> Any:
        if self.has_one:
            raise TypeError("an environment object cannot be copied: pass a function that makes one")
        return Maker, (self.given, self.owner, self.max_episode_steps)


def process_engine(
    owner: str, num_envs: int | None, limit: int | None, make: Callable[..., Any], mode: Any, timeout: Any, context: Any
) -> Engine:
    """Makes the engine of lanes that ``make`` makes, in processes if ``mode``, its vectorization, is ``"async"``."""
    check_choice(owner, "vectorization", mode, ("async", "sync"))
    check_choice(owner, "context", context, ("forkserver", "spawn", "fork"))
    if not (is_real(timeout) and 0 < timeout < math.inf):
        raise ValueError(f"{owner}: timeout must be seconds above 0, got {timeout!r}")
    return _lanes().GymnasiumEngine(owner, int(num_envs or 1), limit or None, make, mode, float(timeout), context)


def action_of(make: Callable[[], Any]) -> Tree:
    """Returns the action spec of lanes that ``make`` makes, ``None`` if it fails, as where a package is missing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Gymnasium's, about ids that have a later version
        try:
            return _lanes().GymnasiumEngine("", 1, None, make, "sync", 1.0, "spawn").specs.action
        except Exception:  # the environment's own code may raise anything
            return None


def _lanes() -> Any:
    return importlib.import_module("jaxenv.suites._gymnasium_lanes")
