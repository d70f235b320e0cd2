"""Shuffles indices without a sort, which on a CPU would take as long as a gradient step on the shuffled rows."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random
from jaxenv.core._compiled import compiled_once

_ROUNDS = 10
_LEAST = 256  # fewer entries are cheap to sort, and have too few bits to mix


@functools.partial(compiled_once, static_argnums=1)
def shuffled(stream: random.Stream, n: int) -> jax.Array:
    """Returns the indices 0 .. n - 1 in pseudo-random order, int32 ``[n]``, for a stream of shape ``()``.

    From n = 256 on, a Feistel network (Luby and Rackoff, 1988, doi:10.1137/0217022) maps each index to another number
    of as many bits. Numbers of n or above are mapped again (Black and Rogaway, 2002, "Ciphers with arbitrary finite
    domains").
    """
    if n < _LEAST:
        return random.permutation(stream, n)
    low = (n - 1).bit_length() // 2
    high = (n - 1).bit_length() - low
    keys = random.bits(stream, (_ROUNDS,))

    def permute(x: jax.Array) -> jax.Array:
        left, right = x >> np.uint32(low), x & np.uint32(2**low - 1)
        for number in range(0, _ROUNDS, 2):
            right ^= _mixed(left, keys[number]) >> np.uint32(32 - low)
            left ^= _mixed(right, keys[number + 1]) >> np.uint32(32 - high)
        return left << np.uint32(low) | right

    index = permute(jnp.arange(n, dtype=jnp.uint32))
    if n < 2 ** (low + high):
        outside = np.uint32(n)
        walk = lambda x: jnp.where(x < outside, x, permute(x))  # noqa: E731
        index = jax.lax.while_loop(lambda x: jnp.any(x >= outside), walk, index)
    return index.astype(jnp.int32)


def _mixed(x: jax.Array, key: jax.Array) -> jax.Array:
    """Maps ``x`` to a random uint32 by the finaliser of MurmurHash3."""
    x = (x ^ key) * np.uint32(0x85EBCA6B)
    x = (x ^ (x >> np.uint32(13)) ^ (key >> np.uint32(7))) * np.uint32(0xC2B2AE35)
    return x ^ (x >> np.uint32(16))
