"""Random words: known answers of the generator, keys of lanes, streams, and independence of the words."""

import dataclasses

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenv import random
from jaxenv.random import Clock, Stream
from tests.draws import draw, lanes
from tests.errors import like


def words_of(stream):
    """Returns the first two words of each lane as a set of pairs."""
    return set(zip(*(np.atleast_1d(w).tolist() for w in _two_words(stream)), strict=True))


@jax.jit
def _two_words(stream):
    return random.separate_bits(stream, 2)


@jax.jit
def lane_words(key, env_id):
    """Returns the key words of each lane, ``[B, 2]``."""
    return jnp.stack(random.lane_words(key, env_id), -1)


# --- the generator ---------------------------------------------------------------------------------------------------

# Known answers of Random123: rounds, counter, key, words.
KNOWN = [
    (13, "00000000 00000000", "00000000 00000000", "9d1c5ec6 8bd50731"),
    (13, "ffffffff ffffffff", "ffffffff ffffffff", "fd36d048 2d17272c"),
    (13, "243f6a88 85a308d3", "13198a2e 03707344", "ba3e4725 f27d669e"),
    (20, "00000000 00000000", "00000000 00000000", "6b200159 99ba4efe"),
    (20, "ffffffff ffffffff", "ffffffff ffffffff", "1cb996fc bb002be7"),
    (20, "243f6a88 85a308d3", "13198a2e 03707344", "c4923a9c 483df7a0"),
]


@pytest.mark.parametrize(("rounds", "counter", "key", "answer"), KNOWN)
def test_threefry_returns_the_published_answers(rounds, counter, key, answer):
    c0, c1, k0, k1 = (jnp.uint32(int(word, 16)) for word in f"{counter} {key}".split())
    got = jax.jit(random.threefry2x32, static_argnums=4)(k0, k1, c0, c1, rounds)
    assert " ".join(f"{int(word):08x}" for word in got) == answer


def test_draws_use_13_rounds():
    zero = jnp.zeros(1, jnp.uint32)
    assert [int(w[0]) for w in random.separate_bits(Stream(zero, zero, zero, zero), 2)] == [0x9D1C5EC6, 0x8BD50731]


def test_threefry_agrees_with_jax():
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
def test_a_lane_does_not_depend_on_its_position_in_the_batch(impl):
    key = jax.random.key(0, impl=impl)
    assert lane_words(key, np.array([9, 4])).tolist()[0] == lane_words(key, np.array([1, 2, 9])).tolist()[2]


@pytest.mark.parametrize("impl", IMPLEMENTATIONS)
def test_lane_keys_are_pairwise_distinct(impl):
    words = lane_words(jax.random.key(0, impl=impl), np.arange(1000)).tolist()
    assert len(set(map(tuple, words))) == 1000


@pytest.mark.parametrize("impl", IMPLEMENTATIONS)
@pytest.mark.parametrize("n", [1, 2, 4])
def test_a_batch_of_keys_gives_each_lane_its_own_key(impl, n):
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
def test_a_batch_of_keys_of_the_wrong_size_is_refused(keys):
    with pytest.raises(ValueError, match=rf"one key or.* 2 lanes, got keys.* \({keys},\)"):
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
def test_raw_keys_are_refused_with_a_pointer_to_typed_keys(use, key, what):
    with pytest.raises(ValueError, match=rf"key .*got {what}"):
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


def test_jax_keys_of_a_single_stream_are_a_single_key():
    assert random.jax_keys(random.stream(jax.random.key(0))).shape == ()


# --- streams ---------------------------------------------------------------------------------------------------------


def test_fold_in_returns_a_different_stream_for_every_static_salt():
    stream = random.stream(jax.random.key(0))
    salts = [0, 1, -1, 2**40, "", "0", "1", "-1", "a", "b", "ab", "FrameStack/0/init", "FrameStack/1/init"]
    streams = [stream, *(random.fold_in(stream, salt) for salt in salts)]
    assert len(set.union(*map(words_of, streams))) == len(streams)


@pytest.mark.parametrize("salt", [3, np.int32(3), np.uint8(3)])
def test_fold_in_treats_static_integers_of_all_types_alike(salt):
    stream = random.stream(jax.random.key(0))
    assert words_of(random.fold_in(stream, salt)) == words_of(random.fold_in(stream, 3))


def test_folds_do_not_commute():
    stream = random.stream(jax.random.key(0))
    ab, ba = (random.fold_in(random.fold_in(stream, a), b) for a, b in (("a", "b"), ("b", "a")))
    assert ab.k0 != ba.k0
    assert ab.k1 != ba.k1


def test_repeated_folds_do_not_cancel():
    stream = random.stream(jax.random.key(0))
    chain = [stream]
    for _ in range(8):
        chain.append(random.fold_in(chain[-1], "a"))
    assert len({int(s.k0) for s in chain}) == len({int(s.k1) for s in chain}) == 9


