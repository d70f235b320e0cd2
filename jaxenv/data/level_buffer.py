"""A buffer of levels, ranked by how much there is to learn in them, as pure functions.

Prioritised level replay: Jiang et al. (2021), arXiv:2010.03934, and robust PLR (2021), arXiv:2110.02439. A level is
data: any tree of arrays with a leading axis of levels. docs/guides/levels.md describes the use.
"""

import dataclasses
import functools
import math
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, tree
from jaxenv._util import checks
from jaxenv._util.checks import Range, check_array, check_integer, check_kind, is_concrete
from jaxenv.core._compiled import compiled_once
from jaxenv.data.level_scores import LevelScores
from jaxenv.data.rows import single_stream
from jaxenv.tree import _export
from jaxenv.tree._structure import type_mismatch

_FINITE = Range(above=-math.inf, below=math.inf)


@tree.struct
class LevelBufferState:
    """The contents of a `LevelBuffer` with N places: a plain tree of arrays."""

    levels: Any  # the levels, leaves [N, ...]. The first size places are in use
    notes: Any  # what else is stored with each level, leaves [N, ...]; () for nothing
    scores: jax.Array  # float32[N]; -inf in empty places
    hashes: jax.Array  # uint32[N, 2], a hash of the bits of each level
    last_used: jax.Array  # int32[N], the time at which each level was last inserted or sampled
    size: jax.Array  # int32[], the number of levels
    time: jax.Array  # int32[], the number of calls of insert and sample


@_export.named_tuple
class LevelSample(NamedTuple):
    """K levels drawn from a `LevelBuffer`.

    Attributes:
        place: int32 ``[K]``, where they are stored. A place names the same level until the next ``insert``.
        levels: leaves ``[K, ...]``.
        notes: leaves ``[K, ...]``; ``()`` for nothing.
    """

    place: jax.Array
    levels: Any
    notes: Any


