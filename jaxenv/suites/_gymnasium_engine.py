"""Gymnasium's vector environments, which hold the lanes of a `HostEnvironment` outside JAX."""

import contextlib
import functools
import multiprocessing
import os
import queue
import threading
import weakref
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn

import jax
import numpy as np

from jaxenv._library import import_library
from jaxenv._source import install_command
from jaxenv.interop._spaces import spec_of
from jaxenv.tree import Tree

# Seconds that a killed process has to disappear.
_GRACE = 5.0


class HostEnvironmentError(RuntimeError):
    """A failure of an environment outside JAX: an exception in its code, or a worker that died or did not answer."""


def gymnasium() -> Any:
    return import_library("gymnasium", install_command("gymnasium"))


class Engine:
    """A vector environment of Gymnasium for one number of lanes, started by the first reset.

    It holds the true state of the lanes. The JAX state holds a ``ticket``, ``uint32[B, 2]``: a checksum of the lane's
    seed and of its actions since the reset, and their number. A step is refused unless its tickets are those of the
    engine: otherwise the lanes are in another state than the one that is meant. After a failure all workers are gone,
    and the next reset starts new ones. Copies and unpickled engines start workers of their own.

    Args:
        id: an id of Gymnasium.
        arguments: keywords of ``gymnasium.make``.
        vectorization: ``"async"``, ``"sync"`` or ``"native"``.
        num_envs: the number of lanes.
        timeout: seconds that the workers have for a step, a reset or their start.
        context: the start method of the worker processes.
    """

    def __init__(
        self, id: str, arguments: Mapping[str, Any], vectorization: str, num_envs: int, timeout: float, context: str
    ):
        self.id, self.arguments, self.vectorization = id, arguments, vectorization
        self.num_envs, self.timeout, self.context = num_envs, timeout, context
        self._lock = threading.Lock()
        self._closed = False
        self._env: Any = None
        self._ticket = np.zeros((num_envs, 2), np.uint32)
        self._finalizer: Any = None
        self._others: dict[int, Engine] = {}

    def __reduce__(self):
        return Engine, (self.id, self.arguments, self.vectorization, self.num_envs, self.timeout, self.context)

    def __str__(self) -> str:
        return f"'{self.vectorization}'"

    def with_lanes(self, num_envs: int) -> "Engine":
        """The engine of the same environment for another number of lanes, which is closed together with this one."""
        if num_envs == self.num_envs:
            return self
        if num_envs not in self._others:
            other = Engine(self.id, self.arguments, self.vectorization, num_envs, self.timeout, self.context)
            self._others[num_envs] = other
        return self._others[num_envs]

    @property
    def owner(self) -> str:
        return f"gymnasium:{self.id}"

    # --- specs -------------------------------------------------------------------------------------------------------

    @functools.cached_property
    def specs(self) -> tuple[Tree, Tree]:
        """Specs of one lane's observation and action, read from an environment that is made and closed for that."""
        native = self.vectorization == "native"
        env = self._native(1) if native else self._single()()
        observation = env.single_observation_space if native else env.observation_space
        action = env.single_action_space if native else env.action_space
        env.close()
        spaces = gymnasium().spaces
        return (
            spec_of(observation, spaces, f"{self.owner}: observation"),
            spec_of(action, spaces, f"{self.owner}: action"),
        )

    def _single(self) -> Callable[[], Any]:
        # The spec travels to the workers, whose registries lack what this process registered.
        return functools.partial(gymnasium().make, gymnasium().spec(self.id), **self.arguments)

    def _native(self, num_envs: int) -> Any:
        mode = "vector_entry_point"
        return gymnasium().make_vec(self.id, num_envs=num_envs, vectorization_mode=mode, **self.arguments)

    # --- calls from the JAX side -------------------------------------------------------------------------------------

    def reset(self, seeds: Any, *keys: Any) -> tuple[np.ndarray, Tree]:
        """Starts an episode in every lane.

        Args:
            seeds: random words, ``uint32[B]``.
            *keys: the key words of the lanes, two ``uint32[B]``; lanes of different keys get different seeds.

        Returns:
            The tickets ``uint32[B, 2]`` and the observations.
        """
        with self._lock:
            seeds = _distinct(np.asarray(seeds), *map(np.asarray, keys))
            if self._closed:
                raise HostEnvironmentError(f"{self.owner}: the environment is closed, load it again")
            with self._failing("reset"):
                if self._env is None:
                    self._start()
                # A native vector environment takes one seed for all lanes.
                given = seeds[0] if self.vectorization == "native" else seeds
                if self.vectorization == "async":
                    self._env.reset_async(seed=given)
                    observation, _ = self._env.reset_wait(timeout=self.timeout)
                else:
                    observation, _ = self._env.reset(seed=given)
                observation = _batch(self.specs[0], observation)
            self._ticket = np.stack([np.array(seeds, np.uint32), np.zeros(self.num_envs, np.uint32)], axis=1)
            return self._ticket, observation

    def step(self, ticket: Any, action: Tree) -> tuple[Any, ...]:
        """Steps every lane.

        Returns:
            The tickets ``uint32[B, 2]``, the observations, the rewards ``float32[B]``, terminated and truncated
            ``bool[B]``.
        """
        with self._lock:
            self._check_newest("step", np.asarray(ticket))
            action = jax.tree.map(np.asarray, action)
            ticket = _stamped(self._ticket, jax.tree.leaves(action))
            with self._failing("step"):
                action = _as_space(self._env.single_action_space, action)
                if self.vectorization == "async":
                    self._env.step_async(action)
                    row = self._env.step_wait(timeout=self.timeout)
                else:
                    row = self._env.step(action)
                observation, reward, terminated, truncated, _ = row
                observation = _batch(self.specs[0], observation)
            self._ticket = ticket
            ends = np.array(terminated, bool), np.array(truncated, bool)
            return ticket, observation, np.array(reward, np.float32), *ends

    def render(self, size: tuple[int, int], ticket: Any) -> np.ndarray:
        """Gymnasium's own pictures of all lanes, scaled to ``size``: uint8 ``[B, H, W, 3]``."""
        with self._lock:
            self._check_newest("render", np.asarray(ticket))
            with self._failing("render"):
                if self.vectorization == "async":
                    self._env.call_async("render")
                    frames = self._env.call_wait(timeout=self.timeout)
                else:
                    frames = self._env.render()
                return np.stack([_scaled(np.asarray(frame), size) for frame in frames])

    def _check_newest(self, what: str, ticket: np.ndarray) -> None:
        """Raises a `HostEnvironmentError` unless the lanes are in the state that is meant."""
        if self._env is None:
            raise HostEnvironmentError(f"{self.owner}: {what}: the environment is not running, call reset first")
        if np.array_equal(ticket, self._ticket):
            return
        steps, newest = ticket[:, 1].max(), self._ticket[:, 1].max()
        if sorted(ticket.tolist()) == sorted(self._ticket.tolist()):
            reason = "has its lanes in another order"
        elif steps < newest:
            reason = f"is {newest - steps} steps old, or of an earlier reset"
        else:
            reason = "is that of an earlier reset, of another environment or of another process"
        only = "the lanes live outside JAX, which holds no state of theirs but the newest"
        raise HostEnvironmentError(f"{self.owner}: {what}: the state {reason}: {only}")

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
            with _killed_after(self.timeout):
                self._env = vector.AsyncVectorEnv(
                    [self._single()] * self.num_envs, copy=False, context=self.context, autoreset_mode=mode
                )
            self._env.error_queue = _Errors(self._env.error_queue)
        if self._env.metadata.get("autoreset_mode") not in (mode, mode.value):
            raise ValueError(f"{self.id} must restart lanes on the next step, as {mode} does")
        self._finalizer = weakref.finalize(self, _free, self._env, os.getpid())

    @contextlib.contextmanager
    def _failing(self, what: str) -> Iterator[None]:
        """Ends all workers if the block fails, and says why it did."""
        try:
            yield
        except Exception as error:
            self._fail(what, error)
        except BaseException:  # an interrupt leaves the workers in the middle of a step
            self._stop()
            raise

    def _fail(self, what: str, error: Exception) -> NoReturn:
        dead = _dead_workers(self._env)
        limit = f"within {self.timeout:g} seconds, the option timeout"
        if isinstance(error, multiprocessing.TimeoutError):
            reason = f"a worker did not answer {limit}"
        elif isinstance(error, queue.Empty):
            reason = "a worker raised an exception that cannot be pickled; vectorization='sync' shows it"
        elif isinstance(error, EOFError | ConnectionError):
            reason = f"the worker of lane {', '.join(map(str, dead))} died" if dead else "a worker died"
            if self._env is None:
                reason = (
                    f"a worker died at its start or did not start {limit} (a script must load environments below "
                    'if __name__ == "__main__":, or pass context="fork")'
                )
        else:
            reason = str(error) if isinstance(error, _WorkerError) else f"{type(error).__name__}: {error}"
        self._stop()
        raise HostEnvironmentError(f"{self.owner}: {what} failed, all workers were ended: {reason}") from error

    def _stop(self) -> None:
        env, self._env = self._env, None
        if self._finalizer is not None:
            self._finalizer.detach()
            self._finalizer = None
        if env is not None:
            _free(env, os.getpid())

    def close(self) -> None:
        """Ends all workers for good; more calls do nothing."""
        with self._lock:
            self._closed = True
            self._stop()
        for other in self._others.values():
            other.close()