def test_fold_in_accepts_one_salt_per_lane():
    stream = lanes(4)
    got = random.fold_in(stream, jnp.array([7, 8, 7, -1]))
    for i, salt in enumerate((7, 8, 7, -1)):
        lane = jax.tree.map(lambda x, i=i: x[i], stream)
        assert words_of(random.fold_in(lane, jnp.int32(salt))) == words_of(jax.tree.map(lambda x, i=i: x[i], got))


def test_fold_in_broadcasts_a_scalar_array_salt():
    got = random.fold_in(lanes(3), jnp.int32(5))
    assert words_of(got) == words_of(random.fold_in(lanes(3), jnp.full(3, 5)))
    assert len(words_of(got) | words_of(lanes(3)) | words_of(random.fold_in(lanes(3), 5))) == 9


def test_fold_in_does_not_change_the_counter():
    stream = dataclasses.replace(lanes(2), c0=jnp.full(2, 3, jnp.uint32), c1=jnp.full(2, 4, jnp.uint32))
    for salt in ("a", jnp.int32(1)):
        got = random.fold_in(stream, salt)
        assert (got.c0.tolist(), got.c1.tolist()) == ([3, 3], [4, 4])


def clock(n, episode=0, step=0):
    words = random.lane_words(jax.random.key(0), jnp.arange(n))
    return Clock(words, jnp.arange(n), jnp.full(n, episode), jnp.full(n, step))


def test_tick_advances_only_the_step():
    before = clock(2, 3, 4)
    after = before.tick()
    assert after.step.tolist() == [5, 5]
    assert after.episode is before.episode
    assert after.key is before.key


def test_salts_of_a_clock_are_folded_in_order():
    stream = clock(2).stream("a", 1)
    expected = random.fold_in(random.fold_in(clock(2).stream(), "a"), 1)
    assert words_of(stream) == words_of(expected)


def test_words_of_lanes_episodes_steps_salts_and_blocks_never_coincide():
    # 2**16 of 2**64 pairs: two of them coincide by chance with a probability of 10**-10.
    lane, episode, step = (axis.ravel() for axis in np.meshgrid(np.arange(16), np.arange(4), np.arange(16)))

    @jax.jit
    def pairs(lane, episode, step):
        clock = Clock(random.lane_words(jax.random.key(0), lane), lane, episode, step)
        return jnp.stack([random.bits(clock.stream(*salts), (32,)) for salts in ((), ("policy",), (0,), (1,))])

    words = jax.device_get(pairs(lane, episode, step))
    first, second = words[..., :16], words[..., 16:]  # the two words of each of 16 blocks
    assert len(set(zip(first.ravel().tolist(), second.ravel().tolist(), strict=True))) == 2**16
    # Single words coincide as often as expected by chance.
    repeats, expected = words.size - np.unique(words).size, words.size**2 / 2**33
    assert abs(repeats - expected) < 6 * np.sqrt(expected) + 3


# --- words -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 7])
def test_separate_bits_equal_the_bits_of_one_array(n):
    separate, together = jax.jit(lambda s: (random.separate_bits(s, n), random.bits(s, (n,))))(lanes(5))
    assert len(separate) == n
    assert together.shape == (5, n)
    assert together.T.tolist() == [w.tolist() for w in separate]


def test_separate_uniforms_equal_the_values_of_one_array():
    low, high = jnp.arange(5.0), jnp.arange(5.0) + 2
    separate, together = draw(
        lambda s: (random.separate_uniforms(s, 3, low, high), random.uniform(s, (3,), low, high)), 5
    )
    assert together.T.tolist() == [x.tolist() for x in separate]


def test_a_draw_without_a_shape_equals_the_first_element_of_a_larger_draw():
    one, many = draw(lambda s: (random.bits(s), random.bits(s, (3,))), 5)
    assert one.tolist() == many[:, 0].tolist()


@pytest.mark.parametrize("draw_with", [random.bits, random.uniform, random.normal, random.bernoulli])
@pytest.mark.parametrize("shape", [4, (2.5,), (-1,), (True,), [4]])
def test_a_shape_must_be_a_tuple_of_lengths(draw_with, shape):
    with pytest.raises(ValueError, match=like(rf"shape ...got {shape}")):
        draw_with(lanes(2), shape)


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda s: random.integers(s, (), 5, 2), "random.integers: low ...got 5 and 2"),
        (lambda s: random.integers(s, (), 0, np.array([3, 0])), ": low ...got 0 and 0 in lane 1"),
        (lambda s: random.bernoulli(s, (), 2.0), "random.bernoulli: p ...got 2.0"),
        (lambda s: random.bernoulli(s, (), np.float32([0, np.nan])), "random.bernoulli: p ...got nan in lane 1"),
        (lambda s: random.permutation(s, -1), "random.permutation: n ...got -1"),
        (lambda s: random.separate_bits(s, 1.5), "random.separate_bits: num ...got 1.5"),
        (lambda s: random.fold_in(s, 2.5), "random.fold_in: salt ...got 2.5"),
    ],
)
def test_arguments_of_a_draw_without_meaning_are_refused(draw, message):
    with pytest.raises(ValueError, match=like(message)):
        draw(lanes(2))