@dataclasses.dataclass(frozen=True)
class LevelBuffer:
    """Stores the ``capacity`` levels with the highest scores and samples them by score and staleness.

    It is hashable and holds no array: close over it, or pass it as a static argument. A level is drawn with probability
    ``(1 - staleness) * P_score + staleness * P_stale``. ``P_stale`` is proportional to the time since the level was
    last used. ``P_score`` is proportional to ``rank ** (-1 / temperature)``, where rank 1 has the highest score, or to
    ``score ** (1 / temperature)``, where negative scores count as 0. If no score is positive, it is uniform.

    Outside jitted code a ``ValueError`` refuses scores that are not finite, places that hold no level, and samples of
    an empty buffer. Jitted code skips such scores and places, and samples place 0 of an empty buffer: check ``size``.

    Args:
        capacity: N, at most this many levels.
        prioritization: ``"rank"`` or ``"proportional"``.
        temperature: above 0; the lower, the more often the highest scores are drawn.
        staleness: the staleness coefficient, in [0, 1].

    >>> import jax, jax.numpy as jnp
    >>> buffer = LevelBuffer(capacity=2)
    >>> levels = {"goal": jnp.array([[0, 1], [3, 2], [5, 5]])}
    >>> state = buffer.insert(buffer.init(levels), levels, jnp.array([0.5, 0.25, 0.75]))
    >>> state.levels["goal"].tolist(), state.scores.tolist()
    ([[5, 5], [0, 1]], [0.75, 0.5])
    >>> state, sample = buffer.sample(state, jax.random.key(0), 4)
    >>> sample.levels["goal"].shape
    (4, 2)
    >>> state = buffer.update(state, sample.place, jnp.zeros(4))
    """

    capacity: int
    prioritization: Literal["rank", "proportional"] = "rank"
    temperature: float = 0.3
    staleness: float = 0.3

    def __post_init__(self) -> None:
        check_integer("LevelBuffer", "capacity", self.capacity, 1)
        checks.check_choice("LevelBuffer", "prioritization", self.prioritization, ("rank", "proportional"))
        checks.check_real("LevelBuffer", "temperature", self.temperature, 0)
        Range(above=0).check("LevelBuffer", "temperature", self.temperature)
        checks.check_real("LevelBuffer", "staleness", self.staleness, 0, 1)

    def init(self, levels: Any, notes: Any = ()) -> LevelBufferState:
        """Returns an empty buffer for levels like these, leaves ``[K, ...]`` of arrays or ``ShapeDtypeStruct``.

        ``notes``, leaves ``[K, ...]``, are numbers to store with each level, of which the greatest counts, such as the
        highest return so far. Levels are compared without their notes.
        """
        named = jax.tree.flatten_with_path({"levels": levels, "notes": notes})[0]
        leaves = [(tree.path_name(path), leaf) for path, leaf in named]
        for path, leaf in leaves:
            check_array("LevelBuffer.init", path, leaf)
        num_levels = {jnp.shape(leaf)[:1] for _, leaf in leaves}
        if not jax.tree.leaves(levels) or len(num_levels) > 1 or () in num_levels:
            shapes = ", ".join(f"{path} {list(jnp.shape(leaf))}" for path, leaf in leaves) or "none"
            raise ValueError(f"LevelBuffer.init: all leaves must lead with the number of levels, got {shapes}")
        n = self.capacity
        empty = lambda x: jnp.zeros((n, *jnp.shape(x)[1:]), jnp.result_type(x))  # noqa: E731
        return LevelBufferState(
            levels=jax.tree.map(empty, levels),
            notes=jax.tree.map(empty, notes),
            scores=jnp.full(n, np.float32(-np.inf)),
            hashes=jnp.zeros((n, 2), jnp.uint32),
            last_used=jnp.zeros(n, jnp.int32),
            size=jnp.zeros((), jnp.int32),
            time=jnp.zeros((), jnp.int32),
        )

    def insert(
        self, state: LevelBufferState, levels: Any, scores: jax.Array, mask: Any = None, notes: Any = ()
    ) -> LevelBufferState:
        """Adds K levels and keeps the ``capacity`` highest scores of all.

        A level that is stored already, with equal bits in every leaf, gets the new score, keeps the greater of each
        note and takes no second place. A level that occurs several times in the call counts once, with the mean of its
        scores and the greatest of its notes. Among equal scores stored levels stay, then earlier ones of the call
        enter.

        The K new scores are merged with the K lowest stored ones, which takes O(N + K log K), and each new level is
        compared with the hashes of all stored ones, O(K N) comparisons of words. Only places that change are written.

        ``levels`` and ``notes`` are leaves ``[K, ...]``, as in ``init``. ``scores``, float32 ``[K]``, are finite where
        ``mask``, bool ``[K]``, is True: these levels are added, by default all.
        """
        scores, valid = self._scores("LevelBuffer.insert", state, scores, mask)
        self._check_rows("LevelBuffer.insert", state, scores.shape[0], levels=levels, notes=notes)
        return _insert(state, levels, scores, valid, notes)

    def update(
        self, state: LevelBufferState, place: jax.Array, scores: jax.Array, mask: Any = None, notes: Any = ()
    ) -> LevelBufferState:
        """Sets the scores and notes of sampled levels, with the arguments of ``insert``.

        ``place``, int32 ``[K]``, is `LevelSample.place`; nothing may have been inserted since. A level that several
        lanes played gets the mean of their scores and the greatest of their notes.
        """
        owner = "LevelBuffer.update"
        scores, valid = self._scores(owner, state, scores, mask)
        self._check_rows(owner, state, scores.shape[0], notes=notes)
        place = self._place(owner, state, place, valid)
        return _update(state, place, scores, valid, notes)

    def weights(self, state: LevelBufferState) -> jax.Array:
        """Returns the probability of each place, float32 ``[N]``, 0 for empty ones.

        Levels of equal score rank in the order of their places.
        """
        self._check_state("LevelBuffer.weights", state)
        return _weights(self, state)

    def sample(
        self, state: LevelBufferState, key: jax.Array | random.Stream, num_levels: int
    ) -> tuple[LevelBufferState, LevelSample]:
        """Draws ``num_levels`` levels with the probabilities of `weights`, and notes that they were used.

        The draw is systematic: ``num_levels`` points at equal distances, with one random offset, in the order of the
        places. A level with probability p is drawn ``num_levels * p`` times, rounded down or up.
        ``key`` is one typed key, or a stream of shape ``()``.
        """
        owner = "LevelBuffer.sample"
        self._check_state(owner, state)
        check_integer(owner, "num_levels", num_levels, 1)
        stream = single_stream(owner, key)
        self._has_levels(owner, state)
        return _sample(state, self.weights(state), stream, int(num_levels))

    def get(self, state: LevelBufferState, place: jax.Array) -> LevelSample:
        """Reads the levels at ``place``, int32 ``[K]``, without marking them as used."""
        self._check_state("LevelBuffer.get", state)
        return _read(state, self._place("LevelBuffer.get", state, place, np.ones(jnp.size(place), bool)))

    def _check_state(self, owner: str, state: Any) -> None:
        check_kind(owner, "state", state, LevelBufferState, ", as LevelBuffer.init returns it")
        if jnp.shape(state.scores) != (self.capacity,):
            rule = f"state must have the buffer's capacity of {self.capacity}"
            raise ValueError(f"{owner}: {rule}, got scores of shape {jnp.shape(state.scores)}")

    def _check_rows(self, owner: str, state: LevelBufferState, num_levels: int, **given: Any) -> None:
        for name, value in given.items():
            checks.check_arrays(owner, name, value)
            row = lambda x: jax.ShapeDtypeStruct((num_levels, *x.shape[1:]), x.dtype)  # noqa: E731
            if (difference := type_mismatch(jax.tree.map(row, getattr(state, name)), value, name)) is not None:
                raise ValueError(f"{owner}: {difference}")

    def _scores(self, owner: str, state: Any, scores: Any, mask: Any) -> tuple[jax.Array, jax.Array]:
        """Checks the state, scores and mask; returns float32 ``[K]`` and which of them count, bool ``[K]``."""
        self._check_state(owner, state)
        if isinstance(scores, LevelScores):
            raise ValueError(f"{owner}: scores must be an array, got a LevelScores: pass its fields, scores and valid")
        check_array(owner, "scores", scores)
        scores = jnp.asarray(scores, jnp.float32)
        if scores.ndim != 1:
            raise ValueError(f"{owner}: scores must have shape [K], got {scores.shape}")
        if mask is None:
            mask = np.ones(scores.shape, bool)
        checks.check_mask(owner, mask, len(scores))
        if is_concrete(scores) and is_concrete(mask):
            _FINITE.check(owner, "scores", np.where(mask, scores, np.float32(0)), rank=1)
        return scores, jnp.asarray(mask) & jnp.isfinite(scores)

    def _place(self, owner: str, state: LevelBufferState, place: Any, mask: Any) -> jax.Array:
        """Checks places ``[K]`` and returns them as int32."""
        check_array(owner, "place", place)
        if jnp.shape(place) != jnp.shape(mask) or not jnp.issubdtype(jnp.result_type(place), jnp.integer):
            rule = f"place must be integers of shape {list(jnp.shape(mask))}"
            raise ValueError(f"{owner}: {rule}, got {jnp.result_type(place)}{list(jnp.shape(place))}")
        if is_concrete(place) and is_concrete(mask) and self._has_levels(owner, state):
            used = Range(low=0, high=int(state.size) - 1)
            used.check(owner, "place", np.where(mask, place, 0), rank=1)
        return jnp.asarray(place).astype(jnp.int32)

    def _has_levels(self, owner: str, state: LevelBufferState) -> bool:
        """Returns whether the buffer is known to hold a level; raises a ``ValueError`` if it is known to be empty."""
        if is_concrete(state.size) and not np.asarray(state.size).all():
            raise ValueError(f"{owner}: the buffer is empty, insert levels first")
        return is_concrete(state.size)