class _WorkerError(Exception):
    """An exception in a worker; a note holds its traceback."""


class _Errors:
    """The queue of the workers' exceptions. ``get`` raises the first one, where Gymnasium logs them as warnings.

    It raises ``queue.Empty`` for one that cannot be pickled, for which Gymnasium waits for ever.
    """

    def __init__(self, errors: Any):
        self._errors = errors

    def get(self) -> NoReturn:
        lane, kind, value, trace = self._errors.get(timeout=_GRACE)
        error = _WorkerError(f"lane {lane}: {kind.__name__}: {value}")
        error.add_note(trace)
        raise error


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


@contextlib.contextmanager
def _killed_after(seconds: float) -> Iterator[None]:
    """Kills the processes that the block starts if it takes longer, which ends the block, or if it fails."""
    before = set(multiprocessing.active_children())

    def kill() -> None:
        _kill([p for p in multiprocessing.active_children() if p not in before and "AsyncVectorEnv" in p.name])

    timer = threading.Timer(seconds, kill)
    timer.daemon = True
    timer.start()
    try:
        yield
    except BaseException:
        kill()
        raise
    finally:
        timer.cancel()


# --- arrays ----------------------------------------------------------------------------------------------------------


def _distinct(seeds: np.ndarray, *keys: np.ndarray) -> list[int]:
    """The seeds as Python numbers; one that a lane of another key has already is replaced by the next free one."""
    owners: dict[int, tuple] = {}
    chosen = []
    for seed, *key in zip(seeds.tolist(), *keys, strict=True):
        while owners.setdefault(seed, tuple(key)) != tuple(key):
            seed = (seed + 1) % 2**32
        chosen.append(seed)
    return chosen


