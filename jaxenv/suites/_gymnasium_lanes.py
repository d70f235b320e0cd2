"""Gymnasium's vector environments as engines: the lanes as environments of Gymnasium, and their processes."""

import contextlib
import dataclasses
import importlib
import multiprocessing
import os
import queue
from collections.abc import Mapping, Sequence
from multiprocessing.util import Finalize
from typing import Any

import jax
import numpy as np

from jaxenv import specs
from jaxenv._util.library import import_library, library_of
from jaxenv._util.source import install_command
from jaxenv.specs._from_gymnasium import spec_of, widest
from jaxenv.suites._engine import Engine, EngineSpecs, HostEnvironmentError, cast
from jaxenv.tree import Tree

gymnasium = import_library("gymnasium", install_command("gymnasium"))
spaces = gymnasium.spaces
_async_worker = importlib.import_module("gymnasium.vector.async_vector_env")._async_worker

# Seconds in which a process must import the script and make its environment. On a busy machine it takes long.
_LONGEST_START = 600.0
# Seconds in which an exception must arrive, and in which a killed process must be gone.
_GRACE = 5.0
_AT_START = (
    " before it had made its environment; its error is printed above (a script must load environments below "
    'if __name__ == "__main__":, or pass context="fork")'
)


@dataclasses.dataclass(eq=False)
class GymnasiumEngine(Engine):
    """A vector environment of Gymnasium; its workers are processes with ``vectorization="async"``."""

    make: Any  # a `Maker`
    vectorization: str  # "async" or "sync"
    timeout: float  # seconds that the workers have for a step, a reset or a picture
    context: str  # the start method of the worker processes

    def _find_specs(self) -> EngineSpecs:
        """Reads the specs from an environment that is made and closed for it; infos have no fixed structure."""
        env = self.make()
        if not self.make.has_one:
            env.close()
        observation, action = (
            spec_of(getattr(env, f"{name}_space"), gymnasium.spaces, f"{self.owner}: {name}")
            for name in ("observation", "action")
        )
        game = env.unwrapped
        if not hasattr(game, "jaxenv_agents"):
            return EngineSpecs(observation, action, {}, render_mode=env.render_mode)
        names, turns = game.jaxenv_agents
        shown: Any = observation  # what `_pettingzoo_lanes` shows
        if not turns:  # an agent that has left observes zeros
            shown["observation"] = jax.tree.map(_with_zero, shown["observation"])
        of_state = tuple(name for name in shown["info"] if name != "agent_terminated")
        return EngineSpecs(shown["observation"], action, shown["info"], names, turns, of_state, env.render_mode)

    # --- episodes ----------------------------------------------------------------------------------------------------

    def _restart(self, seeds: list[int]) -> tuple[Tree, Mapping[str, Any]]:
        if self._env is None:
            self._start()
        shown, _ = self._env.reset(seed=seeds)
        return (shown["observation"], shown["info"]) if self.specs.reward_shape else (shown, {})

    def _advance(self, action: Tree) -> tuple[Tree, Any, Any, Any, Mapping[str, Any]]:
        shown, reward, terminated, truncated, _ = self._env.step(cast(self._env.single_action_space, action))
        if self.specs.reward_shape:
            return shown["observation"], shown["reward"], terminated, truncated, shown["info"]
        return shown, reward, terminated, truncated, {}

    def _pictures(self) -> Any:
        return self._env.render()

    def _start(self) -> None:
        makers = [self.make] * self.num_envs
        if self.vectorization == "sync":
            # Observations are copied on the way to JAX.
            self._env = gymnasium.vector.SyncVectorEnv(makers, copy=False)
        else:
            if self.context == "forkserver":
                multiprocessing.set_forkserver_preload(["__main__", __name__])  # imported once for all workers
            self._env = Workers.__new__(Workers)  # known to `_stop` before its processes start
            self._env.__init__(makers, self.context, self.timeout)
        # Gymnasium does not close lanes that are dropped. At exit this runs before multiprocessing, whatever was
        # imported first, joins workers, which may ignore its SIGTERM. In a fork it does nothing.
        self._finalizer = Finalize(self, _close, (self._env,), exitpriority=0)

    def _reason(self, error: Exception) -> str:
        return (isinstance(self._env, Workers) and self._env.reason(error)) or super()._reason(error)


def _close(env: Any) -> None:
    with contextlib.suppress(Exception):
        env.close()


def _with_zero(spec: specs.Array) -> specs.Array:
    if not isinstance(spec, specs.Bounded):
        return spec
    return spec.replace(minimum=np.minimum(spec.minimum, 0), maximum=np.maximum(spec.maximum, 0))


# --- one lane ---------------------------------------------------------------------------------------------------------


def lane_of(env: Any, owner: str, max_episode_steps: int | None) -> Any:
    """Returns an environment of Gymnasium, dm_env or PettingZoo as one of Gymnasium, with a time limit around it."""
    library = library_of(env)
    if library is None:
        kinds = "a gymnasium.Env, a dm_env.Environment or a game of PettingZoo"
        raise ValueError(f"{owner}: the function must return {kinds}, got {env!r}")
    if library == "dm_env":
        env = DmEnvLane(env)
    elif library == "pettingzoo":
        env = importlib.import_module("jaxenv.suites._pettingzoo_lanes").game_of(env, owner)
    env = WithoutInfo(env)
    return gymnasium.wrappers.TimeLimit(env, max_episode_steps) if max_episode_steps else env


