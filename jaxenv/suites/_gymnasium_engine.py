"""Gymnasium's vector environments, which hold the lanes of a `HostEnvironment` outside JAX."""

import contextlib
import functools
import multiprocessing
import os
import queue
import select
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn

import numpy as np

from jaxenv._util.library import import_library
from jaxenv._util.source import install_command
from jaxenv.specs._from_gymnasium import spec_of
from jaxenv.suites import _step_pipes
from jaxenv.suites._engine import Engine, EngineSpecs
from jaxenv.suites._objects import Instance
from jaxenv.tree import Tree

# Seconds until a killed process must be gone.
_GRACE = 5.0
# Seconds in which a process must import the script, and those in which it must then make its environment. Both depend
# on how busy the machine is, so they are generous and no option.
_LONGEST_IMPORT = 600.0
_LONGEST_START = 120.0


def gymnasium() -> Any:
    return import_library("gymnasium", install_command("gymnasium"))


class GymnasiumEngine(Engine):
    """A vector environment of Gymnasium; its workers are processes with ``vectorization="async"``.

    Args:
        id: an id of Gymnasium.
        arguments: keywords of ``gymnasium.make``.
        num_envs: the number of lanes.
        vectorization: ``"async"``, ``"sync"`` or ``"native"``.
        timeout: seconds that the workers have for a step, a reset or a picture.
        context: the start method of the worker processes.
        make: makes an environment, in place of ``gymnasium.make``.
    """

    suite = "gymnasium"

    def __init__(
        self,
        id: str,
        arguments: Mapping[str, Any],
        num_envs: int,
        *,
        vectorization: str,
        timeout: float,
        context: str,
        make: Callable[[], Any] | None = None,
    ):
        options = {"vectorization": vectorization, "timeout": timeout, "context": context, "make": make}
        super().__init__(id, arguments, num_envs, **options)
        self.make = make
        self.vectorization, self.timeout, self.context = vectorization, timeout, context
        self._env: Any = None
        self._finalizer: Any = None
        self._begun: Any = ()

    def __str__(self) -> str:
        return f"'{self.vectorization}'"

    @property
    def _running(self) -> bool:
        return self._env is not None

    @property
    def limit(self) -> int | None:
        if self.make is not None:
            return getattr(self.make, "max_episode_steps", None)
        limit = self.arguments.get("max_episode_steps", gymnasium().spec(self.id).max_episode_steps)
        return None if limit is None or limit < 1 else int(limit)

    # --- specs -------------------------------------------------------------------------------------------------------

    def _find_specs(self) -> EngineSpecs:
        """Reads the specs from an environment that is made and closed for it; infos have no fixed structure."""
        native = self.vectorization == "native"
        env = self._native(1) if native else self._single()()
        observation = env.single_observation_space if native else env.observation_space
        action = env.single_action_space if native else env.action_space
        if not isinstance(getattr(self.make, "make", None), Instance):
            env.close()
        spaces = gymnasium().spaces
        specs = EngineSpecs(
            spec_of(observation, spaces, f"{self.owner}: observation"),
            spec_of(action, spaces, f"{self.owner}: action"),
            {},
        )
        agents = getattr(env.unwrapped, "jaxenv_agents", None)
        if agents is None:
            return specs
        shown: Any = specs.observation  # what `_pettingzoo_lane.Lane` shows
        info: dict[str, Tree] = shown["info"]
        of_state = tuple(name for name in info if name != "agent_terminated")
        names, turns = agents
        return EngineSpecs(shown["observation"], specs.action, info, names, turns, of_state)

    def _single(self) -> Callable[[], Any]:
        if self.make is not None:
            return self.make
        # The spec travels to the workers, whose registries lack this process's registrations.
        return functools.partial(gymnasium().make, gymnasium().spec(self.id), **self.arguments)

    def _native(self, num_envs: int) -> Any:
        mode = "vector_entry_point"
        return gymnasium().make_vec(self.id, num_envs=num_envs, vectorization_mode=mode, **self.arguments)

    # --- episodes ----------------------------------------------------------------------------------------------------

    def _restart(self, seeds: list[int]) -> tuple[Tree, Mapping[str, Any]]:
        if self._env is None:
            self._start()
        if self.vectorization == "async":
            self._env.reset_async(seed=seeds)
            observation, info = self._env.reset_wait(timeout=self.timeout)
        else:  # a native vector environment takes one seed for all lanes
            observation, info = self._env.reset(seed=seeds[0] if self.vectorization == "native" else seeds)
        return (observation["observation"], observation["info"]) if self._has_agents else (observation, info)

    def _advance(self, action: Tree) -> tuple[Tree, Any, Any, Any, Mapping[str, Any]]:
        action = _as_space(self._env.single_action_space, action)
        if self.vectorization == "async":
            self._env.step_async(action)
            row = self._env.step_wait(timeout=self.timeout)
        else:
            row = self._env.step(action)
        if not self._has_agents:
            return row
        shown, _, terminated, truncated, _ = row
        return shown["observation"], shown["reward"], terminated, truncated, shown["info"]

    @property
    def _has_agents(self) -> bool:
        return len(self.specs.agent_names) > 1

    def _pictures(self) -> Any:
        if self.vectorization == "async":
            self._env.call_async("render")
            return self._env.call_wait(timeout=self.timeout)
        return self._env.render()

    # --- processes ---------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        vector = gymnasium().vector
        mode = vector.AutoresetMode.NEXT_STEP
        if self.vectorization == "native":
            self._env = self._native(self.num_envs)
        elif self.vectorization == "sync":
            # Observations are copied on the way to JAX.
            self._env = vector.SyncVectorEnv([self._single()] * self.num_envs, copy=False, autoreset_mode=mode)
        else:
            if self.context == "forkserver":
                multiprocessing.set_forkserver_preload(["__main__", "gymnasium"])  # imported once for all workers
            make = [self._single()] * self.num_envs
            self._begun = multiprocessing.get_context(self.context).Array("b", self.num_envs, lock=False)
            with _watched_start(self._begun):
                self._env = vector.AsyncVectorEnv(
                    make, copy=False, context=self.context, worker=_step_pipes.worker(self._begun), autoreset_mode=mode
                )
            space = self._env.single_action_space
            self._env.parent_pipes = [_step_pipes.StepPipe(pipe, space) for pipe in self._env.parent_pipes]
            self._env.error_queue = _Errors(self._env.error_queue)
            if hasattr(select, "poll"):  # not on Windows
                self._env._poll_pipe_envs = _Answers(self._env.parent_pipes)
        if self._env.metadata.get("autoreset_mode") not in (mode, mode.value):
            raise ValueError(f"{self.id} must restart lanes on the next step, as {mode} does")
        self._finalizer = weakref.finalize(self, _free, self._env, os.getpid())

    def _reason(self, error: Exception) -> str:
        dead = _dead_workers(self._env)
        limit = f"within {self.timeout:g} seconds, the option timeout"
        if isinstance(error, multiprocessing.TimeoutError):
            return f"{_workers(_silent_workers(self._env))} did not answer {limit}"
        if isinstance(error, queue.Empty):
            return "a worker raised an exception that cannot be pickled; vectorization='sync' shows it"
        if isinstance(error, EOFError | ConnectionError):
            if self._env is None:
                return self._start_fault()
            return f"{_workers(dead)} died"
        return str(error) if isinstance(error, _WorkerError) else super()._reason(error)

    def _start_fault(self) -> str:
        """Explains why the workers did not start."""
        late = [lane for lane, begun in enumerate(self._begun) if begun == _LATE]
        waiting = [lane for lane, begun in enumerate(self._begun) if begun == 0]
        if late:
            return f"{_workers(late)} started, but did not make its environment within {_LONGEST_START:g} seconds"
        if never := [lane for lane, begun in enumerate(self._begun) if begun == _NEVER]:
            return f"{_workers(never)} did not start: importing the script took longer than {_LONGEST_IMPORT:g} seconds"
        if waiting:
            return (
                f"{_workers(waiting)} died before it started, while it imported the script (a script must load "
                'environments below if __name__ == "__main__":, or pass context="fork")'
            )
        return "a worker started and died while it made its environment"

    def _stop(self) -> None:
        env, self._env = self._env, None
        if self._finalizer is not None:
            self._finalizer.detach()
            self._finalizer = None
        if env is not None:
            _free(env, os.getpid())