def _stamped(ticket: np.ndarray, actions: list[np.ndarray]) -> np.ndarray:
    """The tickets after a step with these actions, each ``[B, ...]``."""
    lanes = len(ticket)
    rows = np.concatenate([np.ascontiguousarray(x).reshape(lanes, -1).view(np.uint8) for x in actions], axis=1)
    checksums = [zlib.crc32(row, before) for row, before in zip(rows, ticket[:, 0].tolist(), strict=True)]
    return np.stack([np.array(checksums, np.uint32), ticket[:, 1] + np.uint32(1)], axis=1)


def _batch(spec: Tree, observation: Any) -> Tree:
    """A batch of observations in the structure and dtypes of the spec, copied out of the engine's buffers."""
    if isinstance(spec, dict):
        return {name: _batch(inner, observation[name]) for name, inner in spec.items()}
    if isinstance(spec, tuple):
        return tuple(_batch(inner, part) for inner, part in zip(spec, observation, strict=True))
    with np.errstate(over="ignore"):  # the largest numbers of float64 are infinite in float32
        return np.array(observation, spec.dtype)


def _as_space(space: Any, action: Tree) -> Any:
    """A batch of actions in the dtypes of the space of one lane."""
    if isinstance(action, dict):
        return {name: _as_space(space[name], inner) for name, inner in action.items()}
    if isinstance(action, tuple):
        return tuple(_as_space(part, inner) for part, inner in zip(space, action, strict=True))
    return np.asarray(action, space.dtype)


def _scaled(frame: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """A picture at another size, by nearest neighbours."""
    if frame.ndim != 3 or frame.shape[-1] != 3:
        raise ValueError('render needs pictures, load with render_mode="rgb_array"')
    rows, columns = (np.arange(n) * have // n for n, have in zip(size, frame.shape[:2], strict=True))
    return frame[rows][:, columns].astype(np.uint8)
