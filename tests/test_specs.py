"""Specs: bounds, samples, checks, and what they do to actions."""

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenv import random, specs
from jaxenv.specs import Array, Bounded

INF = np.inf
LARGEST = 3.4028235e38
CART_POLE = Bounded((4,), np.float32, [-4.8, -INF, -0.41887903, -INF], [4.8, INF, 0.41887903, INF], "observation")


def keys(n, seed=0):
    return jax.random.split(jax.random.key(seed), n)


def sample(spec, stream, outer=(), mask=None):
    """``specs.sample``, compiled."""
    return jax.jit(lambda stream, mask: specs.sample(spec, stream, outer, mask))(stream, mask)


def draw(spec, n=20_000, seed=0):
    """Values for n keys: ``[n, *shape]``."""
    return np.asarray(sample(spec, keys(n, seed)))


def chi_square(counts):
    """How far counts are from equal ones, in standard deviations of the statistic."""
    expected = np.sum(counts) / len(counts)
    free = len(counts) - 1
    return (np.sum((counts - expected) ** 2) / expected - free) / np.sqrt(2 * free)


# --- what a spec is --------------------------------------------------------------------------------------------------


def test_equality_and_hash_ignore_the_name():
    assert Array((2,), np.float32, "a") == Array([2], "float32", "b")
    assert hash(Array((2,), np.float32, "a")) == hash(Array((2,), "float32", "b"))
    assert Bounded((2,), np.int32, 0, 3, "a") == Bounded((2,), np.int32, [0, 0], np.full(2, 3), "b")
    assert hash(Bounded((2,), np.int32, 0, 3, "a")) == hash(Bounded((2,), np.int32, [0, 0], [3, 3], "b"))


@pytest.mark.parametrize(
    "other",
    [
        Bounded((2,), np.int32, 0, 4),
        Bounded((2,), np.int32, [0, 1], 3),
        Bounded((), np.int32, 0, 3),
        Bounded((2,), np.int16, 0, 3),
        Array((2,), np.int32),
    ],
)
def test_specs_of_another_shape_dtype_or_range_differ(other):
    assert Bounded((2,), np.int32, 0, 3) != other


def test_attributes_tell_the_kind_of_values():
    spec = Array((2, 3), np.float32)
    assert (spec.ndim, spec.numel, spec.is_discrete, spec.is_continuous, spec.is_bounded) == (2, 6, False, True, False)
    assert Array((), np.float32).numel == 1
    assert [Array((), dtype).is_discrete for dtype in (np.uint8, np.int32, np.bool_, jnp.bfloat16)] == [1, 1, 1, 0]


@pytest.mark.parametrize(
    ("minimum", "maximum", "bounded"), [(-1, 1, True), (-INF, 1, False), (0, INF, False), ([-1, -INF], 1, False)]
)
def test_is_bounded_needs_all_bounds_finite(minimum, maximum, bounded):
    assert Bounded((2,), np.float32, minimum, maximum).is_bounded is bounded


def test_bounds_broadcast_to_the_shape_in_the_dtype_and_are_read_only():
    spec = Bounded((2, 3), np.float32, [0, 1, 2], 5)
    assert spec.minimum.tolist() == [[0, 1, 2], [0, 1, 2]]
    assert spec.maximum.tolist() == [[5] * 3] * 2
    assert spec.minimum.dtype == np.float32
    for bound in (spec.minimum, spec.maximum):
        with pytest.raises(ValueError, match="read-only"):
            bound[0, 0] = 7


def test_an_empty_shape_has_empty_bounds():
    assert Bounded((0,), np.float32, -1, 1).minimum.shape == (0,)