# --- what the methods compute once their arguments are checked -------------------------------------------------------


@compiled_once
def _insert(state: LevelBufferState, levels: Any, scores: jax.Array, valid: jax.Array, notes: Any) -> LevelBufferState:
    state, capacity = dataclasses.replace(state, time=state.time + 1), state.scores.shape[0]
    if not len(scores):
        return state
    hashes = _hash(levels)
    # Within the call, the last of equal levels stands for all of them.
    last = _last(jnp.all(hashes[:, None] == hashes[None], axis=-1), valid)
    own = np.arange(len(scores), dtype=np.int32)
    last = jnp.where(_equal(levels, tree.gather(levels, last)), last, own)
    scores, notes = _merged(last, valid, scores, notes)
    valid &= last == own
    # Levels that are in the buffer already. An empty place has no level's hash.
    is_match = jnp.all(hashes[:, None] == state.hashes[None], axis=-1)
    place = jnp.argmax(is_match, axis=1).astype(jnp.int32)
    is_stored = valid & jnp.any(is_match, axis=1) & _equal(levels, tree.gather(state.levels, place))
    of_stored = jax.tree.map(jnp.maximum, notes, tree.gather(state.notes, place))
    state = _write(state, place, is_stored, scores=scores, notes=of_stored, last_used=state.time)
    # The best new level replaces the worst stored one, the second best the second worst, and so on, while the new one
    # is better. Empty places are the worst, in order.
    number = min(len(scores), capacity)
    best, order = jax.lax.top_k(jnp.where(valid & ~is_stored, scores, -jnp.inf), number)
    negative_worst, place = jax.lax.top_k(-state.scores, number)
    levels, hashes, notes = tree.gather((levels, hashes, notes), order)
    new = {"levels": levels, "scores": best, "hashes": hashes, "notes": notes, "last_used": state.time}
    state = _write(state, place, best > -negative_worst, **new)
    return dataclasses.replace(state, size=jnp.sum(state.scores > -jnp.inf, dtype=jnp.int32))