class _Answers:
    """Waits until every worker has answered. Gymnasium makes a selector per worker and step for that."""

    def __init__(self, pipes: Any):
        self._polls = [select.poll() for _ in pipes]
        for poll, pipe in zip(self._polls, pipes, strict=True):
            poll.register(pipe, select.POLLIN)

    def __call__(self, timeout: float) -> bool:
        end = time.monotonic() + timeout
        return all(poll.poll(1000 * max(0.0, end - time.monotonic())) for poll in self._polls)


class _WorkerError(Exception):
    """An exception in a worker; a note holds its traceback."""


class _Errors:
    """The queue of the workers' exceptions. ``get`` raises the first one, where Gymnasium logs them as warnings.

    It raises ``queue.Empty`` for an exception that cannot be pickled; Gymnasium would wait forever.
    """

    def __init__(self, errors: Any):
        self._errors = errors

    def get(self) -> NoReturn:
        lane, kind, value, trace = self._errors.get(timeout=_GRACE)
        error = _WorkerError(f"lane {lane}: {kind.__name__}: {value}")
        error.add_note(trace)
        raise error


def _workers(lanes: list[int]) -> str:
    if len(lanes) < 2:
        return f"the worker of lane {lanes[0]}" if lanes else "a worker"
    return f"the workers of lanes {', '.join(map(str, lanes))}"


