"""A replay buffer on the device: a ring of rows for every lane. docs/guides/replay.md describes use and cost."""

import dataclasses
import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, tree
from jaxenv._util.checks import check_bool, check_integer, check_kind, is_concrete
from jaxenv.data.replay.batch import Batch
from jaxenv.data.replay.replay_state import (
    EpisodeIndex,
    ReplayState,
    Span,
    check_added,
    empty_ring,
    read_rows,
    write_lanes,
    write_rows,
)
from jaxenv.data.replay.sampling import Sampling, UniformSampling
from jaxenv.data.returns import check_fraction
from jaxenv.data.rows import TrajectoryMode, single_stream
from jaxenv.data.transitions import Transitions, to_n_step_transitions, to_transitions
from jaxenv.rollout import Experience


@dataclasses.dataclass(frozen=True)
class Replay:
    """A ring buffer for every lane, which stores the newest ``capacity`` rows and samples windows of them.

    It takes what `jaxenv.unroll` returns and stores each observation once: the observation that an action led to is in
    the next row. It is hashable and holds no array: close over it, or pass it as a static argument. The rows of a lane
    are numbered from 0 since ``init``. Such a *position* names the same row, no matter how many rows are added later.

    Args:
        capacity: C, rows stored per lane.
        num_envs: B, lanes.
        aligned: whether rows are always added to all lanes together, in one write. Otherwise they can be added to some
            lanes, by number.
        ignore_earliest: how many of the oldest rows of a lane never start a sampled window, for readers of earlier rows
            such as a frame stack.
        index_episodes: whether to store the index of `episode_begin` and `episode_end`, 8 bytes per row.
        pack_bits: whether to store bool arrays, such as the images of MinAtar and action masks, as bits: an eighth of
            the memory. Rows are added and read as before.
        sampling: how to choose windows: `UniformSampling` or `PrioritizedSampling`.

    >>> import jax, jaxenv
    >>> env = jaxenv.wrappers.AutoReset(jaxenv.testing.count_to_two(num_envs=4))
    >>> policy, replay = jaxenv.rollout.random_policy(env), Replay(capacity=100, num_envs=4)
    >>> @jax.jit
    ... def batch(key):
    ...     state, timestep = env.reset(key)
    ...     (_, last, _), rows = jaxenv.unroll(env, policy, state, timestep, 8)
    ...     return replay.sample(replay.add(replay.init(rows), rows), key, batch_size=6, length=3)
    >>> batch(jax.random.key(0)).experience.timestep.observation.shape
    (6, 3)
    """

    capacity: int
    num_envs: int
    aligned: bool = True
    ignore_earliest: int = 0
    index_episodes: bool = False
    pack_bits: bool = False
    sampling: Sampling = UniformSampling()

    def __post_init__(self) -> None:
        check_integer("Replay", "capacity", self.capacity, 1)
        check_integer("Replay", "num_envs", self.num_envs, 1)
        if self.capacity * self.num_envs >= 2**31:
            rule = "capacity * num_envs must be below 2**31"
            raise ValueError(f"Replay: {rule}, got {self.capacity} rows of {self.num_envs} lanes")
        check_bool("Replay", "aligned", self.aligned)
        check_integer("Replay", "ignore_earliest", self.ignore_earliest, 0, self.capacity - 1)
        check_bool("Replay", "index_episodes", self.index_episodes)
        check_bool("Replay", "pack_bits", self.pack_bits)
        if not isinstance(self.sampling, Sampling):
            rule = "sampling must be UniformSampling(...) or PrioritizedSampling(...)"
            raise ValueError(f"Replay: {rule}, got {self.sampling!r}")
        self.sampling.check_buffer(self.capacity, self.num_envs, self.ignore_earliest)

    # --- adding rows -------------------------------------------------------------------------------------------------

    def init(self, rows: Experience) -> ReplayState:
        """Returns an empty buffer for rows like these.

        ``rows`` are leaves ``[T, B, ...]`` of arrays or ``ShapeDtypeStruct``, as `jaxenv.unroll` returns them; T does
        not matter. ``timestep.step_type`` is required.
        """
        rows = _without_env_id("Replay.init", rows)
        for path, x in jax.tree.flatten_with_path(rows)[0]:
            if len(x.shape) < 2 or x.shape[1] != self.num_envs:
                rule = f"{tree.path_name(path)} must lead with time and {self.num_envs} lanes"
                raise ValueError(f"Replay.init: {rule}, got shape {x.shape}")
        if self.index_episodes and "final_observation" in rows.timestep.env_info:
            fault = "index_episodes is for trajectories with FIRST rows; the rows hold env_info['final_observation']"
            raise ValueError(f"Replay.init: {fault}, whose LAST rows belong to two episodes")
        zero = jnp.zeros(() if self.aligned else self.num_envs, jnp.int32)
        state = ReplayState(
            rows=empty_ring(self.capacity, rows, self.pack_bits),
            position=zero,
            origin=jnp.zeros_like(zero),
            episodes=EpisodeIndex.empty(self.capacity, self.num_envs) if self.index_episodes else (),
            sampling=self.sampling.init(self.capacity, self.num_envs, self.ignore_earliest),
        )
        step_type = rows.timestep.step_type
        return tree.vary_like(step_type, state) if isinstance(step_type, jax.Array) else state

    def add(self, state: ReplayState, rows: Experience, env_id: Any = None) -> ReplayState:
        """Appends rows to lanes and overwrites the oldest rows of full lanes.

        Args:
            state: the buffer. Donate it (``jax.jit(replay.add, donate_argnums=0)``) or carry it through a scan: the
                rows are then written in place.
            rows: like those given to ``init``: leaves ``[T, B, ...]``, or ``[T, K, ...]`` for the lanes of ``env_id``;
                T is at most ``capacity``.
            env_id: int32 ``[K]``, distinct lanes, for buffers that are not aligned; all lanes by default. Repeated and
                unknown lanes raise outside jitted code. In jitted code rows of unknown lanes are dropped, and a
                repeated lane receives only its last entry.
        """
        span = self._span("add", state)
        rows = _without_env_id("Replay.add", rows)
        if env_id is not None and self.aligned:
            raise ValueError("Replay.add: rows are added to all lanes of an aligned buffer together, pass no env_id")
        lanes = np.arange(self.num_envs, dtype=np.int32) if env_id is None else env_id
        lanes = span.distinct_lanes("Replay.add", lanes)
        check_added("Replay.add", rows, state.rows, lanes.shape[0], self.capacity)
        num_rows = rows.timestep.step_type.shape[0]
        if num_rows == 0:
            return state
        position = span.end_of(lanes[None]) + np.arange(num_rows, dtype=np.int32)[:, None]  # [T, K] or [T, 1]
        slot = span.slot_of(position)

        def write(ring: Any, new: Any) -> Any:
            return write_rows(ring, new, slot[:, 0]) if self.aligned else write_lanes(ring, new, slot, lanes)

        if self.aligned:
            end = state.position + np.int32(num_rows)
        else:
            end = jnp.asarray(state.position).at[lanes].add(np.int32(num_rows), mode="drop")
        episodes = state.episodes
        if self.index_episodes:
            episodes = episodes.extend(rows.timestep.step_type, position, lanes, write)
        sampling = self.sampling.extend(state.sampling, dataclasses.replace(span, end=end), lanes, num_rows)
        return ReplayState(write(state.rows, rows), end, state.origin, episodes, sampling)

    def clear(self, state: ReplayState, keep: int = 0) -> ReplayState:
        """Removes all rows but the newest ``keep`` of each lane. Positions continue to count up.

        With ``keep=1`` the last row before the call is followed by the next row added, so that no transition between
        two unrolls is lost.
        """
        span = self._span("clear", state)
        check_integer("Replay.clear", "keep", keep, 0, self.capacity)
        origin = jnp.maximum(span.end - np.int32(keep), span.begin)
        sampling = self.sampling.clear(state.sampling, dataclasses.replace(span, origin=origin), keep)
        return dataclasses.replace(state, origin=origin, sampling=sampling)

    def update_priorities(
        self, state: ReplayState, batch: Batch, priority: jax.Array, valid: jax.Array | None = None
    ) -> ReplayState:
        """Sets new priorities of sampled windows. Windows overwritten in the meantime are skipped.

        A window that occurs twice in the batch gets the greater priority. After raising to the exponent, priorities
        are clipped to 2**96, so that sums stay finite. Uniform sampling raises a ``ValueError``.

        ``batch`` was sampled from this state or an earlier one; ``env_id`` and ``position`` are read. ``priority``,
        float32 ``[N]``, is the absolute value of the error of each window. The epsilon of `PrioritizedSampling` is
        added, and the sum is raised to its exponent. Outside jitted code negative values, and those that are not
        finite, raise a ``ValueError``. In jitted code the sign is dropped, and values that are not finite count as the
        greatest priority so far. Where ``valid``, bool ``[N]``, is False, as for windows without a transition
        (``Transitions.valid``), the priority becomes 0, so that the window is not sampled again.
        """
        span = self._span("update_priorities", state)
        check_kind("Replay.update_priorities", "batch", batch, Batch)
        sampling = self.sampling.update(state.sampling, span, batch, priority, valid)
        return dataclasses.replace(state, sampling=sampling)

    # --- contents ----------------------------------------------------------------------------------------------------

    def size(self, state: ReplayState) -> jax.Array:
        """Returns the rows stored per lane, int32: ``()`` if the buffer is aligned, ``[B]`` otherwise."""
        return self._span("size", state, batched=True).size

    def earliest(self, state: ReplayState) -> jax.Array:
        """Returns the position of the oldest row stored, int32 in the shape of `size`."""
        return self._span("earliest", state, batched=True).begin

    def can_sample(self, state: ReplayState, length: int = 2) -> jax.Array:
        """Returns whether a window of ``length`` rows can be sampled, bool ``()``; its priority must be positive."""
        span = self._span("can_sample", state)
        check_integer("Replay.can_sample", "length", length, 1, self.capacity - self.ignore_earliest)
        return self.sampling.can_sample(state.sampling, span, length)

    def bytes_per_row(self, state: ReplayState) -> float:
        """Returns the bytes of the buffer per row, for arrays or ``ShapeDtypeStruct``."""
        check_kind("Replay.bytes_per_row", "state", state, ReplayState)
        total = sum(math.prod(x.shape) * x.dtype.itemsize for x in jax.tree.leaves(state))
        return total / (self.capacity * self.num_envs)

    # --- reading rows ------------------------------------------------------------------------------------------------

    def sample(
        self,
        state: ReplayState,
        key: jax.Array | random.Stream,
        batch_size: int,
        length: int = 2,
        importance_exponent: Any = 1.0,
    ) -> Batch:
        """Samples windows of consecutive rows: leaves ``[N, L, ...]``.

        No window crosses the position of the next row to be written. Windows may cross the end of an episode, see
        `episode_mask` and `to_transitions`. Where no window of that length exists yet, or all have priority 0, this
        raises a ``ValueError`` outside jitted code; jitted code repeats rows: check `can_sample`.

        ``key`` is one typed key, or a stream of shape ``()``. A window has at most ``capacity - ignore_earliest`` rows;
        2 hold one transition. With prioritised sampling ``importance_exponent``, beta in [0, 1], says how far the
        weights correct its bias: a window of probability P among M has the weight ``(1 / (M P)) ** beta``, divided by
        the greatest of the batch.
        """
        span = self._span("sample", state)
        check_integer("Replay.sample", "batch_size", batch_size, 1)
        check_fraction("Replay.sample", "importance_exponent", importance_exponent)
        if jnp.shape(importance_exponent) != ():
            raise ValueError(f"Replay.sample: importance_exponent must be one number, got {importance_exponent}")
        check_integer("Replay.sample", "length", length, 1, self.capacity - self.ignore_earliest)
        if is_concrete(span.size) and not np.any(span.num_windows(length) > 0):
            raise ValueError(
                f"Replay.sample: no lane has a window of {length} rows yet: the buffer holds {np.max(span.size)} rows "
                f"per lane, and a window cannot start in the {self.ignore_earliest} oldest ones (ignore_earliest)"
            )
        stream = single_stream("Replay.sample", key)
        drawn = self.sampling.sample(state.sampling, span, stream, int(batch_size), length, importance_exponent)
        return self._read(state, span, *drawn, length)

    def sample_transitions(
        self,
        state: ReplayState,
        key: jax.Array | random.Stream,
        batch_size: int,
        n: int = 1,
        gamma: Any = None,
        mode: TrajectoryMode = "next_step",
        importance_exponent: Any = 1.0,
    ) -> tuple[Transitions, Batch]:
        """Samples windows of n + 1 rows and makes each a transition over up to ``n`` steps: leaves ``[N, ...]``.

        ``Transitions.valid`` marks the transitions among them. ``Batch`` holds the importance weights;
        `update_priorities` takes it. `sample` and `to_n_step_transitions` describe the arguments and errors; more than
        one step requires ``gamma``, one number.
        """
        check_integer("Replay.sample_transitions", "n", n, 1)
        if n > 1 and gamma is None:
            raise ValueError(f"Replay.sample_transitions: gamma is required to discount the rewards of {n} steps")
        if gamma is not None:
            check_fraction("Replay.sample_transitions", "gamma", gamma)
            if np.shape(gamma):
                rule = "gamma must be one number, since windows are of any lane"
                raise ValueError(f"Replay.sample_transitions: {rule}, got shape {np.shape(gamma)}")
        batch = self.sample(state, key, batch_size, n + 1, importance_exponent)
        rows, last = batch.split()
        make = to_transitions if n == 1 else functools.partial(to_n_step_transitions, n=n, gamma=gamma)
        return jax.tree.map(lambda x: x[0], make(rows, last, mode=mode)), batch

    def get(self, state: ReplayState, path: str, env_id: Any, position: Any) -> Any:
        """Reads a field of `Experience`, by its dotted path, at positions ``[*S]`` of lanes ``[*S]``: ``[*S, ...]``.

        Positions that are not stored raise a ``ValueError`` outside jitted code. In jitted code the nearest row of the
        lane is read instead.
        """
        span = self._span("get", state)
        if not isinstance(path, str):
            raise ValueError(f"Replay.get: path must be a dotted path, got {path!r}")
        ring = state.rows if path == "timestep.env_id" else tree.get_field(state.rows, path)
        if isinstance(ring, tuple) and ring == ():
            raise ValueError(f"Replay.get: {path!r} is not stored, keep it in unroll(fields=...)")
        env_id, position = span.locate("Replay.get", env_id, position)
        if path == "timestep.env_id":
            return env_id
        rows = read_rows(ring, span.slot_of(position), env_id)
        if path in ("", "timestep"):
            rows = tree.set_field(rows, "env_id" if path else "timestep.env_id", env_id)
        return rows

    def episode_begin(self, state: ReplayState, env_id: Any, position: Any) -> jax.Array:
        """Returns the position of the first row of the rows' episodes, or of the oldest row stored; int32 ``[*S]``.

        Takes the arguments of `get` and raises its errors. Requires ``index_episodes``.
        """
        span, env_id, position = self._locate_in_episode("episode_begin", state, env_id, position)
        begin = state.episodes.begin_of(env_id, span.slot_of(position))
        # If every stored episode has one row, the entry of the previous one may have been overwritten by a later one.
        return jnp.clip(begin, span.begin_of(env_id), position)

    def episode_end(self, state: ReplayState, env_id: Any, position: Any) -> jax.Array:
        """Returns the position of the LAST row of the rows' episodes, or of the newest row; int32 ``[*S]``.

        Takes the arguments of `get` and raises its errors. Requires ``index_episodes``.
        """
        span, env_id, position = self._locate_in_episode("episode_end", state, env_id, position)
        return state.episodes.end_of(env_id, span.slot_of(position))

    def gather_all(self, state: ReplayState) -> Batch:
        """Reads all rows, oldest first, as one window per lane: leaves ``[B, n, ...]``. Outside jitted code only.

        All lanes must hold the same number of rows, at least 1.
        """
        span = self._span("gather_all", state)
        size = span.size
        if not is_concrete(size):
            raise ValueError("Replay.gather_all: the number of rows must be known, call it outside jitted code")
        sizes = np.unique(np.asarray(size))
        if len(sizes) > 1 or sizes[0] == 0:
            rule = "all lanes must hold the same number of rows, at least 1"
            raise ValueError(f"Replay.gather_all: {rule}, got {sizes.tolist()}")
        env_id = jnp.arange(self.num_envs, dtype=jnp.int32)
        position = jnp.broadcast_to(span.begin, self.num_envs)
        return self._read(state, span, env_id, position, jnp.ones(self.num_envs, jnp.float32), int(sizes[0]))

    def _span(self, method: str, state: ReplayState, batched: bool = False) -> Span:
        """Returns the rows that a state holds; raises a ``ValueError`` for the state of another Replay."""
        owner = f"Replay.{method}"
        check_kind(owner, "state", state, ReplayState)
        if state.batch_shape and not batched:
            raise ValueError(f"{owner}: the state is a batch of buffers of shape {state.batch_shape}, use jax.vmap")
        for name, value in state.arguments.items():
            if getattr(self, name) != value:
                fault = f"the state was made with {name}={value}"
                raise ValueError(f"{owner}: {fault}, this Replay has {getattr(self, name)}")
        self.sampling.check_state(owner, state.sampling, self.ignore_earliest)
        return Span(self.capacity, self.num_envs, self.aligned, self.ignore_earliest, state.origin, state.position)

    def _locate_in_episode(
        self, method: str, state: ReplayState, env_id: Any, position: Any
    ) -> tuple[Span, jax.Array, jax.Array]:
        if not self.index_episodes:
            raise ValueError(f"Replay.{method}: episodes are not indexed, make the Replay with index_episodes=True")
        span = self._span(method, state)
        return span, *span.locate(f"Replay.{method}", env_id, position)

    def _read(
        self, state: ReplayState, span: Span, env_id: jax.Array, position: jax.Array, weight: jax.Array, length: int
    ) -> Batch:
        row = position[:, None] + np.arange(length, dtype=np.int32)[None]
        # In jitted code, requested windows may not exist.
        row = jnp.clip(row, np.int32(0), jnp.maximum(span.end_of(env_id[:, None]) - 1, np.int32(0)))
        lane = jnp.broadcast_to(env_id[:, None], row.shape)
        rows = read_rows(state.rows, span.slot_of(row), lane)
        rows = dataclasses.replace(rows, timestep=dataclasses.replace(rows.timestep, env_id=lane))
        return Batch(rows, env_id, position, weight)


def _without_env_id(owner: str, rows: Experience) -> Experience:
    """Removes ``env_id`` from rows ``[T, B, ...]``; the place of a row in the buffer determines it."""
    check_kind(owner, "rows", rows, Experience, " as unroll returns it")
    if isinstance(rows.timestep, tuple) or isinstance(rows.timestep.step_type, tuple):
        raise ValueError(f"{owner}: timestep.step_type is missing, keep it in unroll(fields=...)")
    unset: Any = ()
    return dataclasses.replace(rows, timestep=dataclasses.replace(rows.timestep, env_id=unset))