class WithoutInfo(gymnasium.Wrapper):  # type: ignore[name-defined]
    """Drops infos, which no row shows: pickling and merging them takes longer than a small step."""

    def reset(self, **options: Any) -> Any:
        return super().reset(**options)[0], {}

    def step(self, action: Any) -> Any:
        return *super().step(action)[:4], {}


class DmEnvLane(gymnasium.Env):  # type: ignore[name-defined]
    """An environment of dm_env. It has no seeds; step types and ends map one to one."""

    def __init__(self, env: Any):
        self.env = env
        self.observation_space, self.action_space = _space(env.observation_spec()), _space(env.action_spec())

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return self.env.reset().observation, {}

    def step(self, action: Tree) -> Any:
        row = self.env.step(action)
        if row.discount not in (0, 1, None) or (row.discount == 0 and not row.last()):
            rule = "the discount must be 1, or 0 on a LAST row: Gymnasium has ends only"
            raise ValueError(f"{type(self.env).__name__}: {rule}, got {row.discount}")
        terminated = bool(row.last() and row.discount == 0)
        return row.observation, float(row.reward), terminated, bool(row.last()) and not terminated, {}

    def close(self) -> None:
        self.env.close()


def _space(spec: Any) -> Any:
    """Converts a dm_env spec, or a dict, list or tuple of them, to a space."""
    if isinstance(spec, dict):
        return spaces.Dict({name: _space(inner) for name, inner in spec.items()})
    if isinstance(spec, list | tuple):
        return spaces.Tuple([_space(inner) for inner in spec])
    if hasattr(spec, "num_values"):
        return spaces.Discrete(int(spec.num_values), dtype=spec.dtype if spec.dtype.kind == "i" else np.int64)
    if not hasattr(spec, "shape"):
        raise ValueError(f"load: specs must be arrays of dm_env.specs, got {spec!r}")
    dtype = np.dtype(spec.dtype)
    least, most = widest(dtype)
    low, high = getattr(spec, "minimum", least), getattr(spec, "maximum", most)
    low, high = (np.broadcast_to(np.asarray(bound, dtype), spec.shape) for bound in (low, high))
    return spaces.Box(low, high, spec.shape, dtype)


# --- processes --------------------------------------------------------------------------------------------------------


class Workers(gymnasium.vector.AsyncVectorEnv):  # type: ignore[name-defined]
    """Gymnasium's worker processes, where every answer has a time limit and an exception names its lane."""

    def __init__(self, makers: Sequence[Any], context: str, timeout: float):
        self.timeout, self._started, self._process = _LONGEST_START, False, os.getpid()
        super().__init__(makers, copy=False, context=context, worker=_work)
        self.timeout, self._started = timeout, True

    def reason(self, error: Exception) -> str | None:
        """Explains an answer that did not come; ``None`` for another error."""
        if isinstance(error, multiprocessing.TimeoutError):
            silent = [lane for lane, pipe in enumerate(self.parent_pipes) if not pipe.poll()]
            which = ", the option timeout" if self._started else " of its start"
            return f"{_named(silent)} did not answer within {self.timeout:g} seconds{which}"
        if isinstance(error, EOFError | ConnectionError):
            for process in self.processes:
                process.join(0.02)
            dead = [lane for lane, process in enumerate(self.processes) if process.exitcode is not None]
            return f"{_named(dead)} died{'' if self._started else _AT_START}"
        return None

    def close_extras(self, **options: Any) -> None:
        """Ends all processes without asking them, since one may hang."""
        # In a fork they belong to its parent. Where modules are gone, at exit, multiprocessing has ended them.
        if os is None or os.getpid() != self._process:
            return
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.join(_GRACE)
        for pipe in self.parent_pipes:
            pipe.close()

    def _check_spaces(self) -> None:
        self.call("render_mode")  # the first answer, for which Gymnasium would wait forever
        super()._check_spaces()

    def _poll_pipe_envs(self, timeout: float | None = None) -> bool:
        return super()._poll_pipe_envs(self.timeout if timeout is None else timeout)

    def _raise_if_errors(self, successes: Sequence[bool]) -> None:
        """Raises the first exception; Gymnasium would log it, and wait forever for one that cannot be pickled."""
        if all(successes):
            return
        try:
            lane, kind, value, trace = self.error_queue.get(timeout=_GRACE)
        except queue.Empty:
            rule = "raised an exception that cannot be pickled; vectorization='sync' shows it"
            raise HostEnvironmentError(f"the worker of lane {successes.index(False)} {rule}") from None
        error = HostEnvironmentError(f"lane {lane}: {kind.__name__}: {value}")
        error.add_note(trace)
        raise error


def _work(*arguments: Any) -> None:
    """Serves a lane, as Gymnasium's worker does, until the process that started it asks or is gone."""
    *_, errors, _ = arguments
    try:
        _async_worker(*arguments)
    finally:
        if (parent := multiprocessing.parent_process()) and not parent.is_alive():
            errors.cancel_join_thread()  # nobody reads them, and a full pipe would keep this process


def _named(lanes: list[int]) -> str:
    if len(lanes) < 2:
        return f"the worker of lane {lanes[0]}" if lanes else "a worker"
    return f"the workers of lanes {', '.join(map(str, lanes))}"