@pytest.mark.parametrize(
    ("shape", "dtype", "minimum", "maximum", "message"),
    [
        ((), np.float32, np.nan, 1, "minimum must not be NaN"),
        ((2,), np.float32, 0, [1, np.nan], "maximum must not be NaN"),
        ((), np.int32, 1, 0, "minimum must not exceed maximum, got 1 and 0"),
        ((2,), np.float32, [0, 2], 1, "minimum must not exceed maximum"),
        ((), np.uint8, -1, 3, "minimum must fit uint8, got -1"),
        ((), np.uint8, 0, 256, "maximum must fit uint8, got 256"),
        ((), np.int32, 0, 2**31, "maximum must fit int32"),
        ((), np.int32, -INF, 0, "minimum must fit int32"),
        ((), np.int32, 0, 1.5, "maximum must fit int32, got 1.5"),
        ((), np.float32, 0, 1e39, "maximum must fit float32"),
        ((2,), np.float32, [0, 1, 2], 3, r"minimum of shape \(3,\) does not broadcast to \(2,\)"),
        ((), np.float32, [0, 1], 3, r"minimum of shape \(2,\) does not broadcast to \(\)"),
    ],
)
def test_wrong_bounds_are_refused(shape, dtype, minimum, maximum, message):
    with pytest.raises(ValueError, match=f"^Bounded: {message}"):
        Bounded(shape, dtype, minimum, maximum)


def test_discrete_is_a_scalar_int32_from_start():
    assert specs.discrete(3) == Bounded((), np.int32, 0, 2)
    assert specs.discrete(3, start=-1, name="a") == Bounded((), np.int32, -1, 1)
    with pytest.raises(ValueError, match="discrete: n must be at least 1, got 0"):
        specs.discrete(0)


@pytest.mark.parametrize(
    ("spec", "count"),
    [
        (specs.discrete(5), 5),
        (specs.discrete(5, start=-2), 5),
        (Bounded((2,), np.int32, [0, 3], [1, 4]), 2),
        (Bounded((), np.bool_, False, True), 2),
        (Bounded((), np.int32, -(2**31), 2**31 - 1), 2**32),
    ],
)
def test_num_values_counts_both_ends(spec, count):
    assert spec.num_values == count


@pytest.mark.parametrize(
    "spec", [Bounded((), np.float32, 0, 1), Bounded((), np.float32, -INF, INF), Bounded((2,), np.int32, 0, [1, 2])]
)
def test_num_values_needs_a_discrete_spec_of_one_range(spec):
    with pytest.raises(ValueError, match="num_values is defined for discrete specs of one range, got Bounded"):
        _ = spec.num_values


def test_finite_bounds_replace_infinities_by_the_largest_floats():
    spec = CART_POLE.finite_bounds()
    assert spec.minimum.tolist() == np.float32([-4.8, -LARGEST, -0.41887903, -LARGEST]).tolist()
    assert spec.maximum.tolist() == np.float32([4.8, LARGEST, 0.41887903, LARGEST]).tolist()
    assert spec.is_bounded
    assert spec.name == "observation"


def test_finite_bounds_know_other_floats_and_leave_integers_alone():
    spec = Bounded((), jnp.bfloat16, -INF, 1).finite_bounds()
    assert (spec.minimum, spec.maximum) == (jnp.finfo(jnp.bfloat16).min, 1)
    assert specs.discrete(3).finite_bounds() == specs.discrete(3)


def test_replace_keeps_what_is_not_given():
    assert Array((2,), np.float32, "a").replace(dtype=np.int32) == Array((2,), np.int32)
    assert Array((2,), np.float32, "a").replace(dtype=np.int32).name == "a"
    spec = Bounded((2,), np.float32, [0, 1], 2, "a")
    assert spec.replace(maximum=3) == Bounded((2,), np.float32, [0, 1], 3)
    assert spec.replace(name="b").name == "b"


def test_replace_takes_the_empty_shape_for_given():
    assert Array((2,), np.float32).replace(shape=()).shape == ()
    assert Bounded((2,), np.float32, 0, 1).replace(shape=()) == Bounded((), np.float32, 0, 1)


@pytest.mark.parametrize(
    "spec",
    [
        CART_POLE,
        specs.discrete(3, name="a"),
        Bounded((2, 2), np.uint8, [[0, 1], [2, 3]], 7),
        Array((2,), np.bool_, "b"),
    ],
)
def test_repr_can_be_read_back(spec):
    names = {"Bounded": Bounded, "Array": Array, "inf": INF} | {n: n for n in ("float32", "int32", "uint8", "bool")}
    again = eval(repr(spec), names)
    assert again == spec
    assert again.name == spec.name


