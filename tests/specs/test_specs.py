"""Specs: equality, bounds, checks, and trees of specs."""

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenv import specs
from jaxenv.specs import Array, Bounded

INF = np.inf
LARGEST = 3.4028235e38
CART_POLE = Bounded((4,), np.float32, [-4.8, -INF, -0.41887903, -INF], [4.8, INF, 0.41887903, INF], "observation")


# --- attributes and bounds -------------------------------------------------------------------------------------------


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


def test_attributes_describe_the_values():
    spec = Array((2, 3), np.float32)
    assert (spec.ndim, spec.numel, spec.is_discrete, spec.is_continuous, spec.is_bounded) == (2, 6, False, True, False)
    assert Array((), np.float32).numel == 1
    assert [Array((), dtype).is_discrete for dtype in (np.uint8, np.int32, np.bool_, jnp.bfloat16)] == [1, 1, 1, 0]


@pytest.mark.parametrize(
    ("minimum", "maximum", "bounded"), [(-1, 1, True), (-INF, 1, False), (0, INF, False), ([-1, -INF], 1, False)]
)
def test_is_bounded_requires_finite_bounds(minimum, maximum, bounded):
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
        ((), np.float32, np.nan, 1, r"minimum .*got nan"),
        ((2,), np.float32, 0, [1, np.nan], r"maximum .*got \[1, nan\]"),
        ((), np.int32, 1, 0, r"minimum .*got 1 and 0"),
        ((2,), np.float32, [0, 2], 1, r"minimum .*got \[0, 2\] and 1"),
        ((), np.uint8, -1, 3, r"minimum .*got -1"),
        ((), np.uint8, 0, 256, r"maximum .*got 256"),
        ((), np.int32, 0, 2**31, "maximum must fit int32"),
        ((), np.int32, -INF, 0, "minimum must fit int32"),
        ((), np.int32, 0, 1.5, r"maximum .*got 1.5"),
        ((), np.float32, 0, 1e39, "maximum must fit float32"),
        ((2,), np.float32, [0, 1, 2], 3, r"minimum of shape \(3,\) does not broadcast.* \(2,\)"),
        ((), np.float32, [0, 1], 3, r"minimum of shape \(2,\) does not broadcast.* \(\)"),
    ],
)
def test_wrong_bounds_are_refused(shape, dtype, minimum, maximum, message):
    with pytest.raises(ValueError, match=f"^Bounded: {message}"):
        Bounded(shape, dtype, minimum, maximum)


def test_discrete_is_a_scalar_int32_from_start():
    assert specs.discrete(3) == Bounded((), np.int32, 0, 2)
    assert specs.discrete(3, start=-1, name="a") == Bounded((), np.int32, -1, 1)
    with pytest.raises(ValueError, match=r"discrete: n .*got 0"):
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
def test_num_values_includes_both_bounds(spec, count):
    assert spec.num_values == count


@pytest.mark.parametrize(
    "spec", [Bounded((), np.float32, 0, 1), Bounded((), np.float32, -INF, INF), Bounded((2,), np.int32, 0, [1, 2])]
)
def test_num_values_requires_a_discrete_spec_of_one_range(spec):
    with pytest.raises(ValueError, match=r"num_values is defined for.* Bounded"):
        _ = spec.num_values


def test_replace_keeps_the_other_attributes():
    assert Array((2,), np.float32, "a").replace(dtype=np.int32) == Array((2,), np.int32)
    assert Array((2,), np.float32, "a").replace(dtype=np.int32).name == "a"
    spec = Bounded((2,), np.float32, [0, 1], 2, "a")
    assert spec.replace(maximum=3) == Bounded((2,), np.float32, [0, 1], 3)
    assert spec.replace(name="b").name == "b"


def test_replace_accepts_the_empty_shape():
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
def test_repr_evaluates_to_an_equal_spec(spec):
    names = {"Bounded": Bounded, "Array": Array, "inf": INF} | {n: n for n in ("float32", "int32", "uint8", "bool")}
    again = eval(repr(spec), names)
    assert again == spec
    assert again.name == spec.name


def test_repr_shows_equal_bounds_once():
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


def test_zeros_prepend_outer_axes():
    got = Array((2,), np.uint8).zeros((5, 3))
    assert (got.shape, got.dtype) == ((5, 3, 2), jnp.uint8)
    assert not np.any(np.asarray(got))


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


