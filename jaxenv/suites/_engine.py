"""The base of engines, which hold the lanes of a `HostEnvironment` outside JAX."""

import abc
import contextlib
import dataclasses
import functools
import threading
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Self

import jax
import numpy as np

from jaxenv.tree import Tree


class HostEnvironmentError(RuntimeError):
    """A failure of an environment outside JAX: an exception in its code, or a worker that died or did not answer."""


class EngineSpecs(NamedTuple):
    """Specs of one lane's observation, action and entries of ``env_info``, and who acts in it."""

    observation: Tree
    action: Tree
    info: dict[str, Tree]
    agent_names: tuple[str, ...] = ("agent",)
    turns: bool = False
    state_info: tuple[str, ...] = ()  # names of the entries of ``env_info`` that describe a state
    render_mode: str | None = None

    @property
    def reward_shape(self) -> tuple[int, ...]:
        """The shape of one lane's reward: a number, or one for each of several agents."""
        return (len(self.agent_names),) if len(self.agent_names) > 1 else ()


@dataclasses.dataclass(eq=False)
class Engine(abc.ABC):
    """Lanes of one environment of another library, started by the first reset.

    It holds the true state of the lanes. The JAX state holds a ``ticket``, ``uint32[B, 2]``: a checksum of the lane's
    seed and of its actions since the reset, and their number. A step is refused unless its tickets are the engine's:
    otherwise the lanes are not in the caller's state. A failure ends all workers, and the next reset starts new ones.
    Copies and unpickled engines start separate workers.
    """

    owner: str  # the start of error messages, ``SUITE:ID``
    num_envs: int
    limit: int | None  # the time limit of an episode in steps, if it is known

    seeds_below: ClassVar[int] = 2**32

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._closed = False
        self._env: Any = None  # the library's object that holds the lanes, while they run
        self._finalizer: Any = None  # closes them at exit, where the library does not
        self._ticket = np.zeros((self.num_envs, 2), np.uint32)
        self._others: dict[int, Self] = {}

    def __reduce__(self) -> Any:
        return type(self), tuple(getattr(self, field.name) for field in dataclasses.fields(self))

    def with_lanes(self, num_envs: int) -> Self:
        """Makes the engine of the same environment for another number of lanes; both are closed together."""
        if num_envs == self.num_envs:
            return self
        if num_envs not in self._others:
            self._others[num_envs] = other = dataclasses.replace(self, num_envs=num_envs)
            other.specs = self.specs  # found once
        return self._others[num_envs]

    @functools.cached_property
    def specs(self) -> EngineSpecs:
        return self._find_specs()

    # --- hooks for a library -----------------------------------------------------------------------------------------

    @abc.abstractmethod
    def _find_specs(self) -> EngineSpecs:
        """Finds the specs without starting the lanes."""

    @abc.abstractmethod
    def _restart(self, seeds: list[int]) -> tuple[Tree, Mapping[str, Any]]:
        """Starts the lanes if they do not run, and an episode in each from its seed: observation and info."""

    @abc.abstractmethod
    def _advance(self, action: Tree) -> tuple[Tree, Any, Any, Any, Mapping[str, Any]]:
        """Steps every lane, or restarts one that ended: observation, reward, terminated, truncated and info."""

    @abc.abstractmethod
    def _pictures(self) -> Any:
        """Renders each lane, uint8 ``[H, W, 3]`` of any size."""

    def _reason(self, error: Exception) -> str:
        """Explains an error that the library raised, while the workers still exist."""
        return str(error) if isinstance(error, HostEnvironmentError) else f"{type(error).__name__}: {error}"

    def _stop(self) -> None:
        """Frees the workers, even while they run, if there are any."""
        env, self._env = self._env, None
        if hasattr(env, "close"):
            with contextlib.suppress(Exception):
                env.close()
        if self._finalizer is not None:  # it would keep the lanes in memory
            self._finalizer.cancel()

    # --- calls from the JAX side -------------------------------------------------------------------------------------

    def reset(self, seeds: Any, *keys: Any) -> tuple[np.ndarray, Tree, dict[str, Tree]]:
        """Starts an episode in every lane: returns the tickets, the observations and the entries of ``env_info``."""
        with self._lock:
            seeds = distinct(np.asarray(seeds), *map(np.asarray, keys), below=self.seeds_below)
            if self._closed:
                raise HostEnvironmentError(f"{self.owner}: the environment is closed, load it again")
            with self._failing("reset"):
                observation, info = self._restart(seeds)
                observation, info = cast(self.specs.observation, observation), cast(self.specs.info, info)
            self._ticket = np.stack([np.array(seeds, np.uint32), np.zeros(self.num_envs, np.uint32)], axis=1)
            return self._ticket, observation, info

    def step(self, ticket: Any, action: Tree) -> tuple[Any, ...]:
        """Steps every lane: returns the tickets, the observations, the entries of ``env_info``, rewards and ends.

        Rewards are float32 ``[B]`` or ``[B, A]``, terminated and truncated ``bool[B]``.
        """
        with self._lock:
            self._check_newest("step", np.asarray(ticket))
            action = jax.tree.map(np.asarray, action)
            ticket = _stamped(self._ticket, jax.tree.leaves(action))
            with self._failing("step"):
                observation, reward, terminated, truncated, info = self._advance(action)
                observation, info = cast(self.specs.observation, observation), cast(self.specs.info, info)
            self._ticket = ticket
            ends = np.array(terminated, bool), np.array(truncated, bool)
            return ticket, observation, info, np.array(reward, np.float32), *ends

    def render(self, size: tuple[int, int], ticket: Any) -> np.ndarray:
        """Renders all lanes with the library's own renderer, scaled to ``size``: uint8 ``[B, H, W, 3]``."""
        with self._lock:
            self._check_newest("render", np.asarray(ticket))
            with self._failing("render"):
                return np.stack([_scaled(np.asarray(frame), size) for frame in self._pictures()])

    def close(self) -> None:
        """Ends all workers for good; more calls do nothing."""
        with self._lock:
            self._closed = True
            self._stop()
        for other in self._others.values():
            other.close()

    def _check_newest(self, what: str, ticket: np.ndarray) -> None:
        """Raises a `HostEnvironmentError` unless the lanes are in the caller's state."""
        if self._env is None:
            raise HostEnvironmentError(f"{self.owner}: {what}: the environment is not running, call reset first")
        if np.array_equal(ticket, self._ticket):
            return
        age = int(self._ticket[:, 1].max()) - int(ticket[:, 1].max())
        if sorted(ticket.tolist()) == sorted(self._ticket.tolist()):
            reason = "has its lanes in another order"
        elif age > 0:
            reason = f"is {age} {'step' if age == 1 else 'steps'} old, or of an earlier reset"
        else:
            reason = "belongs to an earlier reset, another environment or another process"
        only = "the lanes live outside JAX, which holds no state of theirs but the newest"
        raise HostEnvironmentError(f"{self.owner}: {what}: the state {reason}: {only}")

    @contextlib.contextmanager
    def _failing(self, what: str) -> Iterator[None]:
        """Ends all workers if the block fails, and reports the reason."""
        try:
            yield
        except Exception as error:
            reason = self._reason(error)
            self._stop()
            raise HostEnvironmentError(f"{self.owner}: {what} failed, all workers were ended: {reason}") from error
        except BaseException:  # an interrupt leaves the workers in the middle of a step
            self._stop()
            raise


