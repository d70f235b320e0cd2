"""Uniform draws of whole numbers in equal parts: as even as a shuffled deck, at one random word a draw.

N draws below ``total`` take one number from each of N parts of equal size, turned by a random amount, so that every
draw is uniform on its own, none repeats another while there are at least N numbers, and else none occurs twice more
often than another. 32-bit integers throughout: JAX has no others by default.
"""

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random


def from_equal_lanes(stream: random.Stream, number: int, lanes: int, windows: jax.Array) -> tuple[jax.Array, jax.Array]:
    """``number`` draws of a lane and of a window of that lane; every lane gives ``number // lanes`` or one more.

    Args:
        stream: of shape ``()``.
        number: N, static.
        lanes: B, static.
        windows: uint32 ``()``, how many windows every lane has; at least 1.

    Returns:
        lane int32 ``[N]`` and window uint32 ``[N]``.
    """
    index = np.arange(number)
    lane, after = index * lanes // number, (index + 1) * lanes // number
    turn = random.bits(random.fold_in(stream, "lanes"))
    words = random.bits(random.fold_in(stream, "windows"), (number,))
    if number > lanes:
        first = -(-lane * number // lanes)
        count = -(-(lane + 1) * number // lanes) - first
        # Each lane's parts are turned by its own amount.
        turns = random.bits(random.fold_in(stream, "turns"), (lanes,))[lane]
        window = _turned(_draw(words, windows, index - first, count), turns, windows)
        drawn = jnp.asarray(lane, jnp.uint32)
    else:
        window = _below(words, windows)
        width = jnp.asarray(after - lane, jnp.uint32)
        drawn = jnp.asarray(lane, jnp.uint32) + random.high_product(random.bits(stream, (number,)), width)
    return _turned(drawn, turn, jnp.asarray(lanes, jnp.uint32)).astype(jnp.int32), window


def from_unequal_lanes(stream: random.Stream, number: int, windows: jax.Array) -> tuple[jax.Array, jax.Array]:
    """``number`` draws, uniform over the windows of all lanes together.

    Args:
        stream: of shape ``()``.
        number: N, static.
        windows: uint32 ``[B]``, how many windows each lane has, below 2**31 in all.

    Returns:
        lane int32 ``[N]`` and window uint32 ``[N]``; lane 0 and window 0 where there are none.
    """
    ends = jax.lax.cumsum(windows)
    total = jnp.maximum(ends[-1], np.uint32(1))
    turn = random.bits(random.fold_in(stream, "turns"))
    words = random.bits(random.fold_in(stream, "windows"), (number,))
    drawn = _turned(_draw(words, total, np.arange(number), np.full(number, number)), turn, total)
    lane = jnp.searchsorted(ends, drawn, side="right").astype(jnp.int32)
    lane = jnp.where(lane < windows.shape[0], lane, np.int32(0))
    return lane, drawn - (ends - windows)[lane]


def _below(word: jax.Array, total: jax.Array) -> jax.Array:
    return random.high_product(word, jnp.broadcast_to(total, word.shape))


def _turned(drawn: jax.Array, word: jax.Array, total: jax.Array) -> jax.Array:
    return (drawn + _below(word, total)) % total


def _draw(word: jax.Array, total: jax.Array, part: np.ndarray, count: np.ndarray) -> jax.Array:
    """A number from part ``part`` of ``count`` equal parts of 0 .. total - 1; from its lower end if it is empty."""
    low = _bound(part, count, total)
    high = jnp.where(part + 1 == count, total, _bound(part + 1, count, total))
    return low + random.high_product(word, high - low)


def _bound(part: np.ndarray, count: np.ndarray, total: jax.Array) -> jax.Array:
    """``part * total // count`` (one more at times, from 2**32 on for ``total * count``); 0 for the whole."""
    share = [-(-(int(i) << 32) // int(n)) % 2**32 for i, n in zip(part, count, strict=True)]
    return _below(jnp.asarray(np.array(share, np.uint32)), total)
