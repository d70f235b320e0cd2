"""A replay buffer on the device: a ring of rows for every lane, as pure functions.

What `jaxenv.unroll` returns goes in as it is, once: the observation that an action led to is the next row's. Windows of
consecutive rows come out. docs/replay.md tells how to use it and what it costs. The file is long because one class has
one interface; how rows lie in memory, how windows are drawn and how episodes are found is told in files of their own.
"""

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import _xla, random, tree
from jaxenv._checks import is_concrete
from jaxenv.data import checks, episodes, priorities, ring, strata
from jaxenv.data.batches import Batch
from jaxenv.data.rows import StreamMode
from jaxenv.data.trajectories import Transitions, to_n_step_transitions, to_transitions
from jaxenv.rollout import Experience


@tree.struct
class ReplayState:
    """What a `Replay` holds: a plain tree of arrays, C rows of B lanes.

    Attributes:
        rows: `Experience` in pages, see ``jaxenv.data.ring``; the row at position p lies in slot p % C.
        position: int32, how many rows were ever added, the position of the next one: ``()`` for all lanes, or ``[B]``
            where lanes are added to on their own.
        origin: int32 in the shape of ``position``: rows before it were cleared away.
        episodes: an `jaxenv.data.episodes.Episodes` where they are indexed.
        priorities: a `jaxenv.data.priorities.Priorities` of slot * B + lane where sampling is prioritised.
    """

    rows: Experience
    position: jax.Array
    origin: jax.Array
    episodes: Any = ()
    priorities: Any = ()


