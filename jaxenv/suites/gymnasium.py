"""Gymnasium's environments as batched environments: ``jaxenv.make("gymnasium:LunarLander-v3", num_envs=8)``.

They run outside JAX, on Gymnasium's own vector environments: ``AsyncVectorEnv`` with shared memory, one process per
lane, or ``SyncVectorEnv`` in this process. Under ``jit`` a step is one ordered ``io_callback`` for the whole batch.
"""

import functools
import inspect
from typing import Any, Literal

from jaxenv._util.checks import check_choice
from jaxenv._util.names import unknown_keyword
from jaxenv.core.environment import Environment
from jaxenv.suites._engine import HostEnvironmentError as HostEnvironmentError
from jaxenv.suites._gymnasium_engine import Maker, gymnasium
from jaxenv.suites._host import PROCESSES, Options, action_of, process_engine, split_keywords, stack_around
from jaxenv.suites._options import check_known, library, reporting
from jaxenv.tree import Tree

Vectorization = Literal["async", "sync", "native"]


def ids() -> list[str]:
    """Returns the ids that ``load`` accepts: all ids registered with Gymnasium except this library's own."""
    return sorted(id for id in gymnasium().registry if not id.startswith("jaxenv/"))


def docstring(name: str) -> str:
    """Returns Gymnasium's docstring of an environment; empty if its package is not installed."""
    spec = _spec(name)
    entry = spec.entry_point
    try:
        entry = gymnasium().envs.registration.load_env_creator(entry) if isinstance(entry, str) else entry
    except Exception:  # the package is missing
        return ""
    text = inspect.cleandoc(getattr(entry, "__doc__", None) or "")
    return text.removeprefix("## Description").strip()


def action_and_limit(name: str) -> tuple[Tree, int | None]:
    """Returns the action spec and the time limit of an environment.

    The environment is made and closed for that. The spec is ``None`` if this fails, as where its package is missing.
    """
    spec = _spec(name)
    return action_of(Maker(functools.partial(gymnasium().make, spec), name)), spec.max_episode_steps


def load(
    name: str,
    /,
    num_envs: int | None = None,
    *,
    vectorization: Vectorization = "async",
    timeout: float = 60.0,
    context: Literal["forkserver", "spawn", "fork"] = "forkserver",
    **kwargs: Any,
) -> Environment:
    """Builds a Gymnasium environment. Processes start at the first reset, of a fixed number of lanes.

    Args:
        name: an id that is registered with Gymnasium.
        num_envs: the number of lanes.
        vectorization: ``"async"`` for one process per lane, ``"sync"`` for all lanes in this process, or ``"native"``
            for the id's ``vector_entry_point``.
        timeout: seconds that worker processes have for a step, a reset or a picture; their start has no option.
        context: the start method of the processes.
        **kwargs: ``max_episode_steps``, the limit of Gymnasium's ``TimeLimit``, 0 for none; ``wrappers``, which stand
            outside the restarts, ``clip_action`` and ``mode``, as for `jaxenv.make`; ``autoreset``, which is
            ``"next_step"``; keywords of ``gymnasium.make`` and of the environment's constructor.
    """
    owner, spec, native = f"gymnasium:{name}", _spec(name), vectorization == "native"
    options, arguments = split_keywords(owner, num_envs, kwargs)
    check_choice(owner, "vectorization", vectorization, ("async", "sync", "native"))
    if native and spec.vector_entry_point is None:
        raise ValueError(f"{owner}: vectorization must be 'async' or 'sync', it has no vector_entry_point")
    limit = options.max_episode_steps
    if native and limit == 0:
        raise ValueError(f"{owner}: max_episode_steps must be at least 1 with vectorization='native', got 0")
    if limit is not None:
        arguments["max_episode_steps"] = int(limit) or -1
    if native:
        mode = "vector_entry_point"
        make: Any = functools.partial(gymnasium().make_vec, name, vectorization_mode=mode, **arguments)
    else:
        # The spec travels to the workers, whose registries lack this process's registrations.
        make = Maker(functools.partial(gymnasium().make, spec, **arguments), owner)
    limit = spec.max_episode_steps if limit is None else limit
    engine = process_engine(owner, num_envs, limit, make, vectorization, timeout, context)
    try:
        with reporting(owner, arguments):
            engine.specs  # noqa: B018 (wrong arguments fail here)
    except ValueError as error:
        if "unexpected keyword" not in str(error):
            raise
        raise ValueError(f"{error}; load itself takes {', '.join((*PROCESSES, *Options._fields))}") from None
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
        raise ValueError(unknown_keyword(owner, next(iter(unknown)), {"options": [*PROCESSES, *Options._fields]}))
    check_choice(owner, "vectorization", vectorization, ("async", "sync"))
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
    return gymnasium().spec(name)