def test_repr_is_short_where_all_bounds_are_alike():
    assert repr(Bounded((3,), np.float32, -INF, 2, "action")) == "Bounded((3,), float32, -inf, 2.0, name='action')"
    assert repr(Array((), np.int32)) == "Array((), int32)"


def test_specs_pickle():
    assert pickle.loads(pickle.dumps(CART_POLE)) == CART_POLE


def test_specs_are_static_arguments_of_jit_that_share_a_compilation():
    traces = []

    def zeros(spec):
        traces.append(spec)
        return spec.zeros()

    compiled = jax.jit(zeros, static_argnums=0)
    assert compiled(Bounded((2,), np.float32, 0, 1, "a")).shape == (2,)
    compiled(Bounded((2,), np.float32, 0, 1, "b"))
    assert len(traces) == 1
    compiled(Bounded((2,), np.float32, 0, 2))
    assert len(traces) == 2


@pytest.mark.parametrize("make", ["zeros", "ones"])
def test_zeros_and_ones_put_outer_axes_in_front(make):
    got = getattr(Array((2,), np.uint8), make)((5, 3))
    assert (got.shape, got.dtype) == ((5, 3, 2), jnp.uint8)
    assert np.asarray(got).ravel().tolist() == [make == "ones"] * 30


# --- samples ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [
        (np.int32, 0, 1),
        (np.int32, -3, 3),
        (np.uint8, 250, 255),
        (np.int8, -128, -119),
        (np.uint32, 2**32 - 4, 2**32 - 1),
    ],
)
def test_integers_are_uniform_with_both_ends(dtype, low, high):
    values = draw(Bounded((), dtype, low, high))
    found, counts = np.unique(values, return_counts=True)
    assert values.dtype == dtype
    assert found.tolist() == list(range(low, high + 1))
    assert chi_square(counts) < 5


@pytest.mark.parametrize(("dtype", "low"), [(np.int32, -(2**31)), (np.uint32, 0), (np.uint8, 0)])
def test_integers_cover_the_full_range_of_their_dtype(dtype, low):
    spec = Bounded((), dtype, np.iinfo(dtype).min, np.iinfo(dtype).max)
    values = draw(spec).astype(np.int64) - low
    counts, _ = np.histogram(values, bins=16, range=(0, spec.num_values))
    assert counts.sum() == values.size
    assert chi_square(counts) < 5


def test_integers_keep_to_bounds_of_their_own():
    values = draw(Bounded((2, 2), np.int32, [[0, 5], [-9, 7]], [[1, 5], [-8, 9]]), 2_000)
    assert values.min(axis=0).tolist() == [[0, 5], [-9, 7]]
    assert values.max(axis=0).tolist() == [[1, 5], [-8, 9]]


@pytest.mark.parametrize(("low", "high", "expected"), [(False, True, {0, 1}), (True, True, {1}), (False, False, {0})])
def test_booleans_keep_to_their_bounds(low, high, expected):
    values = draw(Bounded((), np.bool_, low, high), 2_000)
    assert values.dtype == np.bool_
    assert set(values.tolist()) == expected
    assert len(expected) == 1 or abs(values.mean() - 0.5) < 0.05


@pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.int32, np.float32, jnp.bfloat16])
def test_specs_without_bounds_sample_in_their_dtype(dtype):
    values = draw(Array((3,), dtype), 100)
    assert (values.shape, values.dtype) == ((100, 3), dtype)
    assert len(np.unique(values)) > 1


def test_bounded_floats_are_uniform():
    values = draw(Bounded((), np.float32, -2, 6))
    counts, _ = np.histogram(values, bins=20, range=(-2, 6))
    assert counts.sum() == values.size
    assert chi_square(counts) < 5
    assert abs(values.mean() - 2) < 0.1
    assert abs(values.std() - 8 / np.sqrt(12)) < 0.1


def test_unbounded_floats_are_standard_normal():
    values = draw(Bounded((), np.float32, -INF, INF))
    assert np.isfinite(values).all()
    assert abs(values.mean()) < 0.04
    assert abs(values.std() - 1) < 0.03


