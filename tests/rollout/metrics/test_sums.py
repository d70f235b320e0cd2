"""Per-lane sums: accurate over very many terms and far from zero."""

import jax
import numpy as np
import pytest

from jaxenv.core._moments import Sum
from jaxenv.rollout import Metrics
from tests.rollout.metrics.trajectories import computed, trajectory


@jax.jit
def one_by_one(total, x):
    return jax.lax.fori_loop(0, 1000, lambda _, s: s.add(x), total)


def test_a_sum_grows_where_float32_counts_no_further():
    before = np.array([2.0**24, 2.0**24, 2.0**30], np.float32)
    total = one_by_one(Sum(before, np.zeros_like(before)), np.array([1.0, 0.25, 3.0], np.float32))
    exact = before + 1000 * np.array([1, 0.25, 3.0])
    np.testing.assert_array_equal(np.float64(total.value) - np.float64(total.error), exact)
    assert np.float32(2**24) + np.float32(1) == 2**24


def test_the_sum_of_a_million_tenths_is_correct_to_its_last_digit():
    run = jax.jit(lambda x: jax.lax.fori_loop(0, 10**6, lambda _, s: s.add(x), Sum.zeros((1,))))
    total = run(np.full(1, 0.1, np.float32))
    assert total.value.tolist() == pytest.approx([np.float64(np.float32(0.1)) * 10**6], rel=1e-7)


def test_the_standard_deviation_of_returns_keeps_its_digits_far_from_zero():
    rewards = np.zeros((2, 41), np.float32)
    rewards[:, 1::2] = 1e6 + np.arange(40).reshape(2, 20)
    found = computed(Metrics(), trajectory(["F" + "LF" * 20] * 2, rewards))
    assert found["return_std"] == pytest.approx(np.std(np.arange(40)), rel=1e-4)
    assert found["return_mean"] == pytest.approx(1e6 + 19.5, rel=1e-7)