def test_contains_is_false_for_keys_that_jax_cannot_sort():
    assert not specs.contains({"x": BOX}, {1: np.float32([0, 0]), "x": np.float32([0, 0])})


@pytest.mark.parametrize(
    ("spec", "value", "message"),
    [
        (BOX, np.float32([0, -2]), r"value does not.* Bounded\(.*'box'\): its element \(1,\) is -2.0"),
        (specs.discrete(3), np.int32(3), r"value does not.* Bounded\(\(\), int32, 0, 2\): it is 3"),
        (specs.discrete(3), 2, r"value does not.*: it"),
        ({"a": (BOX,)}, {"a": (np.zeros(3, np.float32),)}, r"a\.0 does not fit Bounded.*: its shape is \(3,\)"),
        (
            {"a": BOX, "b": BOX},
            {"a": np.zeros(2, np.float32), "b": np.zeros(2)},
            r"b does not fit .*: its dtype is float64",
        ),
        ({"a": BOX}, {"b": np.zeros(2)}, r"value .*got a dict with 'b'"),
        ((BOX,), [np.zeros(2, np.float32)], r"value .*got a list of 1"),
    ],
)
def test_validate_names_the_leaf_the_spec_and_the_value(spec, value, message):
    with pytest.raises(ValueError, match=message):
        specs.validate(spec, value)


def test_validate_of_a_single_spec_names_the_spec():
    BOX.validate(np.zeros(2, np.float32))
    with pytest.raises(ValueError, match="does not fit Bounded"):
        BOX.validate(np.float32([5, 5]))


@pytest.mark.parametrize("outer", [3, (3,)])
def test_validate_accepts_outer_axes(outer):
    specs.validate({"a": BOX}, {"a": np.zeros((3, 2), np.float32)}, outer)
    with pytest.raises(ValueError, match=r"a does not.* Bounded\(\(3, 2\).*: its shape is \(4, 2\)"):
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


def test_batched_prepends_axes_and_repeats_bounds():
    got = specs.batched({"a": BOX, "b": Array((), np.int32)}, (5, 3))
    assert got["a"].shape == (5, 3, 2)
    assert got["a"].maximum[4, 2].tolist() == [1, INF]
    assert got["b"] == Array((5, 3), np.int32)
    assert specs.batched(BOX, 5) == BOX.batched(5) == BOX.batched((5,))


def test_unbatched_removes_axes_and_drops_bounds():
    assert specs.unbatched({"a": BOX.batched(5)})["a"] == Array((2,), np.float32)
    assert specs.unbatched({"a": BOX.batched(5)})["a"].name == "box"
    assert specs.unbatched(jax.ShapeDtypeStruct((5, 3, 2), np.int32), 2) == Array((2,), np.int32)


def test_from_array_reads_shape_and_dtype_after_the_outer_axes():
    value = {"a": np.zeros((5, 3, 2), np.float32), "b": jnp.zeros((5, 3), bool)}
    assert specs.from_array(value)["a"] == Array((5, 3, 2), np.float32)
    assert specs.from_array(value, 2) == {"a": Array((2,), np.float32), "b": Array((), np.bool_)}


def test_zeros_of_a_tree_have_outer_axes():
    got = specs.zeros({"a": Bounded((2,), np.uint8, 3, 4)}, (5,))
    assert (got["a"].shape, got["a"].dtype) == ((5, 2), jnp.uint8)
    assert not got["a"].any()


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
        (
            {"a": BOX},
            {"b": BOX},
            r"actions differ in structure: the second .*got a dict with 'b'",
        ),
    ],
)
def test_require_equal_names_the_leaf_that_differs(a, b, message):
    with pytest.raises(ValueError, match=message):
        specs.require_equal(a, b, "actions")


@pytest.mark.parametrize(("name", "word"), [("n", "num_values"), ("low", "minimum"), ("high", "maximum")])
def test_a_name_of_another_library_is_refused_with_the_word_of_this_one(name, word):
    with pytest.raises(AttributeError, match=f"Bounded has no attribute '{name}': use spec.{word}"):
        getattr(specs.discrete(3), name)
    assert not hasattr(specs.discrete(3), name)