@compiled_once
def _update(
    state: LevelBufferState, place: jax.Array, scores: jax.Array, valid: jax.Array, notes: Any
) -> LevelBufferState:
    valid &= (place >= 0) & (place < state.size)
    last = _last(place[:, None] == place[None], valid)
    scores, notes = _merged(last, valid, scores, notes)
    is_last = last == np.arange(len(scores), dtype=np.int32)
    return _write(state, place, valid & is_last, scores=scores, notes=notes)


@functools.partial(compiled_once, static_argnums=0)
def _weights(buffer: LevelBuffer, state: LevelBufferState) -> jax.Array:
    capacity, exponent = buffer.capacity, np.float32(1 / buffer.temperature)
    is_used = jnp.arange(capacity, dtype=np.int32) < state.size
    if buffer.prioritization == "rank":
        order = jnp.argsort(-state.scores, stable=True)
        rank = jnp.zeros(capacity, jnp.float32).at[order].set(np.arange(1, capacity + 1, dtype=np.float32))
        of_score = rank**-exponent
    else:
        scores = jnp.where(is_used, jnp.maximum(state.scores, 0), 0)
        greatest = jnp.maximum(jnp.max(scores), np.finfo(np.float32).tiny)
        of_score = (scores / greatest) ** exponent
    stale = (state.time - state.last_used).astype(jnp.float32)
    of_score, of_time = _shares(of_score, is_used), _shares(stale, is_used)
    return np.float32(1 - buffer.staleness) * of_score + np.float32(buffer.staleness) * of_time


@functools.partial(compiled_once, static_argnums=3)
def _sample(
    state: LevelBufferState, weights: jax.Array, stream: random.Stream, num_levels: int
) -> tuple[LevelBufferState, LevelSample]:
    below = jnp.cumsum(weights)
    number = jnp.arange(num_levels, dtype=np.float32) + random.uniform(stream)
    point = number * (below[-1] / np.float32(num_levels))
    place = jnp.sum(below[None] <= point[:, None], axis=1, dtype=jnp.int32)
    place = jnp.minimum(place, jnp.maximum(state.size - 1, 0))
    state = dataclasses.replace(state, time=state.time + 1)
    state = _write(state, place, jnp.ones(num_levels, bool), last_used=state.time)
    return state, _read(state, place)