@pytest.mark.parametrize(("low", "high", "sign", "bound"), [(3, INF, 1, 3), (-INF, -3, -1, -3)])
def test_half_bounded_floats_are_exponential_from_their_bound(low, high, sign, bound):
    distance = sign * (draw(Bounded((), np.float32, low, high)) - bound)
    assert distance.min() >= 0
    assert abs(distance.mean() - 1) < 0.05
    assert abs(distance.std() - 1) < 0.07
    assert np.isfinite(distance).all()


def test_kinds_of_bounds_mix_element_by_element():
    spec = Bounded((4,), np.float32, [-1, -INF, 5, -INF], [1, INF, INF, -5])
    values = draw(spec, 2_000)
    assert np.isfinite(values).all()
    assert ((values >= spec.minimum) & (values <= spec.maximum)).all()
    assert (np.abs(np.corrcoef(values.T) - np.eye(4)) < 0.1).all()


@pytest.mark.parametrize(("low", "high"), [(-LARGEST, LARGEST), (-LARGEST, 0), (3e38, LARGEST), (-INF, -LARGEST)])
def test_floats_do_not_overflow_at_the_largest_bounds(low, high):
    values = draw(Bounded((), np.float32, low, high), 2_000)
    assert np.isfinite(values).all()
    assert ((values >= np.float32(low)) & (values <= np.float32(high))).all()


@pytest.mark.parametrize("dtype", [np.float16, jnp.bfloat16])
def test_short_floats_stay_within_bounds(dtype):
    spec = Bounded((), dtype, 0.1, 0.3)
    values = draw(spec, 2_000)
    assert values.dtype == dtype
    assert all(spec.contains(v) for v in values[:200])


def test_equal_bounds_leave_one_value():
    assert set(draw(Bounded((), np.float32, 0.3, 0.3), 100).tolist()) == {np.float32(0.3)}


def test_samples_of_lanes_lead_with_the_lanes_and_then_outer_axes():
    spec = Bounded((3,), np.float32, 0, 1)
    stream = jax.eval_shape(random.stream, keys(5))
    assert jax.eval_shape(spec.sample, stream).shape == (5, 3)
    assert jax.eval_shape(lambda s: spec.sample(s, (2,)), stream).shape == (5, 2, 3)
    assert jax.eval_shape(lambda k: specs.discrete(3).sample(k, (2, 4)), jax.random.key(0)).shape == (2, 4)


def test_a_lane_samples_alike_whoever_else_is_there():
    spec = {"a": Bounded((3,), np.float32, 0, 1), "b": specs.discrete(1000)}
    many = sample(spec, keys(8))
    alone = sample(spec, keys(8)[5:6])
    assert many["b"][5] == alone["b"][0]
    np.testing.assert_allclose(many["a"][5], alone["a"][0], rtol=1e-6)


def test_another_key_gives_another_sample():
    spec = Bounded((), np.int32, 0, 2**31 - 1)
    assert sample(spec, jax.random.key(0)) == sample(spec, jax.random.key(0))
    assert sample(spec, jax.random.key(0)) != sample(spec, jax.random.key(1))


def test_leaves_of_a_tree_are_independent():
    spec = Bounded((), np.float32, 0, 1)
    values = sample({"a": spec, "b": (spec, spec)}, keys(5_000))
    columns = np.stack(jax.tree.leaves(values))
    assert (np.abs(np.corrcoef(columns) - np.eye(3)) < 0.06).all()


def test_a_tree_samples_in_its_own_structure():
    spec = {"a": specs.discrete(3), "b": (Array((2,), np.float32), ())}
    values = sample(spec, keys(4), (6,))
    assert jax.tree.structure(values) == jax.tree.structure(spec)
    specs.validate(spec, values, (4, 6))


def test_int64_specs_sample_what_fits_32_bits():
    with jax.enable_x64(True):
        values = sample(Bounded((), np.int64, -5, -3), keys(100))
        assert values.dtype == jnp.int64
        assert set(values.tolist()) == {-5, -4, -3}
        with pytest.raises(ValueError, match="sample: the bounds must fit int32"):
            Bounded((), np.int64, 0, 2**40).sample(keys(1))


# --- masks -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.int32, np.uint8])
def test_masked_samples_are_uniform_over_what_is_marked(dtype):
    spec = Bounded((), dtype, 2, 6)
    mask = jnp.array([False, True, False, True, True])
    values = sample(spec, keys(20_000), mask=jnp.broadcast_to(mask, (20_000, 5)))
    found, counts = np.unique(values, return_counts=True)
    assert values.dtype == dtype
    assert found.tolist() == [3, 5, 6]
    assert chi_square(counts) < 5


