"""Gymnasium's environments as batched environments: ``jaxenv.load("gymnasium:LunarLander-v3", num_envs=8)``.

They run outside JAX, on Gymnasium's own vector environments: ``AsyncVectorEnv`` with shared memory, one process per
lane, or ``SyncVectorEnv`` in this process. Under ``jit`` a step is one ordered ``io_callback`` for the whole batch.

``tests/suites/test_gymnasium.py`` compares episodes with the bare engine; ``docs/suites/gymnasium.md`` has the mapping.
"""

import inspect
import warnings
from typing import Any, Literal

from jaxenv._util.library import import_library, library_of
from jaxenv._util.source import install_command
from jaxenv.core.environment import Environment
from jaxenv.suites._engine import HostEnvironmentError as HostEnvironmentError
from jaxenv.suites._gymnasium_engine import GymnasiumEngine, gymnasium
from jaxenv.suites._host_stack import check_processes, engine_keywords, stack_around
from jaxenv.suites._objects import Instance, Maker
from jaxenv.suites._options import check_known, reporting
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
    limit = _spec(name).max_episode_steps
    engine = GymnasiumEngine(name, {}, 1, vectorization="sync", timeout=60.0, context="forkserver")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Gymnasium's, about ids that have a later version
        try:
            return engine.specs.action, limit
        except Exception:  # the environment's own code may raise anything
            return None, limit


def load(
    name: str,
    /,
    num_envs: int | None = None,
    *,
    vectorization: Vectorization = "async",
    timeout: float = 60.0,
    context: Literal["forkserver", "spawn", "fork"] = "forkserver",
    max_episode_steps: int | None = None,
    autoreset: Literal["next_step"] = "next_step",
    wrappers: Any = (),
    clip_action: bool = True,
    mode: Literal["train", "eval"] = "train",
    **kwargs: Any,
) -> Environment:
    """Builds a Gymnasium environment with its stack of wrappers. Processes start at the first reset.

    Args:
        name: an id that is registered with Gymnasium.
        num_envs: the number of lanes, fixed: ``reset`` makes this many.
        vectorization: ``"async"`` for one process per lane, ``"sync"`` for all lanes in this process, or ``"native"``
            for the id's ``vector_entry_point``.
        timeout: seconds that worker processes have for a step, a reset or a picture; their start has no option.
        context: the start method of the processes.
        max_episode_steps: the limit of Gymnasium's ``TimeLimit``; ``None`` for the id's, 0 for none.
        autoreset: ``"next_step"``, the only mode.
        wrappers: as for `jaxenv.make`; they stand outside the restarts.
        clip_action: clip continuous actions to finite bounds.
        mode: as for `jaxenv.make`.
        **kwargs: keywords of ``gymnasium.make`` and of the environment's constructor.

    Raises:
        ImportError: if Gymnasium is not installed.
        ValueError: for an unknown id, a keyword or a value that is refused, a space without a spec, or a wrapper that
            must stand inside the restarts.
    """
    owner = f"gymnasium:{name}"
    spec = _spec(name)
    kwargs = engine_keywords(owner, num_envs, max_episode_steps, autoreset, clip_action, mode, kwargs)
    check_processes(owner, vectorization, ("async", "sync", "native"), timeout, context)
    if vectorization == "native" and spec.vector_entry_point is None:
        raise ValueError(f"{owner}: vectorization must be 'async' or 'sync', it has no vector_entry_point")
    if vectorization == "native" and max_episode_steps == 0:
        raise ValueError(f"{owner}: max_episode_steps must be at least 1 with vectorization='native', got 0")
    limit = {} if max_episode_steps is None else {"max_episode_steps": int(max_episode_steps) or -1}
    arguments = {**kwargs, **limit}
    engine = GymnasiumEngine(
        name, arguments, int(num_envs or 1), vectorization=vectorization, timeout=float(timeout), context=context
    )
    try:
        with reporting(owner, arguments):
            engine.specs  # noqa: B018 (wrong arguments fail here)
    except ValueError as error:
        if "unexpected keyword" not in str(error):
            raise
        own = [p.name for p in inspect.signature(load).parameters.values() if p.kind is p.KEYWORD_ONLY]
        raise ValueError(f"{error}; load itself takes {', '.join(own)}") from None
    return stack_around(engine, num_envs, wrappers, clip_action, mode)


def load_object(
    env: Any,
    num_envs: int | None = None,
    *,
    vectorization: Literal["async", "sync"] | None = None,
    timeout: float = 60.0,
    context: Literal["forkserver", "spawn", "fork"] = "forkserver",
    max_episode_steps: int | None = None,
    autoreset: Literal["next_step"] = "next_step",
    wrappers: Any = (),
    clip_action: bool = True,
    mode: Literal["train", "eval"] = "train",
) -> Environment:
    """Builds the stack of an environment that the program made itself; `jaxenv.load` calls it.

    Args:
        env: a ``gymnasium.Env``, a ``dm_env.Environment``, or a ``ParallelEnv`` or ``AECEnv`` of PettingZoo, which is
            one lane, or a function without arguments that makes one, which is called for each lane.
        num_envs: the number of lanes.
        vectorization: ``"sync"`` in this process, the default, or ``"async"`` for one process per lane, to which the
            function must travel by pickle.
        max_episode_steps: a time limit around each environment, ``None`` or 0 for its own.
        timeout: as for `load`.
        context: as for `load`.
        autoreset: ``"next_step"``, the only mode.
        wrappers: as for `load`.
        clip_action: as for `load`.
        mode: as for `load`.

    Raises:
        ValueError: for an object with several lanes or in processes, a function that cannot be pickled for processes or
            returns something else, a space without a spec, or an option that `load` refuses.
    """
    one = library_of(env) is not None
    owner = f"load: {type(env).__name__ if one else getattr(env, '__name__', type(env).__name__)}"
    engine_keywords(owner, num_envs, max_episode_steps, autoreset, clip_action, mode, {})
    vectorization = "sync" if vectorization is None else vectorization
    check_processes(owner, vectorization, ("async", "sync"), timeout, context)
    if one and num_envs not in (1, None):
        raise ValueError(
            f"{owner}: num_envs must be 1, an object is one lane: pass a function that makes one, got {num_envs}"
        )
    if one and vectorization == "async":
        raise ValueError(f"{owner}: vectorization must be 'sync', an object stays in this process, got 'async'")
    if vectorization == "async" and context != "fork":
        try:
            import_library("cloudpickle", install_command("gymnasium")).dumps(env)
        except Exception as error:
            raise ValueError(f"{owner}: the function must be picklable for vectorization='async': {error}") from None
    name = owner.removeprefix("load: ")
    make = Maker(Instance(env) if one else env, max_episode_steps or None)
    engine = GymnasiumEngine(
        name, {}, int(num_envs or 1), vectorization=vectorization, timeout=float(timeout), context=context, make=make
    )
    engine.specs  # noqa: B018 (wrong functions and spaces fail here)
    return stack_around(engine, num_envs, wrappers, clip_action, mode)


def _spec(name: str) -> Any:
    check_known("gymnasium", name, ids())
    return gymnasium().spec(name)