def _read(state: LevelBufferState, place: jax.Array) -> LevelSample:
    """Returns the levels and notes at ``place``, int32 ``[K]``."""
    return LevelSample(place, *tree.gather((state.levels, state.notes), place))


def _write(state: LevelBufferState, place: jax.Array, mask: jax.Array, **values: Any) -> LevelBufferState:
    """Writes values of fields, leaves ``[K, ...]`` or ``()``, to places ``[K]`` where ``mask``."""
    place = jnp.where(mask, place, np.int32(state.scores.shape[0]))
    put = lambda old, new: jnp.asarray(old).at[place].set(new, mode="drop")  # noqa: E731
    changed = {name: jax.tree.map(put, getattr(state, name), value) for name, value in values.items()}
    return dataclasses.replace(state, **changed)


def _shares(values: jax.Array, mask: jax.Array) -> jax.Array:
    """Divides values by their sum where ``mask``; equal shares if all are 0, and 0 elsewhere."""
    values = jnp.where(mask, values, 0)
    total = jnp.sum(values)
    flags = mask.astype(jnp.float32)
    equal = flags / jnp.maximum(jnp.sum(flags), 1)
    return jnp.where(total > 0, values / jnp.where(total > 0, total, 1), equal)


def _last(is_same: jax.Array, valid: jax.Array) -> jax.Array:
    """Returns for each entry the last valid one that is the same, int32 ``[K]``, given bool ``[K, K]``."""
    order = np.arange(len(valid), dtype=np.int32)
    return jnp.max(jnp.where(is_same & valid[None], order[None], -1), axis=1).astype(jnp.int32)


def _merged(last: jax.Array, valid: jax.Array, scores: jax.Array, notes: Any) -> tuple[jax.Array, Any]:
    """Returns scores and notes ``[K, ...]``, in the last of equal entries the mean score and the greatest notes."""
    is_same = (last[:, None] == last[None]) & valid[None]
    number = jnp.maximum(jnp.sum(is_same, axis=1, dtype=jnp.float32), 1)
    mean = jnp.sum(jnp.where(is_same, scores[None], 0), axis=1) / number
    place = jnp.where(valid, last, np.int32(len(scores)))
    return mean, jax.tree.map(lambda x: jnp.asarray(x).at[place].max(x, mode="drop"), notes)


def _hash(levels: Any) -> jax.Array:
    """Returns a hash of the bits of each level, uint32 ``[K, 2]``: a sum over its words, each mixed with its number."""
    words = jnp.concatenate([_words(x) for x in jax.tree.leaves(levels)], axis=1)
    number = jnp.arange(words.shape[1], dtype=np.uint32)[None]
    mixed = random.threefry2x32(number, np.uint32(0), words, np.uint32(0))
    return jnp.stack([jnp.sum(x, axis=1, dtype=jnp.uint32) for x in mixed], axis=1)


def _equal(a: Any, b: Any) -> jax.Array:
    """Returns which levels of two trees ``[K, ...]`` have equal bits, bool ``[K]``."""
    same = [
        jnp.all(_words(x) == _words(y), axis=1) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    ]
    return jnp.all(jnp.stack(same), axis=0)


def _words(x: Any) -> jax.Array:
    """Returns the bits of a leaf ``[K, ...]`` as uint32 ``[K, W]``."""
    x = jnp.asarray(x)
    x = x.reshape(x.shape[0], -1)
    if x.dtype == bool:
        return x.astype(jnp.uint32)
    width = x.dtype.itemsize
    unsigned = jnp.uint32 if width >= 4 else jnp.dtype(f"uint{8 * width}")
    return jax.lax.bitcast_convert_type(x, unsigned).reshape(x.shape[0], -1).astype(jnp.uint32)
