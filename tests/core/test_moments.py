"""Running moments and the 64-bit count in them: exact in count, accurate in float32 over any number of samples."""

import functools
import pickle

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenv.core import _moments
from jaxenv.core._moments import Count

merge, update = jax.jit(_moments.merge), jax.jit(_moments.update)


def batches(num, samples=32, shape=(3,), mean=0.0, seed=0):
    rng = np.random.default_rng(seed)
    return (mean + rng.normal(size=(num, samples, *shape)) * rng.uniform(0.5, 2, (num, 1, *shape))).astype(np.float32)


def moments_of(count, mean, variance):
    """Moments of ``count`` samples, a Python integer."""
    words = (jnp.asarray(word, jnp.uint32) for word in divmod(count, 2**32))
    mean, variance = jnp.asarray(mean, jnp.float32), jnp.asarray(variance, jnp.float32)
    return _moments.Moments(Count(*words), mean, variance, jnp.zeros_like(mean), jnp.zeros_like(variance))


def test_a_sample_counts_if_all_of_its_numbers_are_finite_and_moderate():
    samples = np.zeros((5, 2, 3), np.float32)
    samples[0], samples[1, 0, 1], samples[2, 1, 2], samples[3, 1, 0] = 9e14, np.inf, np.nan, -2e15
    assert _moments.summable(samples).tolist() == [True, False, False, False, True]


