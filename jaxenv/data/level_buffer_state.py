"""The contents of a level buffer, and what `LevelBuffer` computes once its arguments are checked."""

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, tree
from jaxenv.core._compiled import compiled_once
from jaxenv.tree import _export


@tree.struct
class LevelBufferState:
    """The contents of a `LevelBuffer` with N places: a plain tree of arrays.

    Attributes:
        levels: the levels, leaves ``[N, ...]``. The first ``size`` places are in use.
        notes: what else is stored with each level, leaves ``[N, ...]``; ``()`` for nothing.
        scores: float32 ``[N]``; -inf in empty places.
        hashes: uint32 ``[N, 2]``, a hash of the bits of each level.
        last_used: int32 ``[N]``, the time at which each level was last inserted or sampled.
        size: int32 ``()``, the number of levels.
        time: int32 ``()``, the number of calls of ``insert`` and ``sample``.
    """

    levels: Any
    notes: Any
    scores: jax.Array
    hashes: jax.Array
    last_used: jax.Array
    size: jax.Array
    time: jax.Array


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


@compiled_once
def insert(state: LevelBufferState, levels: Any, scores: jax.Array, valid: jax.Array, notes: Any) -> LevelBufferState:
    """Adds levels, see `LevelBuffer.insert`."""
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
def update(
    state: LevelBufferState, place: jax.Array, scores: jax.Array, valid: jax.Array, notes: Any
) -> LevelBufferState:
    """Sets scores and notes, see `LevelBuffer.update`."""
    valid &= (place >= 0) & (place < state.size)
    last = _last(place[:, None] == place[None], valid)
    scores, notes = _merged(last, valid, scores, notes)
    is_last = last == np.arange(len(scores), dtype=np.int32)
    return _write(state, place, valid & is_last, scores=scores, notes=notes)


@functools.partial(compiled_once, static_argnums=(1, 2, 3))
def weights(state: LevelBufferState, prioritization: str, temperature: float, staleness: float) -> jax.Array:
    """Returns the probability of each place, see `LevelBuffer.weights`."""
    capacity, exponent = state.scores.shape[0], np.float32(1 / temperature)
    is_used = jnp.arange(capacity, dtype=np.int32) < state.size
    if prioritization == "rank":
        order = jnp.argsort(-state.scores, stable=True)
        rank = jnp.zeros(capacity, jnp.float32).at[order].set(np.arange(1, capacity + 1, dtype=np.float32))
        of_score = rank**-exponent
    else:
        scores = jnp.where(is_used, jnp.maximum(state.scores, 0), 0)
        greatest = jnp.maximum(jnp.max(scores), np.finfo(np.float32).tiny)
        of_score = (scores / greatest) ** exponent
    stale = (state.time - state.last_used).astype(jnp.float32)
    of_score, of_time = _shares(of_score, is_used), _shares(stale, is_used)
    return np.float32(1 - staleness) * of_score + np.float32(staleness) * of_time


@functools.partial(compiled_once, static_argnums=3)
def sample(
    state: LevelBufferState, weights: jax.Array, stream: random.Stream, num_levels: int
) -> tuple[LevelBufferState, LevelSample]:
    """Draws levels in proportion to ``weights``, see `LevelBuffer.sample`."""
    below = jnp.cumsum(weights)
    number = jnp.arange(num_levels, dtype=np.float32) + random.uniform(stream)
    point = number * (below[-1] / np.float32(num_levels))
    place = jnp.sum(below[None] <= point[:, None], axis=1, dtype=jnp.int32)
    place = jnp.minimum(place, jnp.maximum(state.size - 1, 0))
    state = dataclasses.replace(state, time=state.time + 1)
    state = _write(state, place, jnp.ones(num_levels, bool), last_used=state.time)
    return state, read(state, place)


def read(state: LevelBufferState, place: jax.Array) -> LevelSample:
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