def test_each_lane_has_its_own_mask():
    mask = jnp.eye(4, dtype=bool)
    assert sample(specs.discrete(4, start=1), keys(4), mask=mask).tolist() == [1, 2, 3, 4]


def test_a_mask_without_marks_gives_the_minimum():
    assert sample(specs.discrete(3, start=-1), keys(4), mask=jnp.zeros((4, 3), bool)).tolist() == [-1] * 4


def test_one_key_takes_one_mask():
    assert sample(specs.discrete(3), jax.random.key(0), mask=jnp.array([False, False, True])) == 2


@pytest.mark.parametrize(
    ("spec", "mask", "outer", "message"),
    [
        (specs.discrete(3), (2, 4), (), r"mask has shape \(2, 4\), the spec has 3 values"),
        (specs.discrete(3), (), (), r"mask has shape \(\), the spec has 3 values"),
        (Bounded((2,), np.int32, 0, 2), (2, 3), (), "mask needs a single discrete spec"),
        (Bounded((), np.float32, 0, 2), (2, 3), (), "mask needs a single discrete spec"),
        ({"a": specs.discrete(3)}, (2, 3), (), "mask needs a single discrete spec"),
        (specs.discrete(3), (2, 3), (5,), "no outer axes"),
    ],
)
def test_a_mask_that_does_not_fit_is_refused(spec, mask, outer, message):
    with pytest.raises(ValueError, match=message):
        specs.sample(spec, keys(2), outer, jnp.ones(mask, bool))


# --- checks ----------------------------------------------------------------------------------------------------------

BOX = Bounded((2,), np.float32, -1, [1, INF], "box")


@pytest.mark.parametrize(
    ("value", "fits"),
    [
        (np.float32([0, 0]), True),
        (np.float32([-1, 1e30]), True),
        (np.float32([1, -1]), True),
        (np.float32([1.01, 0]), False),
        (np.float32([np.nan, 0]), False),
        (np.float32([0]), False),
        (np.float64([0, 0]), False),
        (np.int32([0, 0]), False),
        ([0.0, 0.0], False),
        (jnp.zeros(2), True),
    ],
)
def test_contains_checks_shape_dtype_and_inclusive_bounds(value, fits):
    assert BOX.contains(value) is fits
    assert specs.contains({"x": BOX}, {"x": value}) is fits


@pytest.mark.parametrize(
    ("spec", "value", "message"),
    [
        (BOX, np.float32([0, -2]), r"value does not fit Bounded\(.*'box'\): its element \(1,\) is -2.0"),
        (specs.discrete(3), np.int32(3), r"value does not fit Bounded\(\(\), int32, 0, 2\): it is 3"),
        (specs.discrete(3), 2, "value does not fit .*: it is a int, not an array"),
        ({"a": (BOX,)}, {"a": (np.zeros(3, np.float32),)}, r"a\.0 does not fit Bounded.*: its shape is \(3,\)"),
        (
            {"a": BOX, "b": BOX},
            {"a": np.zeros(2, np.float32), "b": np.zeros(2)},
            r"b does not fit .*: its dtype is float64",
        ),
        ({"a": BOX}, {"b": np.zeros(2)}, r"structure differs: the spec is .*'a'.*, the value is .*'b'"),
        ((BOX,), [np.zeros(2, np.float32)], "structure differs"),
    ],
)
def test_validate_names_the_leaf_the_spec_and_the_value(spec, value, message):
    with pytest.raises(ValueError, match=message):
        specs.validate(spec, value)


def test_validate_of_one_spec_names_it():
    BOX.validate(np.zeros(2, np.float32))
    with pytest.raises(ValueError, match="does not fit Bounded"):
        BOX.validate(np.float32([5, 5]))


@pytest.mark.parametrize("outer", [3, (3,)])
def test_validate_takes_outer_axes(outer):
    specs.validate({"a": BOX}, {"a": np.zeros((3, 2), np.float32)}, outer)
    with pytest.raises(ValueError, match=r"a does not fit Bounded\(\(3, 2\).*: its shape is \(4, 2\)"):
        specs.validate({"a": BOX}, {"a": np.zeros((4, 2), np.float32)}, outer)


