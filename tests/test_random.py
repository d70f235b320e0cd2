"""Random words: the generator's published answers, what keeps streams apart, and the distributions made of them."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from jaxenv import random
from jaxenv.random import Clock, Stream

N = 20_000


@functools.partial(jax.jit, static_argnums=(0, 1))
def lanes(n, seed=0):
    """One stream for each of n lanes of a key."""
    k0, k1 = random.lane_words(jax.random.key(seed), jnp.arange(n))
    return Stream(k0, k1, jnp.zeros_like(k0), jnp.zeros_like(k1))


def words_of(stream):
    """The first two words of a stream, as one Python set entry per lane."""
    return set(zip(*(np.atleast_1d(w).tolist() for w in _two_words(stream)), strict=True))


@jax.jit
def _two_words(stream):
    return random.separate_bits(stream, 2)


@jax.jit
def lane_words(key, env_id):
    """The key words of each lane: ``[B, 2]``."""
    return jnp.stack(random.lane_words(key, env_id), -1)


def draw(fn, n=N):
    """What ``fn`` draws for n lanes, compiled."""
    return jax.device_get(jax.jit(fn)(lanes(n)))


def chi_square(counts, expected=None):
    """How far counts are from the expected (equal) ones, in standard deviations of the statistic."""
    expected = np.sum(counts) / len(counts) if expected is None else expected
    free = len(counts) - 1
    return (np.sum((counts - expected) ** 2 / expected) - free) / np.sqrt(2 * free)


# --- the generator ---------------------------------------------------------------------------------------------------

# From the known-answer file of Random123: rounds, counter, key, words.
KNOWN = [
    (13, "00000000 00000000", "00000000 00000000", "9d1c5ec6 8bd50731"),
    (13, "ffffffff ffffffff", "ffffffff ffffffff", "fd36d048 2d17272c"),
    (13, "243f6a88 85a308d3", "13198a2e 03707344", "ba3e4725 f27d669e"),
    (20, "00000000 00000000", "00000000 00000000", "6b200159 99ba4efe"),
    (20, "ffffffff ffffffff", "ffffffff ffffffff", "1cb996fc bb002be7"),
    (20, "243f6a88 85a308d3", "13198a2e 03707344", "c4923a9c 483df7a0"),
]


@pytest.mark.parametrize(("rounds", "counter", "key", "answer"), KNOWN)
def test_threefry_gives_the_published_answers(rounds, counter, key, answer):
    c0, c1, k0, k1 = (jnp.uint32(int(word, 16)) for word in f"{counter} {key}".split())
    got = jax.jit(random.threefry2x32, static_argnums=4)(k0, k1, c0, c1, rounds)
    assert " ".join(f"{int(word):08x}" for word in got) == answer


def test_draws_use_13_rounds():
    zero = jnp.zeros(1, jnp.uint32)
    assert [int(w[0]) for w in random.separate_bits(Stream(zero, zero, zero, zero), 2)] == [0x9D1C5EC6, 0x8BD50731]


def test_threefry_agrees_with_the_generator_of_jax():
    key, data = jax.random.key(7), 11
    k0, k1 = jax.random.key_data(key)
    folded = random.threefry2x32(k0, k1, jnp.uint32(0), jnp.uint32(data), rounds=20)
    assert jnp.stack(folded).tolist() == jax.random.key_data(jax.random.fold_in(key, data)).tolist()


def test_high_product_is_exact():
    rng = np.random.default_rng(0)
    edges = [0, 1, 2, 2**16 - 1, 2**16, 2**16 + 1, 2**31 - 1, 2**31, 2**32 - 1]
    pairs = [(a, b) for a in edges for b in edges] + rng.integers(0, 2**32, (2_000, 2)).tolist()
    a, b = (np.array(side, np.uint32) for side in zip(*pairs, strict=True))
    assert jax.jit(random.high_product)(a, b).tolist() == [(x * y) >> 32 for x, y in pairs]


# --- keys of lanes ---------------------------------------------------------------------------------------------------

IMPLEMENTATIONS = ["threefry2x32", "rbg", "unsafe_rbg"]


@pytest.mark.parametrize("impl", IMPLEMENTATIONS)
def test_lane_keys_are_fold_in_of_the_lane_id(impl):
    key, fold_in = jax.random.key(3, impl=impl), jax.jit(jax.random.fold_in)
    got = lane_words(key, np.array([0, 5, 2]))
    one_by_one = [lane_words(fold_in(key, i)[None], np.arange(1))[0] for i in (0, 5, 2)]
    assert got.tolist() == np.stack(one_by_one).tolist()


@pytest.mark.parametrize("impl", IMPLEMENTATIONS)
def test_growing_the_batch_does_not_change_a_lane(impl):
    few, many = (lane_words(jax.random.key(0, impl=impl), np.arange(n)) for n in (3, 100))
    assert few.tolist() == many.tolist()[:3]


@pytest.mark.parametrize("impl", IMPLEMENTATIONS)
def test_a_lane_does_not_depend_on_its_place(impl):
    key = jax.random.key(0, impl=impl)
    assert lane_words(key, np.array([9, 4])).tolist()[0] == lane_words(key, np.array([1, 2, 9])).tolist()[2]


@pytest.mark.parametrize("impl", IMPLEMENTATIONS)
def test_lane_keys_are_pairwise_distinct(impl):
    words = lane_words(jax.random.key(0, impl=impl), np.arange(1000)).tolist()
    assert len(set(map(tuple, words))) == 1000


@pytest.mark.parametrize("impl", IMPLEMENTATIONS)
@pytest.mark.parametrize("n", [1, 2, 4])
def test_a_batch_of_keys_gives_each_lane_its_own(impl, n):
    keys = jax.random.split(jax.random.key(0, impl=impl), n)
    got = lane_words(keys, np.arange(n)).tolist()
    if impl == "threefry2x32":
        assert got == jax.random.key_data(keys).tolist()
    assert len(set(map(tuple, got))) == n
    assert lane_words(keys[::-1], np.arange(n)).tolist() == got[::-1]


def test_the_same_key_gives_the_same_lanes_in_the_same_order():
    assert lanes(50).k0.tolist() == lanes(50).k0.tolist()
    assert lanes(50).k0.tolist() != lanes(50, seed=1).k0.tolist()


@pytest.mark.parametrize("keys", [1, 3])
def test_a_batch_of_keys_of_another_size_is_refused(keys):
    with pytest.raises(ValueError, match=rf"one key or one per lane: got \[{keys}\] keys for 2 lanes"):
        random.lane_words(jax.random.split(jax.random.key(0), keys), jnp.arange(2))


@pytest.mark.parametrize(
    ("key", "what"),
    [
        (np.zeros(2, np.uint32), r"uint32\[2\]"),
        (np.zeros((4, 2), np.uint32), r"uint32\[4, 2\]"),
        (0, "0"),
        (None, "None"),
    ],
)
@pytest.mark.parametrize("use", [random.stream, lambda key: random.lane_words(key, jnp.arange(2))])
def test_raw_keys_are_refused_by_a_message_that_names_the_right_ones(use, key, what):
    with pytest.raises(ValueError, match=rf"key must be a typed key from jax\.random\.key\(seed\), got {what}"):
        use(key)


@pytest.mark.parametrize("impl", IMPLEMENTATIONS)
@pytest.mark.parametrize("shape", [(), (5,)])
def test_a_stream_has_the_shape_of_its_key(impl, shape):
    key = jax.random.key(0, impl=impl)
    stream = random.stream(jax.random.split(key, shape) if shape else key)
    assert stream.shape == shape
    assert [x.dtype for x in jax.tree.leaves(stream)] == [jnp.uint32] * 4
    assert random.stream(stream) is stream


def test_jax_keys_are_typed_and_distinct():
    keys = jax.jit(random.jax_keys)(lanes(1000))
    assert keys.shape == (1000,)
    assert jnp.issubdtype(keys.dtype, jax.dtypes.prng_key)
    assert len({tuple(row) for row in jax.random.key_data(keys).tolist()}) == 1000
    assert jax.vmap(jax.random.uniform)(keys).shape == (1000,)


def test_jax_keys_of_one_stream_are_one_key():
    assert random.jax_keys(random.stream(jax.random.key(0))).shape == ()


# --- streams ---------------------------------------------------------------------------------------------------------


def test_fold_in_gives_another_stream_for_every_static_salt():
    stream = random.stream(jax.random.key(0))
    salts = [0, 1, -1, 2**40, "", "0", "1", "-1", "a", "b", "ab", "FrameStack/0/init", "FrameStack/1/init"]
    streams = [stream, *(random.fold_in(stream, salt) for salt in salts)]
    assert len(set.union(*map(words_of, streams))) == len(streams)


@pytest.mark.parametrize("salt", [3, np.int32(3), np.uint8(3)])
def test_fold_in_takes_any_static_integer_alike(salt):
    stream = random.stream(jax.random.key(0))
    assert words_of(random.fold_in(stream, salt)) == words_of(random.fold_in(stream, 3))


def test_chains_of_folds_do_not_commute():
    stream = random.stream(jax.random.key(0))
    ab, ba = (random.fold_in(random.fold_in(stream, a), b) for a, b in (("a", "b"), ("b", "a")))
    assert ab.k0 != ba.k0
    assert ab.k1 != ba.k1


def test_chains_of_folds_do_not_cancel():
    stream = random.stream(jax.random.key(0))
    chain = [stream]
    for _ in range(8):
        chain.append(random.fold_in(chain[-1], "a"))
    assert len({int(s.k0) for s in chain}) == len({int(s.k1) for s in chain}) == 9


def test_fold_in_of_an_array_takes_one_salt_per_lane():
    stream = lanes(4)
    got = random.fold_in(stream, jnp.array([7, 8, 7, -1]))
    for i, salt in enumerate((7, 8, 7, -1)):
        lane = jax.tree.map(lambda x, i=i: x[i], stream)
        assert words_of(random.fold_in(lane, jnp.int32(salt))) == words_of(jax.tree.map(lambda x, i=i: x[i], got))


def test_fold_in_of_one_array_salt_serves_all_lanes():
    got = random.fold_in(lanes(3), jnp.int32(5))
    assert words_of(got) == words_of(random.fold_in(lanes(3), jnp.full(3, 5)))
    assert len(words_of(got) | words_of(lanes(3)) | words_of(random.fold_in(lanes(3), 5))) == 9


def test_fold_in_leaves_the_counter_alone():
    stream = dataclasses.replace(lanes(2), c0=jnp.full(2, 3, jnp.uint32), c1=jnp.full(2, 4, jnp.uint32))
    for salt in ("a", jnp.int32(1)):
        got = random.fold_in(stream, salt)
        assert (got.c0.tolist(), got.c1.tolist()) == ([3, 3], [4, 4])


def clock(n, episode=0, step=0):
    words = random.lane_words(jax.random.key(0), jnp.arange(n))
    return Clock(words, jnp.arange(n), jnp.full(n, episode), jnp.full(n, step))


def test_a_clock_ticks_its_step_only():
    before = clock(2, 3, 4)
    after = before.tick()
    assert after.step.tolist() == [5, 5]
    assert after.episode is before.episode
    assert after.key is before.key


def test_salts_of_a_clock_are_folded_one_after_the_other():
    stream = clock(2).stream("a", 1)
    expected = random.fold_in(random.fold_in(clock(2).stream(), "a"), 1)
    assert words_of(stream) == words_of(expected)


def test_words_of_lanes_episodes_steps_salts_and_blocks_never_coincide():
    # 2**16 pairs of words, of 2**64: chance would make two of them alike once in 10**10.
    lane, episode, step = (axis.ravel() for axis in np.meshgrid(np.arange(16), np.arange(4), np.arange(16)))

    @jax.jit
    def pairs(lane, episode, step):
        clock = Clock(random.lane_words(jax.random.key(0), lane), lane, episode, step)
        return jnp.stack([random.bits(clock.stream(*salts), (32,)) for salts in ((), ("policy",), (0,), (1,))])

    words = jax.device_get(pairs(lane, episode, step))
    first, second = words[..., :16], words[..., 16:]  # the two words of each of 16 blocks
    assert len(set(zip(first.ravel().tolist(), second.ravel().tolist(), strict=True))) == 2**16
    # Single words do coincide, as often as chance has it.
    repeats, expected = words.size - np.unique(words).size, words.size**2 / 2**33
    assert abs(repeats - expected) < 6 * np.sqrt(expected) + 3


# --- words -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 7])
def test_separate_words_are_those_of_one_array(n):
    separate, together = jax.jit(lambda s: (random.separate_bits(s, n), random.bits(s, (n,))))(lanes(5))
    assert len(separate) == n
    assert together.shape == (5, n)
    assert together.T.tolist() == [w.tolist() for w in separate]


def test_separate_uniforms_are_those_of_one_array():
    low, high = jnp.arange(5.0), jnp.arange(5.0) + 2
    separate, together = draw(
        lambda s: (random.separate_uniforms(s, 3, low, high), random.uniform(s, (3,), low, high)), 5
    )
    assert together.T.tolist() == [x.tolist() for x in separate]


def test_a_draw_without_a_shape_is_the_first_of_many():
    one, many = draw(lambda s: (random.bits(s), random.bits(s, (3,))), 5)
    assert one.tolist() == many[:, 0].tolist()


@pytest.mark.parametrize("draw_with", [random.bits, random.uniform, random.normal, random.bernoulli])
def test_a_shape_must_be_a_tuple(draw_with):
    with pytest.raises(ValueError, match=r"shape must be a tuple such as \(4,\), got 4"):
        draw_with(lanes(2), 4)


def test_words_of_a_shape_are_those_of_its_size():
    flat, shaped = jax.jit(lambda s: (random.bits(s, (12,)), random.bits(s, (3, 4))))(lanes(5))
    assert shaped.reshape(5, 12).tolist() == flat.tolist()


@pytest.mark.parametrize(("size", "shape"), [((), ()), ((3,), (3,)), ((0,), (0,)), ((2, 2), (2, 2))])
def test_words_lead_with_the_shape_of_the_stream(size, shape):
    for stream in (lanes(5), random.stream(jax.random.key(0))):
        assert jax.eval_shape(lambda s: random.bits(s, size), stream).shape == (*stream.shape, *shape)


def test_every_bit_of_a_word_is_set_half_of_the_time():
    words = np.concatenate(draw(lambda s: random.separate_bits(s, 3)))
    share = [(words >> b & 1).mean() for b in range(32)]
    assert np.abs(np.array(share) - 0.5).max() < 4.5 * 0.5 / np.sqrt(words.size)


def test_neighbouring_lanes_steps_and_words_are_uncorrelated():
    def words(stream):
        later = dataclasses.replace(stream, c1=stream.c1 + 1)
        return [random.unit(w) for s in (stream, later) for w in random.separate_bits(s, 3)]

    columns = np.stack(draw(words))
    columns = np.concatenate([columns[:, 1:], columns[:, :-1]])
    assert (np.abs(np.corrcoef(columns) - np.eye(12)) < 0.035).all()


def draws(stream):
    """Everything there is to draw, words and what follows from integers."""
    return (
        random.separate_bits(stream, 3),
        random.bits(stream, (5,)),
        random.integers(stream, (2,), -3, 1000),
        random.permutation(stream, 6),
        random.bernoulli(stream, (2,), 0.3),
        random.bits(random.fold_in(stream, "a")),
        random.bits(random.fold_in(stream, stream.c0)),
    )


def same(a, b):
    return all(
        np.array_equal(x, y) and x.dtype == y.dtype for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    )


def test_compiled_words_are_the_words_of_eager_code():
    assert same(jax.jit(draws)(lanes(3)), draws(lanes(3)))


@pytest.mark.parametrize("n", [1, 2, 7, 64])
def test_words_do_not_depend_on_the_number_of_lanes(n):
    few, many = draw(draws, n), draw(draws, 4096)
    assert same(few, jax.tree.map(lambda x: x[:n], many))


@pytest.mark.parametrize("n", [1, 2, 7, 64])
@pytest.mark.parametrize("traced_bounds", [False, True])
def test_uniform_floats_do_not_depend_on_the_number_of_lanes(n, traced_bounds):
    @jax.jit
    def start(stream, low, high):
        low, high = (low, high) if traced_bounds else (-0.05, 0.05)
        return random.separate_uniforms(stream, 4, low, high), random.uniform(stream, (3,), low, high)

    few, many = (start(lanes(b), np.float32(-0.05), np.float32(0.05)) for b in (n, 4096))
    assert same(few, jax.tree.map(lambda x: x[:n], many))


def test_wide_types_change_nothing():
    def everything(stream):
        return draws(stream), random.separate_uniforms(stream, 2, -1.0, 3.0), random.normal(stream, (3,))

    narrow = draw(everything, 100)
    with jax.enable_x64(True):
        stream = jax.tree.map(lambda x: jnp.asarray(x, jnp.uint32), jax.device_get(lanes(100)))
        assert same(jax.device_get(jax.jit(everything)(stream)), narrow)


# --- distributions ---------------------------------------------------------------------------------------------------


def test_unit_is_a_multiple_of_a_power_of_two_below_1():
    words = np.array([0, 255, 256, 2**31, 2**32 - 1], np.uint32)
    assert random.unit(words).tolist() == [0, 0, 2**-24, 0.5, 1 - 2**-24]


def test_uniform_is_flat_between_0_and_1():
    values = draw(random.uniform)
    assert values.dtype == np.float32
    assert 0 <= values.min() <= values.max() < 1
    assert chi_square(np.histogram(values, 50, (0, 1))[0]) < 5


@pytest.mark.parametrize(
    ("low", "high"), [(-0.05, 0.05), (2, 3), (0.1, 0.30000001), (-1e38, 1e38), (7.0, 7.0), (1e-3, 1e3)]
)
def test_uniform_never_leaves_its_bounds(low, high):
    values = np.concatenate(draw(lambda s: random.separate_uniforms(s, 3, low, high)))
    assert np.float32(low) <= values.min() <= values.max() <= np.float32(high)
    width = float(np.float32(high)) - float(np.float32(low))
    assert abs(values.astype(np.float64).mean() - (low + high) / 2) <= 0.01 * width
    assert abs(values.astype(np.float64).std() - width / np.sqrt(12)) <= 0.01 * width


def test_the_last_word_does_not_pass_the_upper_bound(monkeypatch):
    bounds = np.random.default_rng(0).normal(size=(2, 2_000)).astype(np.float32)
    low, high = bounds.min(axis=0), bounds.max(axis=0)
    monkeypatch.setattr(random, "bits", lambda stream, shape: jnp.full(stream.shape, 2**32 - 1, jnp.uint32))
    values = jax.jit(lambda s: random.uniform(s, (), low, high))(lanes(2_000))
    assert (values <= high).all()
    assert (values >= low).all()


@pytest.mark.parametrize("shape", [(), (2,), (2, 3)])
def test_bounds_may_be_one_per_lane(shape):
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
    assert shapes(lambda s: random.categorical(s, jnp.ones(3))) == ()


@pytest.mark.parametrize(("low", "high"), [(0, 2), (-3, 4), (5, 105), (0, 1)])
def test_integers_are_uniform_without_the_upper_end(low, high):
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
    assert scipy.stats.kstest(values, "norm").pvalue > 1e-4
    assert abs(scipy.stats.skew(values)) < 0.08
    assert abs(scipy.stats.kurtosis(values)) < 0.16


def test_normal_is_finite_and_symmetric_at_the_ends_of_its_words(monkeypatch):
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
    assert scipy.stats.kstest(values, "expon").pvalue > 1e-4


def test_permutation_holds_every_index_once():
    values = draw(lambda s: random.permutation(s, 7), 500)
    assert values.dtype == np.int32
    assert (np.sort(values, axis=1) == np.arange(7)).all()


def test_permutation_puts_every_index_anywhere_alike():
    values = draw(lambda s: random.permutation(s, 4))
    _, counts = np.unique(values @ np.array([64, 16, 4, 1]), return_counts=True)
    assert len(counts) == 24
    assert chi_square(counts) < 5


def test_categorical_draws_in_proportion_to_the_weights():
    weights = np.array([1.0, 0.0, 3.0, 6.0, 0.0], np.float32)
    values = draw(lambda s: random.categorical(s, jnp.broadcast_to(weights, (*s.shape, 5))))
    counts = np.bincount(values, minlength=5)
    assert values.dtype == np.int32
    assert counts[[1, 4]].tolist() == [0, 0]
    assert chi_square(counts[[0, 2, 3]], N * weights[[0, 2, 3]] / 10) < 5


def test_categorical_never_draws_weight_0_however_weights_differ():
    rng = np.random.default_rng(0)
    weights = np.where(rng.random((N, 40)) < 0.7, 0, 10.0 ** rng.uniform(-12, 12, (N, 40))).astype(np.float32)
    values = np.asarray(jax.jit(random.categorical)(lanes(N), weights))
    assert (np.take_along_axis(weights, values[:, None], 1)[:, 0] > 0)[weights.any(axis=1)].all()


@pytest.mark.parametrize("word", [0, 2**32 - 1])
@pytest.mark.parametrize("weights", [[0, 0, 1, 0], [0.1, 0, 0.2, 0], [1e-30, 1, 0, 0], [0, 1e30, 1, 0]])
def test_categorical_is_right_at_the_ends_of_its_word(monkeypatch, word, weights):
    monkeypatch.setattr(random, "bits", lambda stream, shape=(): jnp.full(stream.shape, word, jnp.uint32))
    index = jax.jit(lambda *args: random.categorical(*args))(lanes(1), np.array([weights], np.float32))[0]
    assert weights[int(index)] > 0


@pytest.mark.parametrize(("word", "index"), [(0, 0), (2**30 - 1, 0), (2**30, 2), (2**31, 3), (2**32 - 1, 3)])
def test_categorical_gives_each_index_a_half_open_share(monkeypatch, word, index):
    monkeypatch.setattr(random, "bits", lambda stream, shape=(): jnp.full(stream.shape, word, jnp.uint32))
    weights = np.array([[1, 0, 1, 2]], np.float32)
    assert jax.jit(lambda *args: random.categorical(*args))(lanes(1), weights).tolist() == [index]


@pytest.mark.parametrize("dtype", [bool, np.int32, np.float32])
def test_categorical_of_no_weight_at_all_is_0(dtype):
    assert jax.jit(random.categorical)(lanes(3), np.zeros((3, 4), dtype)).tolist() == [0, 0, 0]
