"""Draws for many lanes, and a test statistic of their counts."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random
from jaxenv.random import Stream

N = 20_000


@functools.partial(jax.jit, static_argnums=(0, 1))
def lanes(n, seed=0):
    """Returns one stream per lane, for n lanes of a key."""
    k0, k1 = random.lane_words(jax.random.key(seed), jnp.arange(n))
    return Stream(k0, k1, jnp.zeros_like(k0), jnp.zeros_like(k1))


def draw(fn, n=N):
    """Compiles ``fn`` and returns its draws for n lanes."""
    return jax.device_get(jax.jit(fn)(lanes(n)))


def chi_square(counts, expected=None):
    """Returns the chi-square statistic of counts, standardised; by default equal counts are expected."""
    expected = np.sum(counts) / len(counts) if expected is None else expected
    degrees = len(counts) - 1
    return (np.sum((counts - expected) ** 2 / expected) - degrees) / np.sqrt(2 * degrees)