# --- arrays ----------------------------------------------------------------------------------------------------------


def distinct(seeds: np.ndarray, *keys: np.ndarray, below: int) -> list[int]:
    """Returns the seeds as Python numbers; a seed that a lane of another key has becomes the next free one."""
    owners: dict[int, tuple[Any, ...]] = {}
    chosen = []
    for seed, *key in zip(seeds.tolist(), *keys, strict=True):
        seed %= below
        while owners.setdefault(seed, tuple(key)) != tuple(key):
            seed = (seed + 1) % below
        chosen.append(seed)
    return chosen


def _stamped(ticket: np.ndarray, actions: list[np.ndarray]) -> np.ndarray:
    """Returns the tickets after a step with these actions, each ``[B, ...]``."""
    checksums = ticket[:, 0].tolist()
    for x in actions:
        rows = np.ascontiguousarray(x).reshape(len(ticket), -1)
        checksums = [zlib.crc32(row.tobytes(), before) for row, before in zip(rows, checksums, strict=True)]
    return np.stack([np.array(checksums, np.uint32), ticket[:, 1] + np.uint32(1)], axis=1)


def cast(like: Any, values: Any) -> Tree:
    """Copies values to the structure and dtypes of specs or spaces."""
    if isinstance(like, Mapping):
        return {name: cast(inner, values[name]) for name, inner in like.items()}
    if isinstance(like, Sequence):
        return tuple(cast(inner, part) for inner, part in zip(like, values, strict=True))
    with np.errstate(over="ignore"):  # the largest numbers of float64 are infinite in float32
        return np.array(values, like.dtype)


def _scaled(frame: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    rows, columns = (np.arange(n) * have // n for n, have in zip(size, frame.shape[:2], strict=True))
    return frame[rows][:, columns].astype(np.uint8)