@dataclasses.dataclass(frozen=True)
class Replay:
    """A ring buffer for every lane: the newest ``capacity`` rows, sampled in windows.

    It is hashable and holds no array: close over it, or pass it as a static argument. Positions number the rows of a
    lane from 0, for ever, so that they name the same row before and after others were overwritten.

    Args:
        capacity: C, rows kept of each lane.
        num_envs: B, lanes.
        aligned: whether all lanes are always added to together, which is one write for all. Otherwise lanes are added
            to on their own, by number.
        ignore_earliest: how many of the oldest rows of a lane never begin a sampled window, because what looks back
            from there (a frame stack) needs them.
        recent_fraction: share of a sampled batch that comes from the newest windows alone, and stands first in it.
        recent_rows: from how many of the newest windows of each lane.
        index_episodes: whether to keep what `episode_begin` and `episode_end` need, 8 bytes a row.
        priority_exponent: samples windows in proportion to their priority to this power, Schaul et al. (2016,
            arXiv:1511.05952), 4.6 bytes a row. By default each window is equally likely.
        priority_length: rows in a sampled window where sampling is prioritised.

    Raises:
        ValueError: for an argument out of its range.

    >>> import jax, jaxenv
    >>> env = jaxenv.wrappers.AutoReset(jaxenv.testing.mock_012(num_envs=4))
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
    recent_fraction: float = 0.0
    recent_rows: int = 0
    index_episodes: bool = False
    priority_exponent: float | None = None
    priority_length: int = 2

    def __post_init__(self):
        least = {"capacity": 1, "num_envs": 1, "ignore_earliest": 0, "recent_rows": 0, "priority_length": 1}
        for name, low in least.items():
            value = getattr(self, name)
            if not checks.is_whole(value, low):
                raise ValueError(f"Replay: {name} must be a whole number of at least {low}, got {value!r}")
        for name in ("aligned", "index_episodes"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"Replay: {name} must be True or False, got {getattr(self, name)!r}")
        if self.capacity * self.num_envs >= 2**31:
            raise ValueError(f"Replay: {self.capacity} rows of {self.num_envs} lanes are more than 2**31 - 1")
        if self.ignore_earliest >= self.capacity:
            raise ValueError(
                f"Replay: ignore_earliest must be below the capacity of {self.capacity}, got {self.ignore_earliest}"
            )
        if not checks.is_number(self.recent_fraction) or not 0 <= self.recent_fraction <= 1:
            raise ValueError(f"Replay: recent_fraction must be in [0, 1], got {self.recent_fraction!r}")
        if (self.recent_fraction > 0) != (self.recent_rows > 0):
            raise ValueError(
                "Replay: recent_fraction and recent_rows are given together, "
                f"got {self.recent_fraction!r} and {self.recent_rows!r}"
            )
        if self.priority_exponent is None:
            return
        if not checks.is_number(self.priority_exponent) or not 0 <= self.priority_exponent < math.inf:
            raise ValueError(
                f"Replay: priority_exponent must be a number of at least 0, got {self.priority_exponent!r}"
            )
        if sum(priorities.level_sizes(self.capacity * self.num_envs)) >= 2**31:
            raise ValueError(
                f"Replay: {self.capacity} rows of {self.num_envs} lanes have more than 2**31 - 1 priorities and sums"
            )
        if self.recent_fraction:
            raise ValueError("Replay: recent_fraction is for uniform sampling, priority_exponent is given too")
        if self.priority_length > self.capacity - self.ignore_earliest:
            raise ValueError(
                f"Replay: priority_length must be at most {self.capacity - self.ignore_earliest} (capacity less "
                f"ignore_earliest), got {self.priority_length}"
            )

    # --- rows in -----------------------------------------------------------------------------------------------------

    def init(self, rows: Experience) -> ReplayState:
        """An empty buffer for rows like these.

        Args:
            rows: leaves ``[T, B, ...]`` of arrays or ``ShapeDtypeStruct``, as `jaxenv.unroll` returns them; T does not
                matter. ``timestep.step_type`` must be there.

        Raises:
            ValueError: if a leaf does not lead with time and ``num_envs`` lanes, or ``step_type`` is missing.
        """
        rows = checks.stored("Replay.init", rows)
        checks.new_rows("Replay.init", rows, self.num_envs)
        zero = jnp.zeros(() if self.aligned else self.num_envs, jnp.int32)
        index: Any = ()
        kept: Any = ()
        if self.index_episodes:
            if "final_observation" in rows.timestep.env_info:
                raise ValueError(
                    "Replay.init: index_episodes is for streams with FIRST rows; the rows hold "
                    "env_info['final_observation'], whose LAST rows belong to two episodes"
                )
            index = episodes.empty(self.capacity, self.num_envs)
        if self.priority_exponent is not None:
            kept = priorities.empty(self.capacity * self.num_envs, self._made_for)
        state = ReplayState(ring.empty(self.capacity, rows), zero, jnp.zeros_like(zero), index, kept)
        step_type = rows.timestep.step_type
        return _xla.vary_like(step_type, state) if isinstance(step_type, jax.Array) else state

    def add(self, state: ReplayState, rows: Experience, env_id: Any = None) -> ReplayState:
        """Appends rows to lanes, over the oldest ones where a lane is full.

        Args:
            state: the buffer. Donate it (``jax.jit(replay.add, donate_argnums=0)``) or carry it through a scan: the
                rows are then written in place.
            rows: leaves ``[T, B, ...]``, or ``[T, K, ...]`` for the lanes of ``env_id``; T is at most ``capacity``.
            env_id: int32 ``[K]``, distinct lanes, for buffers that are not aligned; all lanes by default. Outside
                jitted code repeated and unknown lanes are refused; inside, rows of unknown lanes are dropped, and all
                but the last of a lane that is repeated.

        Raises:
            ValueError: for rows of another structure, shape or dtype than ``init`` saw, naming the leaf; more rows than
                the buffer holds; another number of lanes; or ``env_id`` for an aligned buffer.
        """
        self._check("add", state)
        rows = checks.stored("Replay.add", rows)
        if env_id is not None and self.aligned:
            raise ValueError("Replay.add: all lanes of an aligned buffer are added to together, pass no env_id")
        lanes = np.arange(self.num_envs, dtype=np.int32) if env_id is None else env_id
        lanes = checks.lanes("Replay.add", lanes, self.num_envs)
        count = checks.more_rows("Replay.add", rows, state.rows, lanes.shape[0], self.capacity)
        if count == 0:
            return state
        position = self._of_lanes(state.position, lanes) + np.arange(count, dtype=np.int32)[:, None]  # [T, K] or [T, 1]
        slot = position % np.int32(self.capacity)
        if self.aligned:
            write = lambda old, new: ring.write(old, new, slot[:, 0])  # noqa: E731
            end = state.position + np.int32(count)
        else:
            write = lambda old, new: ring.write_lanes(old, new, slot, lanes)  # noqa: E731
            end = jnp.asarray(state.position).at[lanes].add(np.int32(count), mode="drop")
        index = state.episodes
        if self.index_episodes:
            index = episodes.extend(index, rows.timestep.step_type, position, lanes, write)
        state = ReplayState(write(state.rows, rows), end, state.origin, index, state.priorities)
        return self._with_new_priorities(state, lanes, count)

    def clear(self, state: ReplayState, keep: int = 0) -> ReplayState:
        """The buffer without its rows, but for the newest ``keep`` of each lane. Positions are counted on.

        With ``keep=1`` the next rows find the one before them: no transition between two unrolls is lost.

        Raises:
            ValueError: if ``keep`` is not in 0 .. ``capacity``.
        """
        self._check("clear", state)
        if not checks.is_whole(keep, 0) or keep > self.capacity:
            raise ValueError(f"Replay.clear: keep must be a whole number in 0 .. {self.capacity}, got {keep!r}")
        origin = jnp.maximum(state.position - np.int32(keep), self.earliest(state))
        kept = state.priorities
        if self.priority_exponent is not None and keep:
            lanes = np.arange(self.num_envs, dtype=np.int32)
            position = self._position(state, np.arange(self.capacity, dtype=np.int32)[:, None], lanes[None])
            there = position >= self._of_lanes(origin, lanes) + np.int32(self.ignore_earliest)
            kept = priorities.kept(kept, jnp.broadcast_to(there, (self.capacity, self.num_envs)).reshape(-1))
        elif self.priority_exponent is not None:
            kept = priorities.kept(kept)
        return dataclasses.replace(state, origin=origin, priorities=kept)

    def update_priorities(self, state: ReplayState, batch: Batch, priority: jax.Array) -> ReplayState:
        """Gives sampled windows new priorities; windows that are gone meanwhile are left out.

        Of a window that occurs twice in the batch the greater priority counts. A number that is not finite counts as
        the greatest priority so far, a negative one as 0; windows of priority 0 are not sampled again. What is above
        2**96 after it was raised to ``priority_exponent`` counts as that, so that sums stay finite.

        Args:
            state: the buffer.
            batch: as sampled, from this state or an earlier one; ``env_id`` and ``position`` are read.
            priority: float32 ``[N]``, say the absolute error of each window's value. It is raised to
                ``priority_exponent`` here.

        Raises:
            ValueError: if sampling is not prioritised, or the shape is another one.
        """
        if self.priority_exponent is None:
            raise ValueError("Replay.update_priorities: sampling is uniform, pass priority_exponent to Replay")
        self._check("update_priorities", state)
        if jnp.shape(priority) != batch.position.shape:
            raise ValueError(
                f"Replay.update_priorities: priority must have shape {batch.position.shape}, got {jnp.shape(priority)}"
            )
        base = jnp.maximum(jnp.asarray(priority, jnp.float32), np.float32(0))
        # A power may overflow.
        power = jnp.minimum(base ** np.float32(self.priority_exponent), priorities.LARGEST)
        power = jnp.where(jnp.isfinite(base), power, np.float32(np.inf))
        lane, position = batch.env_id, batch.position
        begin, end = self._of(self.earliest(state), lane), self._of(state.position, lane)
        there = (position >= begin + np.int32(self.ignore_earliest)) & (
            position <= end - np.int32(self.priority_length)
        )
        place = (position % np.int32(self.capacity)) * np.int32(self.num_envs) + lane
        place = jnp.where(there, place, state.priorities.nowhere)
        return dataclasses.replace(state, priorities=priorities.change(state.priorities, place, power))

    # --- what is there -----------------------------------------------------------------------------------------------

    def size(self, state: ReplayState) -> jax.Array:
        """Rows stored of each lane, int32: ``()`` where the buffer is aligned, ``[B]`` otherwise."""
        self._check("size", state, batched=True)
        return state.position - self.earliest(state)

    def earliest(self, state: ReplayState) -> jax.Array:
        """The position of the oldest row stored, int32 in the shape of `size`."""
        self._check("earliest", state, batched=True)
        return jnp.maximum(state.position - np.int32(self.capacity), state.origin)

    def can_sample(self, state: ReplayState, length: int = 2) -> jax.Array:
        """Whether there is a window of ``length`` rows to sample, bool ``()``; one of a priority above 0 is needed."""
        self._check("can_sample", state)
        there = jnp.any(self._windows(state, length) > 0)
        return there if self.priority_exponent is None else there & (state.priorities.total > 0)

    # --- rows out ----------------------------------------------------------------------------------------------------

    def sample(
        self,
        state: ReplayState,
        key: jax.Array | random.Stream,
        batch_size: int,
        length: int = 2,
        importance_exponent: Any = 1.0,
    ) -> Batch:
        """Windows of consecutive rows: leaves ``[N, L, ...]``. Each is equally likely, or as its priority says.

        No window crosses the place where the next row will be written. Windows may cross the end of an episode, see
        `episode_mask` and `to_transitions`. Draws are spread evenly: no window is drawn twice as long as there are
        enough, and in an aligned buffer every lane gives ``N // B`` windows or one more; with priorities one window is
        drawn from each of N equal parts of their sum.

        Args:
            state: the buffer.
            key: one typed key, or a stream of shape ``()``.
            batch_size: N.
            length: L, rows in a window; 2 hold one transition.
            importance_exponent: beta in [0, 1], for prioritised sampling: how much of its bias the weights undo,
                ``(1 / (M P)) ** beta`` over the greatest of the batch.

        Raises:
            ValueError: for a window longer than ``capacity - ignore_earliest``, or other than ``priority_length``
                where sampling is prioritised; outside jitted code, if there is no window of that length yet, or none of
                a priority above 0. Inside, rows are then repeated: ask `can_sample`.
        """
        self._check("sample", state)
        if not checks.is_whole(batch_size, 1):
            raise ValueError(f"Replay.sample: batch_size must be a whole number of at least 1, got {batch_size!r}")
        windows = self._windows(state, length)
        if is_concrete(windows) and not np.any(np.asarray(windows) > 0):
            raise ValueError(
                f"Replay.sample: no lane has a window of {length} rows yet: the buffer holds "
                f"{np.max(self.size(state))} rows a lane, of which the {self.ignore_earliest} oldest begin none"
            )
        stream = checks.one_stream("Replay.sample", key)
        if self.priority_exponent is not None:
            return self._prioritised(state, stream, int(batch_size), length, importance_exponent)
        env_id, window = self._draw(stream, int(batch_size), windows)
        position = self._of(self.earliest(state), env_id) + np.int32(self.ignore_earliest) + window
        return self._batch(state, env_id, position, length, jnp.ones(batch_size, jnp.float32))

    def sample_transitions(
        self,
        state: ReplayState,
        key: jax.Array | random.Stream,
        batch_size: int,
        n: int = 1,
        gamma: Any = None,
        mode: StreamMode = "next_step",
        importance_exponent: Any = 1.0,
    ) -> tuple[Transitions, Batch]:
        """Transitions over up to ``n`` steps, leaves ``[N, ...]``, and the windows of n + 1 rows that they are from.

        Which of them are transitions is told by ``valid``. ``Batch`` holds importance weights, and is what
        `update_priorities` takes.

        Args:
            state: the buffer.
            key: one typed key, or a stream of shape ``()``.
            batch_size: N.
            n: how many steps, as in `to_n_step_transitions`.
            gamma: discount rate, for more than one step.
            mode: of the stream's ``AutoReset``.
            importance_exponent: as in `sample`.

        Raises:
            ValueError: as `sample` and `to_n_step_transitions`, and without ``gamma`` for more than one step.
        """
        if not checks.is_whole(n, 1):
            raise ValueError(f"Replay.sample_transitions: n must be a whole number of at least 1, got {n!r}")
        if n > 1 and gamma is None:
            raise ValueError(f"Replay.sample_transitions: rewards of {n} steps are discounted, pass gamma")
        if is_concrete(gamma) and not np.all((np.asarray(gamma) >= 0) & (np.asarray(gamma) <= 1)):
            raise ValueError(f"Replay.sample_transitions: gamma must be in [0, 1], got {gamma}")
        batch = self.sample(state, key, batch_size, n + 1, importance_exponent)
        rows, last = batch.split()
        found = to_transitions(rows, last, mode) if n == 1 else to_n_step_transitions(rows, last, n, gamma, mode)
        return jax.tree.map(lambda x: x[0], found), batch

    def get(self, state: ReplayState, path: str, env_id: Any, position: Any) -> Any:
        """What is stored of a field at any rows: leaves ``[*S, ...]``.

        Args:
            state: the buffer.
            path: dotted path of a field of `Experience`: ``"timestep.observation.camera"``, ``"action"``.
            env_id: int32 of any shape S, lanes.
            position: int32 of the same shape, positions.

        Raises:
            ValueError: for a field that is not stored, or shapes that differ; outside jitted code also for rows that
                are not there, or no longer. Inside, the nearest row of the lane is taken.
        """
        self._check("get", state)
        if not isinstance(path, str):
            raise ValueError(f"Replay.get: path must be the dotted name of a field, got {path!r}")
        found = state.rows if path == "timestep.env_id" else tree.get_field(state.rows, path)
        if isinstance(found, tuple) and found == ():
            raise ValueError(f"Replay.get: {path!r} is not stored, keep it in unroll(fields=...)")
        env_id, _, slot = self._find("Replay.get", state, env_id, position)
        if path == "timestep.env_id":
            return env_id
        found = ring.read(found, slot, env_id)
        if path in ("", "timestep"):
            found = tree.set_field(found, "env_id" if path else "timestep.env_id", env_id)
        return found

    def episode_begin(self, state: ReplayState, env_id: Any, position: Any) -> jax.Array:
        """Position of the first row of the episode of a row, or of the earliest row stored; int32 ``[*S]``.

        Arguments and errors as of `get`; also a ValueError without ``index_episodes``.
        """
        self._needs_index("episode_begin")
        self._check("episode_begin", state)
        env_id, position, slot = self._find("Replay.episode_begin", state, env_id, position)
        begin = episodes.begin_of(state.episodes, env_id, slot)
        # Where every stored episode has one row, the end of the one before may be overwritten by a later one.
        return jnp.clip(begin, self._of(self.earliest(state), env_id), position)

    def episode_end(self, state: ReplayState, env_id: Any, position: Any) -> jax.Array:
        """Position of the LAST row of the episode of a row, or of its newest row while it goes on; int32 ``[*S]``.

        Arguments and errors as of `get`; also a ValueError without ``index_episodes``.
        """
        self._needs_index("episode_end")
        self._check("episode_end", state)
        env_id, _, slot = self._find("Replay.episode_end", state, env_id, position)
        return episodes.end_of(state.episodes, env_id, slot)

    def gather_all(self, state: ReplayState) -> Batch:
        """Everything stored, oldest rows first, one window a lane: leaves ``[B, n, ...]``. Outside jitted code only.

        Raises:
            ValueError: in jitted code; if lanes hold different numbers of rows; if there are none.
        """
        self._check("gather_all", state)
        sizes = self.size(state)
        if not is_concrete(sizes):
            raise ValueError("Replay.gather_all: the number of rows must be known, call it outside jitted code")
        known = np.unique(np.asarray(sizes))
        if len(known) > 1 or known[0] == 0:
            raise ValueError(f"Replay.gather_all: all lanes must hold equally many rows, got {known.tolist()}")
        env_id = jnp.arange(self.num_envs, dtype=jnp.int32)
        position = jnp.broadcast_to(self.earliest(state), self.num_envs)
        return self._batch(state, env_id, position, int(known[0]), jnp.ones(self.num_envs, jnp.float32))

    def bytes_per_row(self, state: ReplayState) -> float:
        """All bytes of the buffer over its rows, ``capacity * num_envs``; for arrays or ``ShapeDtypeStruct``."""
        total = sum(math.prod(x.shape) * x.dtype.itemsize for x in jax.tree.leaves(state))
        return total / (self.capacity * self.num_envs)

    # --- inside ------------------------------------------------------------------------------------------------------

    @property
    def _made_for(self) -> tuple[tuple[str, float], ...]:
        """What priorities depend on and no shape tells."""
        names = ("priority_exponent", "priority_length", "ignore_earliest")
        return tuple((name, getattr(self, name)) for name in names)

    def _check(self, name: str, state: ReplayState, batched: bool = False) -> None:
        """Refuses what is not a state of this buffer, or of one that stores the same and samples otherwise.

        After a checkpoint was restored the static record is that of the tree it was restored into. The array tells what
        was saved, outside jitted code.
        """
        if not isinstance(state, ReplayState):
            raise ValueError(f"Replay.{name}: state must be a ReplayState, got {type(state).__name__}")
        shape, kept = jnp.shape(state.rows.timestep.step_type), state.priorities
        if len(shape) > 3 and not batched:
            raise ValueError(f"Replay.{name}: the state is that of {shape[0]} buffers, use jax.vmap")
        found: dict[str, Any] = {
            "capacity": shape[-3] * shape[-1],
            "num_envs": shape[-2],
            "aligned": jnp.ndim(state.position) == len(shape) - 3,
            "index_episodes": not isinstance(state.episodes, tuple),
        }
        if isinstance(kept, tuple):
            found["priority_exponent"] = None
        elif self.priority_exponent is None or not is_concrete(kept.record):
            found.update(kept.made_for)
        else:
            saved = np.asarray(kept.record).reshape(-1, len(kept.made_for))[0]
            for (argument, value), number in zip(kept.made_for, saved, strict=True):
                found[argument] = value if np.float32(value) == number else type(value)(float(str(number)))
        checks.made_for(f"Replay.{name}", vars(self), found)

    def _windows(self, state: ReplayState, length: int) -> jax.Array:
        """How many windows of ``length`` rows each lane has, uint32 in the shape of `size`."""
        if not checks.is_whole(length, 1) or length > self.capacity - self.ignore_earliest:
            raise ValueError(
                f"Replay: length must be in 1 .. {self.capacity - self.ignore_earliest} (capacity less "
                f"ignore_earliest), got {length!r}"
            )
        spare = self.size(state) - np.int32(self.ignore_earliest + length - 1)
        return jnp.maximum(spare, np.int32(0)).astype(jnp.uint32)

    def _draw(self, stream: random.Stream, number: int, windows: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Lane and window, counted from the oldest allowed one, int32 ``[N]`` each."""
        # As it is written: 0.07 of 100 is 7.
        recent = math.ceil(round(self.recent_fraction * number, 9))
        if not recent:
            return self._uniform(stream, number, windows)
        # Where the buffer is so small that uniform draws give as many, nothing is done for the newest.
        few = windows.astype(jnp.float32) * np.float32(self.recent_fraction) <= np.float32(self.recent_rows)
        newest = jnp.where(few, windows, np.uint32(self.recent_rows))
        env_id, window = self._uniform(random.fold_in(stream, "recent"), recent, newest)
        window = window + self._of((windows - newest).astype(jnp.int32), env_id)
        if recent == number:
            return env_id, window
        others = self._uniform(stream, number - recent, windows)
        return jnp.concatenate([env_id, others[0]]), jnp.concatenate([window, others[1]])

    def _uniform(self, stream: random.Stream, number: int, windows: jax.Array) -> tuple[jax.Array, jax.Array]:
        if self.aligned:
            some = jnp.maximum(windows, np.uint32(1))
            env_id, window = strata.from_equal_lanes(stream, number, self.num_envs, some)
        else:
            env_id, window = strata.from_unequal_lanes(stream, number, windows)
        return env_id, window.astype(jnp.int32)

    def _find(
        self, name: str, state: ReplayState, env_id: Any, position: Any
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Lane, position and ring slot of rows; those that are not there are refused, or the nearest is taken."""
        env_id, position = jnp.asarray(env_id), jnp.asarray(position)
        if env_id.shape != position.shape:
            raise ValueError(f"{name}: env_id has shape {env_id.shape}, position {position.shape}")
        for what, x in (("env_id", env_id), ("position", position)):
            if not jnp.issubdtype(x.dtype, jnp.integer):
                raise ValueError(f"{name}: {what} must be integers, got {x.dtype}")
        env_id, position = env_id.astype(jnp.int32), position.astype(jnp.int32)
        lane = jnp.clip(env_id, np.int32(0), np.int32(self.num_envs - 1))
        begin, end = (self._of(x, lane) for x in (self.earliest(state), state.position))
        there = jnp.clip(position, begin, jnp.maximum(end - 1, begin))
        wrong = (env_id != lane) | (position < begin) | (position >= end)
        if is_concrete(wrong) and np.any(wrong):
            first = int(np.argmax(np.asarray(wrong)))
            raise ValueError(
                f"{name}: position {position.reshape(-1)[first]} of lane {env_id.reshape(-1)[first]} is not stored, "
                f"the buffer has {self.num_envs} lanes and positions {np.asarray(begin).reshape(-1).tolist()[:4]} "
                f"to {(np.asarray(end) - 1).reshape(-1).tolist()[:4]}"
            )
        return lane, there, there % np.int32(self.capacity)

    def _needs_index(self, name: str) -> None:
        if not self.index_episodes:
            raise ValueError(f"Replay.{name}: episodes are not indexed, pass index_episodes=True to Replay")

    def _with_new_priorities(self, state: ReplayState, lanes: jax.Array, count: int) -> ReplayState:
        """Priorities after ``count`` more rows: the windows that they complete get the greatest, those lost 0."""
        if self.priority_exponent is None:
            return state
        end, begin = (self._of_lanes(x, lanes) for x in (state.position, self.earliest(state)))
        # In the ring: starts of windows that the rows may complete, the rows, and the oldest rows that begin none.
        number = min(count + self.priority_length - 1 + self.ignore_earliest, self.capacity)
        position = end - np.int32(count + self.priority_length - 1) + np.arange(number, dtype=np.int32)[:, None]
        last = end - np.int32(self.priority_length)
        complete = (position >= begin + np.int32(self.ignore_earliest)) & (position <= last)
        place = (position % np.int32(self.capacity)) * np.int32(self.num_envs) + lanes[None]
        place = jnp.where(lanes[None] < self.num_envs, place, state.priorities.nowhere)
        kept = priorities.begin(state.priorities, place, complete, adjacent=self.aligned)
        return dataclasses.replace(state, priorities=kept)

    def _prioritised(
        self, state: ReplayState, stream: random.Stream, number: int, length: int, importance_exponent: Any
    ) -> Batch:
        if length != self.priority_length:
            raise ValueError(
                f"Replay.sample: length must be the priority_length of {self.priority_length}, got {length}"
            )
        total = state.priorities.total
        if is_concrete(total) and not total > 0:
            raise ValueError("Replay.sample: all windows have priority 0")
        place, priority = priorities.draw(state.priorities, stream, number)
        slot, env_id = place // np.int32(self.num_envs), place % np.int32(self.num_envs)
        position = self._position(state, slot, env_id)
        # The number M of windows and the sum of priorities cancel.
        priority = jnp.maximum(priority, np.finfo(np.float32).tiny)
        weight = (jnp.min(priority) / priority) ** jnp.asarray(importance_exponent, jnp.float32)
        return self._batch(state, env_id, position, length, weight)

    def _position(self, state: ReplayState, slot: Any, env_id: Any) -> jax.Array:
        """Of the newest row in a slot of a lane, int32 ``[*S]``; below 0 where there never was one."""
        newest = self._of(state.position, env_id) - 1
        return newest - (newest - slot) % np.int32(self.capacity)

    def _of(self, x: jax.Array, env_id: jax.Array) -> jax.Array:
        """What ``x``, one for all lanes or one for each, is for lanes ``[*S]``: ``()`` or ``[*S]``."""
        return x if self.aligned else jnp.asarray(x).at[env_id].get(mode="clip")

    def _of_lanes(self, x: jax.Array, lanes: Any) -> jax.Array:
        """The same as a row: ``[1, 1]`` or ``[1, K]``."""
        return jnp.reshape(x, (1, 1)) if self.aligned else self._of(x, lanes)[None]

    def _batch(self, state: ReplayState, env_id: Any, position: Any, length: int, weight: jax.Array) -> Batch:
        row = position[:, None] + np.arange(length, dtype=np.int32)[None]
        # In jitted code windows can be asked for that are not there.
        row = jnp.clip(row, np.int32(0), jnp.maximum(self._of(state.position, env_id[:, None]) - 1, np.int32(0)))
        lane = jnp.broadcast_to(env_id[:, None], row.shape)
        rows = ring.read(state.rows, row % np.int32(self.capacity), lane)
        rows = dataclasses.replace(rows, timestep=dataclasses.replace(rows.timestep, env_id=lane))
        return Batch(rows, env_id, position, weight)
