"""Ways of choosing the windows that a replay buffer reads: uniformly, or in proportion to priorities."""

import abc
import dataclasses
import math
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, tree
from jaxenv._util.checks import Range, check_array, check_integer, check_real, is_concrete
from jaxenv.data.replay._sum_tree import SumTree, level_sizes
from jaxenv.data.replay.batch import Batch
from jaxenv.data.replay.replay_state import Span

# The lane of each of N windows, int32 [N], the position of its first row, int32 [N], and its weight, float32 [N].
Draw: TypeAlias = tuple[jax.Array, jax.Array, jax.Array]
# The upper bound of a priority raised to the exponent. The sum of 2**31 such priorities fits float32.
LARGEST = np.float32(2.0**96)


class Sampling(abc.ABC):
    """Chooses the windows ``[N, L]`` of a `Replay`.

    The object holds static options and is hashable. Its state is a tree of arrays, ``ReplayState.sampling``.
    """

    def check_buffer(self, capacity: int, num_envs: int, ignore_earliest: int) -> None:  # noqa: B027
        """Raises a ``ValueError`` if the options do not fit a buffer with these arguments."""

    @abc.abstractmethod
    def check_state(self, owner: str, state: Any, ignore_earliest: int) -> None:
        """Raises a ``ValueError`` for a state that was made with other options."""

    def init(self, capacity: int, num_envs: int, ignore_earliest: int) -> Any:
        """Returns the state for an empty buffer; ``()`` by default."""
        return ()

    def extend(self, state: Any, span: Span, env_id: jax.Array, num_rows: int) -> Any:
        """Returns the state after adding ``num_rows`` rows to lanes ``env_id`` (int32 ``[K]``); ``span`` has them."""
        return state

    def clear(self, state: Any, span: Span, keep: int) -> Any:
        """Returns the state after all but the newest ``keep`` rows of each lane were removed, which leaves ``span``."""
        return state

    def can_sample(self, state: Any, span: Span, length: int) -> jax.Array:
        """Returns whether any window of ``length`` rows can be drawn, bool ``()``."""
        return jnp.any(span.num_windows(length) > 0)

    @abc.abstractmethod
    def sample(self, state: Any, span: Span, stream: random.Stream, batch_size: int, length: int, beta: Any) -> Draw:
        """Draws ``batch_size`` windows of ``length`` rows with a stream of shape ``()``; ``beta`` is of the weights."""

    @abc.abstractmethod
    def update(self, state: Any, span: Span, batch: Batch, priority: jax.Array, valid: Any) -> Any:
        """Returns the state with new priorities, float32 ``[N]``, of windows ``[N]``; 0 where not ``valid``."""


