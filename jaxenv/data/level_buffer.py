"""A buffer of levels, ranked by how much there is to learn in them, as pure functions.

Prioritised level replay: Jiang et al. (2021), arXiv:2010.03934, and robust PLR (2021), arXiv:2110.02439. A level is
data: any tree of arrays with a leading axis of levels. docs/guides/levels.md describes the use.
"""

import dataclasses
import math
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, tree
from jaxenv._util.checks import (
    Range,
    check_array,
    check_arrays,
    check_choice,
    check_integer,
    check_kind,
    check_mask,
    check_real,
    is_concrete,
)
from jaxenv.data import level_buffer_state as places
from jaxenv.data._trajectory_checks import single_stream
from jaxenv.data.level_buffer_state import LevelBufferState, LevelSample
from jaxenv.data.level_scores import LevelScores
from jaxenv.tree._structure import type_mismatch

_FINITE = Range(above=-math.inf, below=math.inf)


@dataclasses.dataclass(frozen=True)
class LevelBuffer:
    """Stores the ``capacity`` levels with the highest scores and samples them by score and staleness.

    It is hashable and holds no array: close over it, or pass it as a static argument. A level is drawn with probability
    ``(1 - staleness) * P_score + staleness * P_stale``. ``P_stale`` is proportional to the time since the level was
    last used. ``P_score`` is proportional to ``rank ** (-1 / temperature)``, where rank 1 has the highest score, or to
    ``score ** (1 / temperature)``, where negative scores count as 0. If no score is positive, it is uniform.

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
        check_choice("LevelBuffer", "prioritization", self.prioritization, ("rank", "proportional"))
        check_real("LevelBuffer", "temperature", self.temperature, 0)
        if not self.temperature:
            raise ValueError("LevelBuffer: temperature must be above 0, got 0")
        check_real("LevelBuffer", "staleness", self.staleness, 0, 1)

    def init(self, levels: Any, notes: Any = ()) -> LevelBufferState:
        """Returns an empty buffer for levels like these.

        Args:
            levels: leaves ``[K, ...]`` of arrays or ``ShapeDtypeStruct``; K does not matter.
            notes: numbers to store with each level, of which the greatest counts, such as the highest return so far:
                leaves ``[K, ...]``. Levels are compared without their notes.
        """
        leaves = _leading(levels, notes)
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

        Args:
            state: the buffer.
            levels: leaves ``[K, ...]``.
            scores: float32 ``[K]``, finite where ``mask`` is True.
            mask: bool ``[K]``, which levels to add; all by default.
            notes: leaves ``[K, ...]``, as in ``init``.

        Raises:
            ValueError: for levels or notes of another structure, shape or dtype than in ``init``. Outside jitted code
                also for a score that is not finite; jitted code does not add such levels.
        """
        owner = "LevelBuffer.insert"
        scores, valid = self._scores(owner, state, scores, mask)
        self._check_rows(owner, state, scores.shape[0], levels=levels, notes=notes)
        return places.insert(state, levels, scores, valid, notes)

    def update(
        self, state: LevelBufferState, place: jax.Array, scores: jax.Array, mask: Any = None, notes: Any = ()
    ) -> LevelBufferState:
        """Sets the scores and notes of sampled levels.

        A level that several lanes played gets the mean of their scores and the greatest of their notes.

        Args:
            state: the buffer.
            place: int32 ``[K]``, `LevelSample.place`; nothing may have been inserted since.
            scores: float32 ``[K]``, finite where ``mask`` is True.
            mask: bool ``[K]``, which entries to read; all by default.
            notes: leaves ``[K, ...]``, as in ``init``.

        Raises:
            ValueError: for places of another shape or dtype, or notes that do not fit. Outside jitted code also for a
                score that is not finite or a place that holds no level; jitted code skips them.
        """
        owner = "LevelBuffer.update"
        scores, valid = self._scores(owner, state, scores, mask)
        self._check_rows(owner, state, scores.shape[0], notes=notes)
        place = self._place(owner, state, place, valid)
        return places.update(state, place, scores, valid, notes)

    def weights(self, state: LevelBufferState) -> jax.Array:
        """Returns the probability of each place, float32 ``[N]``, 0 for empty ones.

        Levels of equal score rank in the order of their places.
        """
        self._check_state("LevelBuffer.weights", state)
        return places.weights(state, self.prioritization, self.temperature, self.staleness)

    def sample(
        self, state: LevelBufferState, key: jax.Array | random.Stream, num_levels: int
    ) -> tuple[LevelBufferState, LevelSample]:
        """Draws levels with the probabilities of `weights`, and notes that they were used.

        The draw is systematic: ``num_levels`` points at equal distances, with one random offset, in the order of the
        places. A level with probability p is drawn ``num_levels * p`` times, rounded down or up.

        Args:
            state: the buffer.
            key: one typed key, or a stream of shape ``()``.
            num_levels: K.

        Raises:
            ValueError: outside jitted code for an empty buffer. In jitted code it returns the empty place 0: check
                ``state.size``.
        """
        owner = "LevelBuffer.sample"
        self._check_state(owner, state)
        check_integer(owner, "num_levels", num_levels, 1)
        stream = single_stream(owner, key)
        self._has_levels(owner, state)
        return places.sample(state, self.weights(state), stream, int(num_levels))

    def get(self, state: LevelBufferState, place: jax.Array) -> LevelSample:
        """Reads the levels at ``place``, int32 ``[K]``, without marking them as used.

        Raises:
            ValueError: for places of another shape or dtype, and outside jitted code for a place without a level.
        """
        owner = "LevelBuffer.get"
        self._check_state(owner, state)
        return places.read(state, self._place(owner, state, place, np.ones(jnp.size(place), bool)))

    def _check_state(self, owner: str, state: Any) -> None:
        check_kind(owner, "state", state, LevelBufferState, ", as LevelBuffer.init returns it")
        if jnp.shape(state.scores) != (self.capacity,):
            rule = f"state must have the buffer's capacity of {self.capacity}"
            raise ValueError(f"{owner}: {rule}, got scores of shape {jnp.shape(state.scores)}")

    def _check_rows(self, owner: str, state: LevelBufferState, num_levels: int, **given: Any) -> None:
        for name, value in given.items():
            check_arrays(owner, name, value)
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
        check_mask(owner, mask, len(scores))
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


def _leading(levels: Any, notes: Any) -> list[tuple[str, Any]]:
    """Returns the leaves of both trees with their names."""
    found = []
    for name, value in (("levels", levels), ("notes", notes)):
        for path, leaf in tree.flatten_with_path(value)[0]:
            found.append((tree.path_name(path, name), leaf))
            check_array("LevelBuffer.init", *found[-1])
    return found
