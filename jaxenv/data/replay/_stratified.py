"""Draws integers, uniform and stratified, with one random word per draw.

N draws below ``total`` take one integer from each of N equal parts of the range and are shifted cyclically by a common
random amount. Every draw is then uniform, all are distinct if there are at least N integers, and otherwise no integer
occurs more than twice as often as another. All arithmetic is in 32 bits, because JAX has no wider integers by default.
"""

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random


def draw_from_equal_lanes(
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


def draw_from_unequal_lanes(stream: random.Stream, number: int, num_windows: jax.Array) -> tuple[jax.Array, jax.Array]:
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
