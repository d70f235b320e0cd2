"""Looks up entries of constant boolean tables."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv.core import take_rows

_MAX_INLINE_WORDS = 32


def lookup(table: np.ndarray, index: jax.Array) -> jax.Array:
    """Returns the entries of a constant bool table at flat indices ``index`` (int32 ``[B]``): bool ``[B]``.

    A table of up to 1024 entries is compiled into immediate 32-bit words and needs no memory access.
    """
    flags = np.zeros(-(-table.size // 32) * 32, bool)
    flags[: table.size] = table.reshape(-1)
    words = np.packbits(flags, bitorder="little").view("<u4").astype(np.uint32)
    which = index >> 5
    if len(words) > _MAX_INLINE_WORDS:
        word = take_rows(words, which)
    else:
        word = jnp.full(index.shape, words[0])
        for i, other in enumerate(words[1:], 1):
            word = jnp.where(which == np.int32(i), other, word)
    return (word >> (index & 31).astype(jnp.uint32)) & np.uint32(1) != 0