@pytest.mark.parametrize("draw_with", [random.bits, random.uniform, random.normal, lambda s: random.fold_in(s, "a")])
def test_a_draw_from_a_jax_key_is_refused(draw_with):
    with pytest.raises(ValueError, match=r"stream .*got .*random\.stream"):
        draw_with(jax.random.key(0))


def test_bits_depend_on_the_size_and_not_on_the_shape():
    flat, shaped = jax.jit(lambda s: (random.bits(s, (12,)), random.bits(s, (3, 4))))(lanes(5))
    assert shaped.reshape(5, 12).tolist() == flat.tolist()


@pytest.mark.parametrize(("size", "shape"), [((), ()), ((3,), (3,)), ((0,), (0,)), ((2, 2), (2, 2))])
def test_bits_have_the_axes_of_the_stream_first(size, shape):
    for stream in (lanes(5), random.stream(jax.random.key(0))):
        assert jax.eval_shape(lambda s: random.bits(s, size), stream).shape == (*stream.shape, *shape)


def test_every_bit_of_a_word_is_set_half_the_time():
    words = np.concatenate(draw(lambda s: random.separate_bits(s, 3)))
    fractions = [(words >> b & 1).mean() for b in range(32)]
    assert np.abs(np.array(fractions) - 0.5).max() < 4.5 * 0.5 / np.sqrt(words.size)


def test_neighbouring_lanes_steps_and_words_are_uncorrelated():
    def words(stream):
        later = dataclasses.replace(stream, c1=stream.c1 + 1)
        return [random.unit(w) for s in (stream, later) for w in random.separate_bits(s, 3)]

    columns = np.stack(draw(words))
    columns = np.concatenate([columns[:, 1:], columns[:, :-1]])
    assert (np.abs(np.corrcoef(columns) - np.eye(12)) < 0.035).all()


def draws(stream):
    """Draws words, and everything that is computed from them with integers."""
    return (
        random.separate_bits(stream, 3),
        random.bits(stream, (5,)),
        random.integers(stream, (2,), -3, 1000),
        random.permutation(stream, 6),
        random.bernoulli(stream, (2,), 0.3),
        random.bits(random.fold_in(stream, "a")),
        random.bits(random.fold_in(stream, stream.c0)),
    )


def test_compiled_and_eager_draws_are_equal():
    chex.assert_trees_all_equal(jax.jit(draws)(lanes(3)), draws(lanes(3)), strict=True)


@pytest.mark.parametrize("n", [1, 2, 7, 64])
def test_words_do_not_depend_on_the_number_of_lanes(n):
    few, many = draw(draws, n), draw(draws, 4096)
    chex.assert_trees_all_equal(few, jax.tree.map(lambda x: x[:n], many), strict=True)


@pytest.mark.parametrize("n", [1, 2, 7, 64])
@pytest.mark.parametrize("traced_bounds", [False, True])
def test_uniform_floats_do_not_depend_on_the_number_of_lanes(n, traced_bounds):
    @jax.jit
    def start(stream, low, high):
        low, high = (low, high) if traced_bounds else (-0.05, 0.05)
        return random.separate_uniforms(stream, 4, low, high), random.uniform(stream, (3,), low, high)

    few, many = (start(lanes(b), np.float32(-0.05), np.float32(0.05)) for b in (n, 4096))
    chex.assert_trees_all_equal(few, jax.tree.map(lambda x: x[:n], many), strict=True)


def test_x64_changes_no_draw():
    def everything(stream):
        return draws(stream), random.separate_uniforms(stream, 2, -1.0, 3.0), random.normal(stream, (3,))

    narrow = draw(everything, 100)
    with jax.enable_x64(True):
        stream = jax.tree.map(lambda x: jnp.asarray(x, jnp.uint32), jax.device_get(lanes(100)))
        chex.assert_trees_all_equal(jax.device_get(jax.jit(everything)(stream)), narrow, strict=True)


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("split", "fold_in"),
        ("randint", "integers"),
        ("choice", "categorical"),
        ("gumbel", "jax_keys"),
        ("PRNGKey", "stream"),
    ],
)
def test_names_of_jax_random_are_answered_with_the_word_to_use(name, word):
    assert not hasattr(random, name)
    assert hasattr(random, word)
    with pytest.raises(AttributeError, match=rf"^module 'jaxenv\.random' has no attribute '{name}': use .*\b{word}\("):
        getattr(random, name)


def test_an_unknown_name_of_the_module_is_pythons_own_error():
    with pytest.raises(AttributeError, match=r"^module 'jaxenv\.random' has no attribute 'unifrom'$"):
        _ = random.unifrom