def _silent_workers(env: Any) -> list[int]:
    return [lane for lane, pipe in enumerate(getattr(env, "parent_pipes", [])) if not pipe.poll()]


def _dead_workers(env: Any) -> list[int]:
    processes = getattr(env, "processes", [])
    for process in processes:
        process.join(0.02)
    return [lane for lane, process in enumerate(processes) if process.exitcode is not None]


def _free(env: Any, pid: int) -> None:
    """Kills the workers of an async engine without asking them, since one may hang; closes the other engines."""
    if os.getpid() != pid:  # a fork of the process that started them
        return
    if hasattr(env, "processes"):
        _kill(env.processes)
        for pipe in env.parent_pipes:
            if pipe is not None:
                pipe.close()
        env.closed = True
    else:
        with contextlib.suppress(Exception):
            env.close()


def _kill(processes: Any) -> None:
    for process in processes:
        process.kill()
    for process in processes:
        process.join(_GRACE)


# A value of a lane in the shared memory of a start, besides 0 and 1, which its worker writes.
_LATE, _NEVER = 2, 3


@contextlib.contextmanager
def _watched_start(begun: Any) -> Iterator[None]:
    """Kills the processes that the block starts if one takes too long, which ends the block, or if the block fails.

    The time for making an environment counts from the moment at which the last worker has begun.
    """
    before = set(multiprocessing.active_children())
    ended = threading.Event()

    def kill() -> None:
        _kill([p for p in multiprocessing.active_children() if p not in before and "AsyncVectorEnv" in p.name])

    def watch() -> None:
        start, since = time.monotonic(), None
        while not ended.wait(0.02):
            now = time.monotonic()
            if since is None and all(begun):
                since = now
            if since is None and now - start > _LONGEST_IMPORT:
                begun[:] = [flag or _NEVER for flag in begun]
            elif since is not None and now - since > _LONGEST_START:
                begun[:] = [_LATE] * len(begun)
            else:
                continue
            kill()
            return

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    try:
        yield
    except BaseException:
        kill()
        raise
    finally:
        ended.set()


# --- arrays ----------------------------------------------------------------------------------------------------------


def _as_space(space: Any, action: Tree) -> Any:
    """Casts a batch of actions to the dtypes of one lane's space."""
    if isinstance(action, dict):
        return {name: _as_space(space[name], inner) for name, inner in action.items()}
    if isinstance(action, tuple):
        return tuple(_as_space(part, inner) for part, inner in zip(space, action, strict=True))
    return np.asarray(action, space.dtype)
