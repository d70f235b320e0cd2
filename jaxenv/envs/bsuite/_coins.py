"""Draws fair coins from random words, 32 per word."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np


def num_words(num: int) -> int:
    """Returns the number of words that hold ``num`` coins."""
    return -(-num // 32)


def flips(words: Sequence[jax.Array], num: int) -> jax.Array:
    """Returns the first ``num`` bits of ``words`` (each uint32 ``[B]``), lowest bit first: bool ``[B, num]``."""
    places = [np.arange(min(32, num - start), dtype=np.uint32)[None] for start in range(0, num, 32)]
    bits = [(word[:, None] >> place) & np.uint32(1) for word, place in zip(words, places, strict=True)]
    return jnp.concatenate(bits, axis=-1) != 0
