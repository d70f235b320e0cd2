"""Distributions drawn from random words: bounds, moments, extreme words, and shapes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenv import random
from tests.draws import N, chi_square, draw, lanes
from tests.errors import like
from tests.packages import lazy

stats = lazy("scipy.stats")


def test_unit_returns_multiples_of_a_power_of_two_below_1():
    words = np.array([0, 255, 256, 2**31, 2**32 - 1], np.uint32)
    assert random.unit(words).tolist() == [0, 0, 2**-24, 0.5, 1 - 2**-24]


def test_uniform_is_uniform_between_0_and_1():
    values = draw(random.uniform)
    assert values.dtype == np.float32
    assert 0 <= values.min() <= values.max() < 1
    assert chi_square(np.histogram(values, 50, (0, 1))[0]) < 5


@pytest.mark.parametrize(
    ("low", "high"), [(-0.05, 0.05), (2, 3), (0.1, 0.30000001), (-1e38, 1e38), (7.0, 7.0), (1e-3, 1e3)]
)
def test_uniform_stays_within_its_bounds(low, high):
    values = np.concatenate(draw(lambda s: random.separate_uniforms(s, 3, low, high)))
    assert np.float32(low) <= values.min() <= values.max() <= np.float32(high)
    width = float(np.float32(high)) - float(np.float32(low))
    assert abs(values.astype(np.float64).mean() - (low + high) / 2) <= 0.01 * width
    assert abs(values.astype(np.float64).std() - width / np.sqrt(12)) <= 0.01 * width


def test_the_largest_word_does_not_exceed_the_upper_bound(monkeypatch):
    bounds = np.random.default_rng(0).normal(size=(2, 2_000)).astype(np.float32)
    low, high = bounds.min(axis=0), bounds.max(axis=0)
    monkeypatch.setattr(random, "bits", lambda stream, shape: jnp.full(stream.shape, 2**32 - 1, jnp.uint32))
    values = jax.jit(lambda s: random.uniform(s, (), low, high))(lanes(2_000))
    assert (values <= high).all()
    assert (values >= low).all()


@pytest.mark.parametrize("shape", [(), (2,), (2, 3)])
def test_bounds_may_differ_per_lane(shape):
    low, high = np.array([0.0, 10.0, -5.0], np.float32), np.array([1.0, 10.5, 5.0], np.float32)

    def draw_bounded(stream):
        return random.uniform(stream, shape, low, high), random.integers(
            stream, shape, low.astype(int), (high + 9).astype(int)
        )

    floats, integers = jax.tree.map(np.asarray, jax.jit(draw_bounded)(lanes(3)))
    for lane in range(3):
        for values, top in ((floats, high[lane]), (integers, int(high[lane] + 9) - 1)):
            assert ((values[lane] >= low[lane]) & (values[lane] <= top)).all()


def test_a_single_stream_draws_single_values():
    def shapes(draw):
        return jax.tree.map(jnp.shape, jax.eval_shape(lambda key: draw(random.stream(key)), jax.random.key(0)))

    assert shapes(random.uniform) == ()
    assert shapes(lambda s: random.separate_uniforms(s, 2, -1.0, 1.0)) == ((), ())
    assert shapes(lambda s: random.integers(s, (4, 2), 0, 5)) == (4, 2)
    assert shapes(lambda s: random.permutation(s, 3)) == (3,)
    assert shapes(lambda s: random.categorical(s, weights=jnp.ones(3))) == ()


@pytest.mark.parametrize(("low", "high"), [(0, 2), (-3, 4), (5, 105), (0, 1)])
def test_integers_are_uniform_and_exclude_the_upper_bound(low, high):
    values = draw(lambda s: random.integers(s, (), low, high))
    found, counts = np.unique(values, return_counts=True)
    assert values.dtype == np.int32
    assert found.tolist() == list(range(low, high))
    assert high - low == 1 or chi_square(counts) < 5


def test_integers_span_nearly_all_of_int32():
    values = draw(lambda s: random.integers(s, (), -(2**31), 2**31 - 1))
    counts, _ = np.histogram(values.astype(np.int64), bins=16, range=(-(2**31), 2**31))
    assert chi_square(counts) < 5


@pytest.mark.parametrize("p", [0.0, 0.1, 0.5, 1.0])
def test_bernoulli_is_true_with_its_probability(p):
    values = draw(lambda s: random.bernoulli(s, (), p))
    assert values.dtype == np.bool_
    assert abs(values.mean() - p) <= 4.5 * np.sqrt(p * (1 - p) / N)


def test_bernoulli_takes_a_probability_per_lane():
    p = jnp.array([0.0, 1.0, 0.5])
    values = draw(lambda s: random.bernoulli(s, (1000,), p), 3)
    assert values.shape == (3, 1000)
    np.testing.assert_allclose(values.mean(axis=1), p, atol=0.08)


def test_normal_is_standard_normal():
    values = draw(random.normal)
    assert values.dtype == np.float32
    assert stats.kstest(values, "norm").pvalue > 1e-4
    assert abs(stats.skew(values)) < 0.08
    assert abs(stats.kurtosis(values)) < 0.16


def test_normal_is_finite_and_symmetric_at_extreme_words(monkeypatch):
    ends = jnp.array([0, 2**32 - 1, 2**31 - 1, 2**31, 2**24, 2**32 - 1 - 2**24], jnp.uint32)
    monkeypatch.setattr(random, "bits", lambda stream, shape: ends)
    values = np.asarray(jax.jit(lambda s: random.normal(s))(lanes(6)))
    assert np.isfinite(values).all()
    assert values[::2].tolist() == (-values[1::2]).tolist()
    assert 5.3 < values[1] < 5.5
    assert 0 < values[3] < 1e-6


def test_exponential_has_mean_1():
    values = draw(random.exponential)
    assert 0 <= values.min() <= values.max() < 16.7
    assert stats.kstest(values, "expon").pvalue > 1e-4


def test_permutation_contains_every_index_once():
    values = draw(lambda s: random.permutation(s, 7), 500)
    assert values.dtype == np.int32
    assert (np.sort(values, axis=1) == np.arange(7)).all()


def test_all_permutations_are_equally_likely():
    values = draw(lambda s: random.permutation(s, 4))
    _, counts = np.unique(values @ np.array([64, 16, 4, 1]), return_counts=True)
    assert len(counts) == 24
    assert chi_square(counts) < 5


def test_categorical_draws_in_proportion_to_the_weights():
    weights = np.array([1.0, 0.0, 3.0, 6.0, 0.0], np.float32)
    values = draw(lambda s: random.categorical(s, weights=jnp.broadcast_to(weights, (*s.shape, 5))))
    counts = np.bincount(values, minlength=5)
    assert values.dtype == np.int32
    assert counts[[1, 4]].tolist() == [0, 0]
    assert chi_square(counts[[0, 2, 3]], N * weights[[0, 2, 3]] / 10) < 5


def test_categorical_never_draws_an_index_of_weight_0():
    rng = np.random.default_rng(0)
    weights = np.where(rng.random((N, 40)) < 0.7, 0, 10.0 ** rng.uniform(-12, 12, (N, 40))).astype(np.float32)
    values = np.asarray(jax.jit(random.categorical)(lanes(N), weights=weights))
    assert (np.take_along_axis(weights, values[:, None], 1)[:, 0] > 0)[weights.any(axis=1)].all()


@pytest.mark.parametrize("count", [16, 17, 65, 300])
def test_categorical_draws_among_many_in_proportion_to_masked_logits(count):
    rng = np.random.default_rng(count)
    logits, mask = rng.normal(size=count).astype(np.float32) * 3, rng.random(count) < 0.6
    mask[-1], logits[-1] = True, logits.max()  # in the last block, which is not full
    values = draw(lambda s: random.categorical(s, logits=jnp.where(mask, logits, -1e9)))
    counts, weights = np.bincount(values, minlength=count), np.where(mask, np.exp(np.float64(logits)), 0)
    expected = N * weights / weights.sum()
    often = expected > 20
    assert not counts[~mask].any()
    assert often[-1]
    assert chi_square(
        np.append(counts[often], counts[~often].sum() + 20), np.append(expected[often], expected[~often].sum() + 20)
    ) < 5  # fmt: skip


@pytest.mark.parametrize("word", [0, 2**31, 2**32 - 1])
def test_categorical_never_draws_a_masked_one_of_65_at_extreme_words(monkeypatch, word):
    monkeypatch.setattr(random, "bits", lambda stream, shape=(): jnp.full(stream.shape, word, jnp.uint32))
    rng = np.random.default_rng(0)
    legal = rng.random((500, 65)) < rng.choice([0.03, 0.5], (500, 1))
    legal[np.arange(500), rng.integers(0, 65, 500)] = True
    logits = np.where(legal, rng.normal(size=legal.shape) * 10, -1e9).astype(np.float32)
    index = np.asarray(jax.jit(lambda s, x: random.categorical(s, logits=x))(lanes(500), logits))
    assert np.take_along_axis(legal, index[:, None], 1).all()


@pytest.mark.parametrize("count", [1, 2, 16, 17])
def test_argmax_is_that_of_numpy(count):
    rng = np.random.default_rng(count)
    x = rng.integers(-3, 3, (400, 3, count)).astype(np.float32)  # with ties
    x[rng.random(x.shape) < 0.1] = -np.inf
    x[rng.random(x.shape) < 0.05] = np.nan
    found = jax.jit(random.argmax)(x)
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, np.argmax(x, axis=-1))


@pytest.mark.parametrize(("x", "got"), [(1.0, r"\(\)"), (np.zeros((3, 0)), r"\(3, 0\)")])
def test_argmax_refuses_a_row_without_numbers(x, got):
    with pytest.raises(ValueError, match=rf"random\.argmax: x .*got shape {got}"):
        random.argmax(x)


@pytest.mark.parametrize("word", [0, 2**32 - 1])
@pytest.mark.parametrize("weights", [[0, 0, 1, 0], [0.1, 0, 0.2, 0], [1e-30, 1, 0, 0], [0, 1e30, 1, 0]])
def test_categorical_draws_a_positive_weight_at_extreme_words(monkeypatch, word, weights):
    monkeypatch.setattr(random, "bits", lambda stream, shape=(): jnp.full(stream.shape, word, jnp.uint32))
    index = jax.jit(lambda s, w: random.categorical(s, weights=w))(lanes(1), np.array([weights], np.float32))[0]
    assert weights[int(index)] > 0


@pytest.mark.parametrize(("word", "index"), [(0, 0), (2**30 - 1, 0), (2**30, 2), (2**31, 3), (2**32 - 1, 3)])
def test_categorical_gives_each_index_a_half_open_interval(monkeypatch, word, index):
    monkeypatch.setattr(random, "bits", lambda stream, shape=(): jnp.full(stream.shape, word, jnp.uint32))
    weights = np.array([[1, 0, 1, 2]], np.float32)
    assert jax.jit(lambda s, w: random.categorical(s, weights=w))(lanes(1), weights).tolist() == [index]


@pytest.mark.parametrize("dtype", [bool, np.int32, np.float32])
def test_categorical_without_positive_weights_returns_0(dtype):
    assert jax.jit(random.categorical)(lanes(3), weights=np.zeros((3, 4), dtype)).tolist() == [0, 0, 0]


@pytest.mark.parametrize("count", [1, 7, 32, 33, 65, 121, 1024, 1025])
def test_categorical_draws_from_flags_what_it_draws_from_numbers(count):
    rng, streams = np.random.default_rng(count), lanes(2000)
    flags = rng.random((2000, count)) < rng.choice([0, 0.02, 0.5, 1], (2000, 1))
    draws = jax.jit(random.categorical)
    expected = draws(streams, weights=flags.astype(np.float32))
    np.testing.assert_array_equal(draws(streams, weights=flags), expected)
    np.testing.assert_array_equal(
        draws(streams, weights=flags[-1]), draws(streams, weights=flags[-1].astype(np.float32))
    )


@pytest.mark.parametrize("word", [0, 2**32 - 1])
def test_categorical_draws_a_flag_at_extreme_words(monkeypatch, word):
    monkeypatch.setattr(random, "bits", lambda stream, shape=(): jnp.full(stream.shape, word, jnp.uint32))
    flags = np.zeros((1, 65), bool)
    flags[0, [3, 31, 32, 64]] = True
    index = jax.jit(lambda s, w: random.categorical(s, weights=w))(lanes(1), flags)
    assert index.tolist() == [64 if word else 3]


def test_categorical_takes_weights_or_logits_by_name():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(100, 3)).astype(np.float32) - 5
    drawn = random.categorical(lanes(100), logits=logits)
    assert drawn.tolist() == random.categorical(lanes(100), weights=np.exp(logits)).tolist()
    assert set(drawn.tolist()) == {0, 1, 2}
    with pytest.raises(TypeError, match="positional"):
        random.categorical(lanes(100), logits)
    for given in ({}, {"weights": logits, "logits": logits}):
        with pytest.raises(ValueError, match=r"^random\.categorical: pass weights or"):
            random.categorical(lanes(100), **given)


def test_a_row_of_weights_or_logits_may_be_shared_by_all_lanes():
    assert random.categorical(lanes(3), weights=[0, 1]).tolist() == [1, 1, 1]
    assert random.categorical(lanes(3), logits=[-np.inf, 0]).tolist() == [1, 1, 1]


NAN = float("nan")


@pytest.mark.parametrize(
    ("draw_wrongly", "message"),
    [
        (
            lambda s: random.categorical(s, weights=[[1, 1], [1, 1], [1, -1]]),
            "weights ...got -1 in lane 2",
        ),
        (lambda s: random.categorical(s, weights=[NAN, 1]), "weights ...got nan"),
        (lambda s: random.categorical(s, logits=[0, np.inf]), "logits ...got inf"),
        (lambda s: random.categorical(s, logits=[NAN, 0]), "logits ...got nan"),
        (lambda s: random.uniform(s, (), 2.0, 1.0), "low ...got 2.0 and 1.0"),
        (lambda s: random.separate_uniforms(s, 2, 0, [1, 1, -1]), "low ...got 0 and -1 in lane 2"),
        (lambda s: random.integers(s, (), 2, 2), "low ...got 2 and 2"),
        (lambda s: random.integers(s, (), 0.5, 2), "low ...got 0.5"),
        (lambda s: random.integers(s, (), 0, 2**31), "high ...got 2147483648"),
        (
            lambda s: random.integers(s, (), 0, np.array([1, 2, 2**32 - 1], np.uint32)),
            "high ...got 4294967295 in lane 2",
        ),
        (
            lambda s: random.uniform(s, (), -3e38, 3e38),
            "high - low ...got low -3e+38 and high 3e+38",
        ),
        (
            lambda s: random.separate_uniforms(s, 2, 0.0, np.inf),
            "high - low ...got low 0.0 and high inf",
        ),
        (
            lambda s: random.categorical(s, weights=np.full(3, 2e38)),
            "weights ...got infinity",
        ),
        (
            lambda s: random.categorical(s, logits=np.zeros((3, 0))),
            "logits ...got none",
        ),
    ],
)
def test_numbers_that_describe_no_distribution_are_refused(draw_wrongly, message):
    with pytest.raises(ValueError, match=rf"^random\.\w+: {like(message)}$"):
        draw_wrongly(lanes(3))


@pytest.mark.parametrize(
    ("draw_wrongly", "argument"),
    [
        (lambda s, x: random.uniform(s, (4,), x, 9), "low"),
        (lambda s, x: random.separate_uniforms(s, 2, -9, x), "high"),
        (lambda s, x: random.integers(s, (), -9, x), "high"),
        (lambda s, x: random.bernoulli(s, (2,), x), "p"),
        (lambda s, x: random.fold_in(s, x), "salt"),
        (lambda s, x: random.categorical(s, weights=x[:, None]), "weights"),
        (lambda s, x: random.categorical(s, logits=x[:, None]), "logits"),
    ],
)
def test_an_argument_with_another_number_of_lanes_is_refused_by_name(draw_wrongly, argument):
    message = rf"^random\.\w+: {argument} must be one \w+ for all lanes or one per lane, "
    with pytest.raises(ValueError, match=message + r"got shape \(2.*\) for a stream.* \(3,\)$"):
        draw_wrongly(lanes(3), np.ones(2, int))