@dataclasses.dataclass(frozen=True)
class UniformSampling(Sampling):
    """Draws each of the windows ``[N, L]`` with equal probability.

    Draws are stratified: no window is drawn twice before every window was drawn once, and in an aligned buffer every
    lane contributes ``N // B`` windows or one more. All weights are 1.

    Args:
        recent_fraction: fraction of the batch that is drawn from the newest windows only. These windows come first in
            the batch. While a lane has at most ``recent_rows / recent_fraction`` windows, all are drawn alike, which
            includes the newest often enough.
        recent_rows: the number of newest windows of each lane that this fraction is drawn from. Both are 0 or neither.
    """

    recent_fraction: float = 0.0
    recent_rows: int = 0

    def __post_init__(self) -> None:
        check_real("UniformSampling", "recent_fraction", self.recent_fraction, 0, 1)
        check_integer("UniformSampling", "recent_rows", self.recent_rows, 0)
        if (self.recent_fraction > 0) != (self.recent_rows > 0):
            rule = "recent_fraction and recent_rows must both be positive or both be 0"
            raise ValueError(f"UniformSampling: {rule}, got {self.recent_fraction!r} and {self.recent_rows!r}")

    def check_state(self, owner: str, state: Any, ignore_earliest: int) -> None:
        if state != ():
            raise ValueError(f"{owner}: the state was made with PrioritizedSampling, this Replay has UniformSampling")

    def sample(self, state: Any, span: Span, stream: random.Stream, batch_size: int, length: int, beta: Any) -> Draw:
        env_id, window = self._draw(span, stream, batch_size, span.num_windows(length))
        position = span.begin_of(env_id) + np.int32(span.ignore_earliest) + window
        return env_id, position, jnp.ones(batch_size, jnp.float32)

    def update(self, state: Any, span: Span, batch: Batch, priority: jax.Array, valid: Any) -> Any:
        remedy = "make the Replay with sampling=PrioritizedSampling(...)"
        raise ValueError(f"Replay.update_priorities: sampling is uniform, {remedy}")

    def _draw(
        self, span: Span, stream: random.Stream, batch_size: int, num_windows: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """Draws lanes and windows, int32 ``[N]`` each; windows are counted from the oldest one of the lane."""
        # Rounding first makes the product exact in decimals: 0.07 of 100 is 7.
        num_recent = math.ceil(round(self.recent_fraction * batch_size, 9))
        if not num_recent:
            return _uniform(span, stream, batch_size, num_windows)
        # In a small buffer uniform draws contain the newest windows often enough.
        is_small = num_windows.astype(jnp.float32) * np.float32(self.recent_fraction) <= np.float32(self.recent_rows)
        num_newest = jnp.where(is_small, num_windows, np.uint32(self.recent_rows))
        env_id, window = _uniform(span, random.fold_in(stream, "recent"), num_recent, num_newest)
        window = window + span.at_lanes((num_windows - num_newest).astype(jnp.int32), env_id)
        if num_recent == batch_size:
            return env_id, window
        other_env_id, other_window = _uniform(span, stream, batch_size - num_recent, num_windows)
        return jnp.concatenate([env_id, other_env_id]), jnp.concatenate([window, other_window])


def _uniform(span: Span, stream: random.Stream, number: int, num_windows: jax.Array) -> tuple[jax.Array, jax.Array]:
    if span.aligned:
        at_least_one = jnp.maximum(num_windows, np.uint32(1))
        env_id, window = _draw_from_equal_lanes(stream, number, span.num_envs, at_least_one)
    else:
        env_id, window = _draw_from_unequal_lanes(stream, number, num_windows)
    return env_id, window.astype(jnp.int32)


@tree.struct
class Priorities:
    """State of `PrioritizedSampling`."""

    # The priorities, raised to the exponent. Leaf slot * B + lane belongs to the window that starts in this slot of
    # this lane; 0 if there is none.
    sum_tree: SumTree
    greatest: jax.Array  # float32[], the greatest priority ever set, at least 1; new windows get it
    saved_settings: jax.Array  # float32[3], the values of settings. Checkpoints hold arrays and no static fields
    # Names and values of the options that the priorities depend on.
    settings: tuple[tuple[str, float], ...] = tree.static()


@dataclasses.dataclass(frozen=True)
class PrioritizedSampling(Sampling):
    """Draws windows ``[N, L]`` in proportion to ``(|error| + epsilon) ** exponent``.

    Schaul et al. (2016), "Prioritized Experience Replay", arXiv:1511.05952. Draws are stratified: one window is drawn
    from each of N equal parts of the sum of all priorities. The sum tree takes 4.6 bytes per row.

    Args:
        exponent: alpha in the paper, at least 0; 0 makes all windows equally likely.
        length: L, rows in a window.
        epsilon: at least 0; above 0 a window whose error is 0 can be drawn again.
    """

    exponent: float
    length: int = 2
    epsilon: float = 1e-6

    def __post_init__(self) -> None:
        check_real("PrioritizedSampling", "exponent", self.exponent, 0)
        check_integer("PrioritizedSampling", "length", self.length, 1)
        check_real("PrioritizedSampling", "epsilon", self.epsilon, 0)
        object.__setattr__(self, "exponent", float(self.exponent))  # states compare their settings as floats

    def check_buffer(self, capacity: int, num_envs: int, ignore_earliest: int) -> None:
        check_integer("PrioritizedSampling", "length", self.length, 1, capacity - ignore_earliest)
        if sum(level_sizes(capacity * num_envs)) >= 2**31:
            rule = "the sum tree must have fewer than 2**31 numbers"
            raise ValueError(f"PrioritizedSampling: {rule}, got {capacity} rows of {num_envs} lanes")

    def check_state(self, owner: str, state: Any, ignore_earliest: int) -> None:
        if not isinstance(state, Priorities):
            raise ValueError(f"{owner}: the state was made with UniformSampling, this Replay has PrioritizedSampling")
        found = [value for _, value in state.settings]
        if is_concrete(state.saved_settings):  # a restored state has the static settings of the tree that it replaced
            saved = np.asarray(state.saved_settings).reshape(-1, len(found))[0]  # float32, exact up to 2**24
            found = [a if np.float32(a) == b else b for a, b in zip(found, saved, strict=True)]
        for value, (name, expected) in zip(found, self._settings(ignore_earliest), strict=True):
            number = np.float32 if isinstance(expected, float) else int
            if number(value) != number(expected):
                made = f"the state was made with {name}={number(value)!s}"
                raise ValueError(f"{owner}: {made}, this Replay has {expected}")

    def init(self, capacity: int, num_envs: int, ignore_earliest: int) -> Any:
        settings = self._settings(ignore_earliest)
        values = jnp.asarray(np.array([value for _, value in settings], np.float32))
        return Priorities(SumTree.zeros(capacity * num_envs), jnp.ones((), jnp.float32), values, settings)

    def extend(self, state: Priorities, span: Span, env_id: jax.Array, num_rows: int) -> Priorities:
        # Windows that the new rows may complete, the new rows, and the oldest rows, which start no window any more.
        count = min(num_rows + self.length - 1 + span.ignore_earliest, span.capacity)
        first = span.end_of(env_id[None]) - np.int32(num_rows + self.length - 1)
        position = first + np.arange(count, dtype=np.int32)[:, None]
        starts = span.starts_window(position, env_id[None], self.length)
        place = _place(span, position, env_id[None])
        place = jnp.where(env_id[None] < span.num_envs, place, state.sum_tree.out_of_range)
        priority = jnp.broadcast_to(jnp.where(starts, state.greatest, np.float32(0)), place.shape)
        return dataclasses.replace(state, sum_tree=state.sum_tree.put(place, priority, contiguous=span.aligned))

    def clear(self, state: Any, span: Span, keep: int) -> Any:
        if not keep:
            return dataclasses.replace(state, sum_tree=state.sum_tree.cleared())
        slot = np.arange(span.capacity, dtype=np.int32)[:, None]
        env_id = np.arange(span.num_envs, dtype=np.int32)[None]
        remains = span.position_of(slot, env_id) >= span.begin_of(env_id) + np.int32(span.ignore_earliest)
        remains = jnp.broadcast_to(remains, (span.capacity, span.num_envs)).reshape(-1)
        return dataclasses.replace(state, sum_tree=state.sum_tree.masked(remains))

    def can_sample(self, state: Any, span: Span, length: int) -> jax.Array:
        return super().can_sample(state, span, length) & (state.sum_tree.total > 0)

    def sample(self, state: Any, span: Span, stream: random.Stream, batch_size: int, length: int, beta: Any) -> Draw:
        if length != self.length:
            raise ValueError(f"Replay.sample: length must be {self.length}, as in PrioritizedSampling, got {length}")
        total = state.sum_tree.total
        if is_concrete(total) and not total > 0:
            raise ValueError("Replay.sample: all windows have priority 0")
        place, priority = state.sum_tree.draw(stream, batch_size)
        slot, env_id = place // np.int32(span.num_envs), place % np.int32(span.num_envs)
        # The number M of windows and the sum of priorities cancel in (1 / (M P)) ** beta over the batch's greatest.
        priority = jnp.maximum(priority, np.finfo(np.float32).tiny)
        weight = (jnp.min(priority) / priority) ** jnp.asarray(beta, jnp.float32)
        return env_id, span.position_of(slot, env_id), weight

    def update(self, state: Any, span: Span, batch: Batch, priority: jax.Array, valid: Any) -> Any:
        env_id, position = batch.env_id, batch.position
        _check_priorities("Replay.update_priorities", position.shape, priority, valid)
        base = jnp.abs(jnp.asarray(priority, jnp.float32)) + np.float32(self.epsilon)
        # The power may overflow where the base is finite.
        power = jnp.minimum(base ** np.float32(self.exponent), LARGEST)
        power = jnp.where(jnp.isfinite(base), power, state.greatest)
        power = power if valid is None else jnp.where(valid, power, np.float32(0))
        starts = span.starts_window(position, env_id, self.length)
        place = jnp.where(starts, _place(span, position, env_id), state.sum_tree.out_of_range)
        greatest = jnp.maximum(state.greatest, jnp.max(jnp.where(starts, power, np.float32(0)), initial=np.float32(0)))
        return dataclasses.replace(state, sum_tree=state.sum_tree.put_max(place, power), greatest=greatest)

    def _settings(self, ignore_earliest: int) -> tuple[tuple[str, float], ...]:
        return (("exponent", self.exponent), ("length", self.length), ("ignore_earliest", ignore_earliest))


def _place(span: Span, position: jax.Array, env_id: jax.Array) -> jax.Array:
    return span.slot_of(position) * np.int32(span.num_envs) + env_id


def _check_priorities(owner: str, shape: tuple[int, ...], priority: Any, valid: Any) -> None:
    """Raises a ``ValueError`` unless there is a priority, and a flag if given, per window.

    Known priorities must be finite and at least 0 where ``valid``.
    """
    check_array(owner, "priority", priority)
    for name, given in (("priority", priority), ("valid", valid)):
        if given is not None and jnp.shape(given) != shape:
            raise ValueError(f"{owner}: {name} must have shape {shape}, got {jnp.shape(given)}")
    if valid is not None and jnp.result_type(valid) != jnp.bool_:
        raise ValueError(f"{owner}: valid must be bool, got {jnp.result_type(valid)}")
    if valid is None:
        Range(low=0, below=math.inf).check(owner, "priority", priority, rank=1)
    elif is_concrete(priority) and is_concrete(valid):
        Range(low=0, below=math.inf).check(owner, "priority", np.where(valid, priority, 0), rank=1)


# --- stratified draws ------------------------------------------------------------------------------------------------
#
# N draws below ``total``, with one random word each, take one integer from each of N equal parts of the range. All are
# shifted cyclically by a common random amount. Every draw is then uniform, all are distinct if there are at least N
# integers, and otherwise no integer occurs more than twice as often as another. All arithmetic is in 32 bits, because
# JAX has no wider integers by default.


def _draw_from_equal_lanes(
    stream: random.Stream, number: int, num_lanes: int, num_windows: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Draws N lanes and a window in each, int32 and uint32 ``[N]``; every lane gives N // B windows or one more.

    There are ``num_windows``, uint32 ``()`` of at least 1, in every lane.
    """
    index = np.arange(number)
    lane, next_lane = index * num_lanes // number, (index + 1) * num_lanes // number
    lane_shift = random.bits(random.fold_in(stream, "lanes"))
    words = random.bits(random.fold_in(stream, "windows"), (number,))
    if number > num_lanes:
        first = -(-lane * number // num_lanes)
        num_parts = -(-(lane + 1) * number // num_lanes) - first
        # The windows of each lane are shifted by a separate amount.
        window_shifts = random.bits(random.fold_in(stream, "turns"), (num_lanes,))[lane]
        window = _shift(_draw_from_part(words, num_windows, index - first, num_parts), window_shifts, num_windows)
        drawn = jnp.asarray(lane, jnp.uint32)
    else:
        window = _scale(words, num_windows)
        width = jnp.asarray(next_lane - lane, jnp.uint32)
        drawn = jnp.asarray(lane, jnp.uint32) + random.high_product(random.bits(stream, (number,)), width)
    return _shift(drawn, lane_shift, jnp.asarray(num_lanes, jnp.uint32)).astype(jnp.int32), window


def _draw_from_unequal_lanes(stream: random.Stream, number: int, num_windows: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Draws N lanes and windows, int32 and uint32 ``[N]``, uniformly from the windows of all lanes together.

    The lanes have ``num_windows``, uint32 ``[B]``, whose sum is below 2**31. Without any, lane and window are 0.
    """
    ends = jax.lax.cumsum(num_windows)
    total = jnp.maximum(ends[-1], np.uint32(1))
    shift = random.bits(random.fold_in(stream, "turns"))
    words = random.bits(random.fold_in(stream, "windows"), (number,))
    drawn = _shift(_draw_from_part(words, total, np.arange(number), np.full(number, number)), shift, total)
    lane = jnp.searchsorted(ends, drawn, side="right").astype(jnp.int32)
    lane = jnp.where(lane < num_windows.shape[0], lane, np.int32(0))
    return lane, drawn - (ends - num_windows)[lane]


def _scale(word: jax.Array, total: jax.Array) -> jax.Array:
    """Maps uint32 words uniformly to 0 .. total - 1."""
    return random.high_product(word, jnp.broadcast_to(total, word.shape))


def _shift(drawn: jax.Array, word: jax.Array, total: jax.Array) -> jax.Array:
    """Shifts integers below ``total`` cyclically by the amount that a word encodes."""
    return (drawn + _scale(word, total)) % total


def _draw_from_part(word: jax.Array, total: jax.Array, part: np.ndarray, num_parts: np.ndarray) -> jax.Array:
    """Draws an integer from part ``part`` of ``num_parts`` equal parts of 0 .. total - 1.

    Returns the lower bound of an empty part.
    """
    low = _lower_bound(part, num_parts, total)
    high = jnp.where(part + 1 == num_parts, total, _lower_bound(part + 1, num_parts, total))
    return low + random.high_product(word, high - low)


def _lower_bound(part: np.ndarray, num_parts: np.ndarray, total: jax.Array) -> jax.Array:
    """Returns ``part * total // num_parts``; 0 for ``part == num_parts``.

    The result may be greater by one if ``total * num_parts`` is 2**32 or more.
    """
    fraction = [-(-(int(i) << 32) // int(n)) % 2**32 for i, n in zip(part, num_parts, strict=True)]
    return _scale(jnp.asarray(np.array(fraction, np.uint32)), total)
