"""Draws windows uniformly, or in part from the newest ones."""

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random
from jaxenv._util.checks import check_integer, check_real
from jaxenv.data.replay.replay_state import Span
from jaxenv.data.replay.sampling import Draw, Sampling


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

    def sample(
        self,
        state: Any,
        span: Span,
        stream: random.Stream,
        batch_size: int,
        length: int,
        num_windows: jax.Array,
        importance_exponent: Any,
    ) -> Draw:
        env_id, window = self._draw(span, stream, batch_size, num_windows)
        position = span.begin_of(env_id) + np.int32(span.ignore_earliest) + window
        return env_id, position, jnp.ones(batch_size, jnp.float32)

    def update(
        self, state: Any, span: Span, env_id: jax.Array, position: jax.Array, priority: jax.Array, valid: Any
    ) -> Any:
        fault = "sampling is uniform"
        raise ValueError(f"Replay.update_priorities: {fault}, make the Replay with sampling=PrioritizedSampling(...)")

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