def test_a_tracer_is_checked_for_shape_and_dtype_only():
    @jax.jit
    def check(x):
        specs.validate(BOX, x)
        return x

    check(jnp.full(2, 7.0))
    with pytest.raises(ValueError, match=r"its shape is \(3,\)"):
        check(jnp.zeros(3))
    with pytest.raises(ValueError, match="its dtype is int32"):
        check(jnp.zeros(2, jnp.int32))


def test_shapes_without_values_are_checked_like_tracers():
    assert BOX.contains(jax.ShapeDtypeStruct((2,), np.float32))
    assert not BOX.contains(jax.ShapeDtypeStruct((2,), np.int32))


# --- trees of specs --------------------------------------------------------------------------------------------------


def test_batched_puts_axes_in_front_and_repeats_bounds():
    got = specs.batched({"a": BOX, "b": Array((), np.int32)}, (5, 3))
    assert got["a"].shape == (5, 3, 2)
    assert got["a"].maximum[4, 2].tolist() == [1, INF]
    assert got["b"] == Array((5, 3), np.int32)
    assert specs.batched(BOX, 5) == BOX.batched(5) == BOX.batched((5,))


def test_unbatched_takes_axes_off_and_drops_bounds():
    assert specs.unbatched({"a": BOX.batched(5)})["a"] == Array((2,), np.float32)
    assert specs.unbatched({"a": BOX.batched(5)})["a"].name == "box"
    assert specs.unbatched(jax.ShapeDtypeStruct((5, 3, 2), np.int32), 2) == Array((2,), np.int32)


def test_from_array_reads_shape_and_dtype_from_a_dimension_on():
    value = {"a": np.zeros((5, 3, 2), np.float32), "b": jnp.zeros((5, 3), bool)}
    assert specs.from_array(value)["a"] == Array((5, 3, 2), np.float32)
    assert specs.from_array(value, 2) == {"a": Array((2,), np.float32), "b": Array((), np.bool_)}


def test_zeros_of_a_tree_have_outer_axes():
    got = specs.zeros({"a": Bounded((2,), np.uint8, 3, 4)}, (5,))
    assert (got["a"].shape, got["a"].dtype) == ((5, 2), jnp.uint8)
    assert not got["a"].any()


def test_stack_keeps_the_bounds_of_each():
    got = specs.stack([Bounded((2,), np.float32, 0, 1, "a"), Bounded((2,), np.float32, [-1, 0], INF)])
    assert got == Bounded((2, 2), np.float32, [[0, 0], [-1, 0]], [[1, 1], [INF, INF]])
    assert got.name == "a"
    assert specs.stack([specs.discrete(3)] * 4) == Bounded((4,), np.int32, 0, 2)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([specs.discrete(2), Bounded((1,), np.int32, 0, 1)], "stack: specs must agree in shape and dtype, got .* and "),
        ([specs.discrete(2), Bounded((), np.int16, 0, 1)], "stack: specs must agree in shape and dtype"),
        ([specs.discrete(2), Array((), np.int32)], "stack: specs must be bounded, got Array"),
        ([], "stack: at least one spec"),
    ],
)
def test_stack_refuses_specs_that_do_not_go_together(given, message):
    with pytest.raises(ValueError, match=message):
        specs.stack(given)


def test_require_equal_ignores_names():
    specs.require_equal({"a": specs.discrete(3, name="x")}, {"a": specs.discrete(3, name="y")})


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        (
            {"a": (BOX, specs.discrete(3))},
            {"a": (BOX, specs.discrete(4))},
            r"actions differ at a\.1: .*0, 2\) and .*0, 3\)",
        ),
        (specs.discrete(3), Array((), np.int32), "actions differ at the only leaf"),
        ({"a": BOX}, {"b": BOX}, "actions differ in structure: .*'a'.* and .*'b'"),
    ],
)
def test_require_equal_names_the_leaf_that_differs(a, b, message):
    with pytest.raises(ValueError, match=message):
        specs.require_equal(a, b, "actions")
