"""Shuffled indices hold every index once and favour no place."""

import jax
import numpy as np
import pytest

from jaxenv import random
from jaxenv.data.rows import _shuffled


def draws(n, count):
    keys = jax.random.split(jax.random.key(7), count)
    return np.asarray(jax.jit(jax.vmap(lambda key: _shuffled(random.stream(key), n)))(keys))


@pytest.mark.parametrize("n", [1, 2, 7, 255, 256, 257, 300, 511, 512, 513, 1000, 6400, 65_537])
def test_every_index_occurs_once(n):
    index = draws(n, 2)
    assert index.dtype == np.int32
    np.testing.assert_array_equal(np.sort(index, axis=1), np.broadcast_to(np.arange(n), (2, n)))


@pytest.mark.parametrize("n", [256, 300, 512])
def test_an_index_lands_anywhere_and_neighbours_land_apart(n):
    index = draws(n, 4000)
    places = index[:, [0, 1, n // 2, n - 1]]
    distances = (index[:, [1, n // 2, n - 1]] - index[:, [0, 1, n - 2]]) % n
    assert (distances > 0).all()
    # Means over 4000 shuffles of n uniform numbers: standard error n / sqrt(12 * 4000).
    error = n / np.sqrt(12 * 4000)
    np.testing.assert_allclose(places.mean(axis=0), (n - 1) / 2, atol=5 * error)
    np.testing.assert_allclose(distances.mean(axis=0), n / 2, atol=5 * error)
    for x in (*places.T, *distances.T):
        quarters = np.bincount(x * 4 // n, minlength=4) / 4000
        np.testing.assert_allclose(quarters, 0.25, atol=5 * np.sqrt(0.25 * 0.75 / 4000) + 1 / n)


def test_a_shuffle_keeps_one_index_in_place_on_average():
    index = draws(512, 4000)
    fixed = (index == np.arange(512)).sum(axis=1)
    assert abs(fixed.mean() - 1) < 5 / np.sqrt(4000)
    assert abs(fixed.var() - 1) < 0.2  # those of a uniform permutation are nearly Poisson