@pytest.mark.parametrize("mean", [0.0, 1000.0])
def test_moments_of_batches_equal_those_of_all_samples(mean):
    data, moments = batches(20, mean=mean), _moments.empty((3,))
    for batch in data:
        moments = update(moments, batch)
    samples = data.reshape(-1, 3).astype(np.float64)
    assert int(moments.count) == 640
    np.testing.assert_allclose(moments.mean, samples.mean(0), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(moments.variance, samples.var(0), rtol=1e-5)


def test_invalid_samples_have_no_effect_even_if_they_are_nan():
    (data,), valid = batches(1), np.arange(32) % 3 == 0
    masked = np.where(valid[:, None], data, np.nan)
    moments = update(_moments.empty((3,)), masked, valid)
    assert int(moments.count) == 11
    np.testing.assert_allclose(moments.mean, data[valid].mean(0), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(moments.variance, data[valid].var(0), rtol=1e-5)
    nothing = update(moments, masked, np.zeros(32, bool))
    chex.assert_trees_all_equal(nothing, moments)


@pytest.mark.parametrize(("shape", "mean"), [((), 0.0), ((), 1000.0), ((3,), 1000.0)])
def test_samples_added_one_by_one_to_groups_equal_all_samples_of_each(shape, mean):
    groups, rows = 5, 700
    data = batches(rows, groups, shape, mean)
    counted = np.random.default_rng(1).random((rows, groups)) < np.linspace(0, 1, groups)  # of the first group none
    moments = jax.tree.map(lambda x: jnp.broadcast_to(x, (groups, *x.shape)), _moments.empty(shape))

    def add(moments, row):
        return _moments.add_sample(moments, *row), None

    masked = jnp.where(counted.reshape(rows, groups, *(1,) * len(shape)), data, np.nan)
    moments, _ = jax.jit(lambda moments: jax.lax.scan(add, moments, (masked, jnp.asarray(counted))))(moments)
    assert np.asarray(moments.count).tolist() == counted.sum(0).tolist()
    for group in range(1, groups):
        samples = data[counted[:, group], group].astype(np.float64)
        np.testing.assert_allclose(moments.mean[group], samples.mean(0), rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(moments.variance[group], samples.var(0), rtol=1e-5)
    assert np.all(moments.mean[0] == 0)
    assert np.all(moments.variance[0] == 1)


def test_normalising_changes_nothing_before_the_first_sample():
    x = batches(1)[0]
    empty = _moments.empty((3,))
    assert int(empty.count) == 0
    np.testing.assert_array_equal(_moments.normalize(empty, x), x)
    np.testing.assert_array_equal(update(empty, x, np.zeros(32, bool)).variance, np.ones(3))


def test_the_first_batch_sets_mean_and_variance_even_if_they_are_tiny():
    tiny = (batches(1)[0] * 1e-6).astype(np.float32)
    moments = update(_moments.empty((3,)), tiny)
    np.testing.assert_allclose(moments.variance, tiny.astype(np.float64).var(0), rtol=1e-5)
    np.testing.assert_allclose(moments.mean, tiny.astype(np.float64).mean(0), rtol=1e-5)


@pytest.mark.parametrize("shape", [(), (3,)])
def test_moments_of_several_groups_merge_as_those_of_each_alone(shape):
    valid = np.arange(32) < np.array([0, 7, 32, 19])[:, None]  # the first group is empty
    groups = jax.vmap(_moments.from_batch)(batches(4, shape=shape), valid)
    others = jax.vmap(_moments.from_batch)(batches(4, shape=shape, seed=1))
    merged = merge(groups, others)
    for i in range(4):
        alone = merge(*jax.tree.map(lambda x, i=i: x[i], (groups, others)))
        chex.assert_trees_all_close(jax.tree.map(lambda x, i=i: x[i], merged), alone, rtol=1e-6, atol=1e-7)


def test_a_single_sample_has_variance_0_and_normalises_to_0():
    moments = update(_moments.empty(()), np.array([3.0], np.float32))
    assert (float(moments.mean), float(moments.variance)) == (3, 0)
    assert _moments.normalize(moments, jnp.full(2, 3.0)).tolist() == [0, 0]


def test_numbers_that_never_vary_normalise_to_0_without_epsilon():
    moments = update(_moments.empty((2,)), np.array([[3.0, 0.0], [3.0, 2.0]], np.float32))
    shown = _moments.normalize(moments, jnp.array([[3.0, 0.0], [4.0, 3.0]]), 0)
    assert shown.tolist() == [[0, -1], [1, 2]]
    assert _moments.denormalize(moments, shown, 0).tolist() == [[3, 0], [4, 3]]


def test_denormalize_is_the_inverse_of_normalize():
    data = batches(2, mean=5.0)
    moments = update(_moments.empty((3,)), data[0])
    shown = _moments.normalize(moments, data[1], 0.25)
    np.testing.assert_allclose(
        shown, (data[1] - moments.mean[None]) / np.sqrt(moments.variance[None] + np.float32(0.25)), rtol=1e-6
    )
    np.testing.assert_allclose(_moments.denormalize(moments, shown, 0.25), data[1], rtol=1e-5)


def test_merging_works_in_either_order_and_on_trees():
    data = batches(3, mean=2.0)
    a, b = update(_moments.empty((3,)), data[0]), update(update(_moments.empty((3,)), data[1]), data[2])
    ab, ba = merge({"x": a}, {"x": b})["x"], merge({"x": b}, {"x": a})["x"]
    samples = data.reshape(-1, 3).astype(np.float64)
    for moments in (ab, ba):
        assert int(moments.count) == 96
        np.testing.assert_allclose(moments.mean, samples.mean(0), rtol=1e-6)
        np.testing.assert_allclose(moments.variance, samples.var(0), rtol=1e-5)
    for empty_first, empty_second in [(_moments.empty((3,)), a), (a, _moments.empty((3,)))]:
        chex.assert_trees_all_equal(merge(empty_first, empty_second), a)


# --- very many samples -----------------------------------------------------------------------------------------------

TEN_BILLION = 10**10


@functools.cache
def ten_billion():
    """10**10 samples in 200,000 batches: one half with mean 100 and variance 4, the other with 101 and 9."""

    def many(moments, batch):
        return jax.lax.fori_loop(0, 100_000, lambda _, m: _moments.merge(m, batch), moments)

    many = jax.jit(many)
    return many(many(_moments.empty(()), moments_of(50_000, 100, 4)), moments_of(50_000, 101, 9))


def test_ten_billion_samples_are_counted_exactly_and_averaged_accurately():
    moments = ten_billion()
    assert int(moments.count) == TEN_BILLION
    np.testing.assert_allclose(moments.mean, 100.5, rtol=1e-6)
    np.testing.assert_allclose(moments.variance, 6.5 + 0.25, rtol=1e-5)


def test_after_ten_billion_samples_a_shift_still_moves_the_mean():
    """Each batch of 4096 changes mean and variance by less than their last digit; together they change them by more."""
    before, batch = ten_billion(), moments_of(4096, 200, 1)
    after = jax.jit(lambda m: jax.lax.fori_loop(0, 10_000, lambda _, m: _moments.merge(m, batch), m))(before)
    new, total = 4096 * 10_000, TEN_BILLION + 4096 * 10_000
    assert int(after.count) == total
    moved = (float(after.mean) - float(before.mean)) + (float(after.mean_error) - float(before.mean_error))
    weight = new / total
    np.testing.assert_allclose(moved, weight * (200 - 100.5), rtol=1e-4)
    spread = (1 - weight) * 6.75 + weight * 1 + weight * (1 - weight) * 99.5**2
    np.testing.assert_allclose(after.variance, spread, rtol=1e-5)
    assert int(update(after, np.zeros(3, np.float32)).count) == total + 3


def test_the_lower_word_of_the_count_carries_into_the_upper_word():
    full = moments_of(2**32 - 1, 1.0, 1.0)
    assert int(update(full, np.ones(3, np.float32)).count) == 2**32 + 2
    assert int(merge(full, full).count) == 2**33 - 2


def test_pickled_moments_continue_bit_for_bit():
    data = batches(4)
    moments = functools.reduce(update, data[:2], _moments.empty((3,)))
    restored = pickle.loads(pickle.dumps(jax.device_get(moments)))
    assert int(restored.count) == int(moments.count) == 64
    for batch in data[2:]:
        moments, restored = update(moments, batch), update(restored, batch)
    chex.assert_trees_all_equal(moments, restored)


def test_moments_pass_no_gradient():
    gradient = jax.jit(jax.grad(lambda x: _moments.update(_moments.empty((2,)), x).mean.sum()))(
        np.ones((4, 2), np.float32)
    )
    assert not gradient.any()
