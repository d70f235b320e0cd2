"""Arrays of a spec, and trees of arrays as vectors."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenv import specs
from jaxenv.specs import Array, Bounded, discrete
from tests.errors import like

FLOATS = Array((2,), np.float32)
TREE = {
    "speed": FLOATS,
    "arm": discrete(3, start=-1),
    "levels": Bounded((2,), np.int32, 0, 9),
    "on": Array((), np.bool_),
}


# --- arrays of a spec ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("outer", "axes"), [((), ()), (4, (4,)), ((5, 4), (5, 4))])
def test_outer_axes_stand_in_front_of_those_of_the_spec(outer, axes):
    key = jax.random.key(0)
    for spec in (FLOATS, discrete(3)):
        for make in (spec.zeros, functools.partial(spec.sample, key)):
            array = jax.eval_shape(functools.partial(make, outer=outer))
            assert (array.shape, array.dtype) == ((*axes, *spec.shape), spec.dtype)


@pytest.mark.parametrize("outer", [-1, 1.5, (2, -1), (True,), "2", None])
def test_outer_axes_that_are_not_lengths_are_refused(outer):
    for make in (FLOATS.zeros, FLOATS.batched, lambda outer: FLOATS.sample(jax.random.key(0), outer)):
        with pytest.raises(ValueError, match=like("spec: outer must")):
            make(outer)


def test_a_length_that_is_an_array_is_refused_with_the_way_to_declare_it():
    with pytest.raises(ValueError, match=r"shape .*got \(JitTracer\(\~int32\[\]\),\)"):
        jax.eval_shape(lambda size: Array((size,), np.float32).zeros(), 3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Array((-1,), np.float32), "Array: shape ...got (-1,)"),
        (lambda: Array((2.5,), np.float32), "Array: shape ...got (2.5,)"),
        (lambda: Array((True,), np.float32), "Array: shape ...got (True,)"),
        (lambda: Array("12", np.float32), "Array: shape ...got '12'"),
        (lambda: Array(3, np.float32), "Array: shape ...got 3"),
        (lambda: Array((), object), "Array: dtype ...got <class"),
        (lambda: Array((), None), "Array: dtype ...got None"),
        (lambda: Array((), np.complex64), "Array: dtype ...got "),
        (lambda: Array((), "text"), "Array: dtype ...got 'text'"),
        (lambda: Array((), np.float32, 3), "Array: name ...got 3"),
        (lambda: Bounded((-1,), np.int32, 0, 1), "Bounded: shape ...got (-1,)"),
        (lambda: Bounded((), np.float32, "a", 1), "Bounded: minimum ...got 'a'"),
        (
            lambda: Bounded((), np.float32, 0, True),
            "Bounded: maximum ...got True",
        ),
        (lambda: discrete(2.5), "discrete: n ...got 2.5"),
        (lambda: discrete(True), "discrete: n ...got True"),
        (lambda: discrete(3, "a"), "discrete: start ...got 'a'"),
        (lambda: specs.unbatched(FLOATS, 2), "unbatched: axes ...got 2"),
        (lambda: specs.from_array(np.ones(2), -1), "from_array: from_dim ...got -1"),
    ],
)
def test_arguments_that_would_be_cut_or_wrapped_are_refused(make, message):
    with pytest.raises(ValueError, match="^" + like(message)):
        make()


def drawn(outer):
    """A value of `TREE` with outer axes."""
    draw = np.random.default_rng(0)
    return {
        "speed": draw.normal(size=(*outer, 2)).astype(np.float32),
        "arm": np.asarray(draw.integers(-1, 2, outer), np.int32),
        "levels": draw.integers(0, 10, (*outer, 2), np.int32),
        "on": np.asarray(draw.integers(0, 2, outer), np.bool_),
    }


def test_bounds_of_bools_may_be_0_and_1():
    assert Bounded((), np.bool_, 0, 1) == Bounded((), np.bool_, False, True)
    with pytest.raises(ValueError, match=r"Bounded: maximum .*got 2"):
        Bounded((), np.bool_, 0, 2)


# --- trees of arrays as vectors --------------------------------------------------------------------------------------


@pytest.mark.parametrize("one_hot", [True, False])
@pytest.mark.parametrize("outer", [(), (3,), (2, 3)])
def test_unflatten_is_the_inverse_of_flatten(outer, one_hot):
    value = drawn(outer)
    vector = specs.flatten(TREE, value, one_hot=one_hot)
    spec = specs.flattened(TREE, one_hot=one_hot)
    assert vector.shape == (*outer, *spec.shape) == (*outer, 8 if one_hot else 6)
    specs.validate(spec, vector, outer)
    back = specs.unflatten(TREE, vector, one_hot=one_hot)
    specs.validate(TREE, back, outer)
    assert jax.tree.map(lambda a, b: bool(np.all(a == np.asarray(b))), value, back) == dict.fromkeys(TREE, True)


def test_the_vector_holds_the_leaves_in_tree_order_with_numbers_as_one_hot():
    value = {"speed": np.float32([0.5, 1.5]), "arm": np.int32(1), "levels": np.int32([4, 9]), "on": np.bool_(True)}
    assert specs.flatten(TREE, value).tolist() == [0, 0, 1, 4, 9, 1, 0.5, 1.5]
    inf = float("inf")
    low, high = [0, 0, 0, 0, 0, 0, -inf, -inf], [1, 1, 1, 9, 9, 1, inf, inf]
    assert specs.flattened(TREE) == Bounded((8,), np.float32, low, high)
    assert specs.flattened(discrete(3, name="arm")) == Bounded((3,), np.int32, 0, 1)
    assert specs.flattened(discrete(3, name="arm")).name == "arm"
    assert specs.flattened((FLOATS, FLOATS), dtype=np.float16) == Array((4,), np.float16)


def test_a_vector_of_floats_is_rounded_into_the_bounds_of_discrete_leaves():
    spec = {"gear": Bounded((2,), np.int32, 0, 3), "arm": discrete(3, start=5)}
    found = specs.unflatten(spec, jnp.array([0.1, 0.7, 0.2, 1.6, 9.0]))
    assert jax.tree.map(lambda x: x.tolist(), found) == {"arm": 6, "gear": [2, 3]}


def test_flatten_runs_under_jit_and_refuses_what_does_not_fit():
    value = drawn((3,))
    jitted = jax.jit(lambda value: specs.flatten(TREE, value))(value)
    assert jitted.tolist() == specs.flatten(TREE, value).tolist()
    with pytest.raises(ValueError, match=r"speed does not.* Array\(\(3, 2\), float32\): its shape is \(4, 2\)"):
        specs.flatten(TREE, {**value, "speed": np.zeros((4, 2), np.float32)})
    with pytest.raises(ValueError, match=r"value .*got a dict"):
        specs.flatten(TREE, {"arm": value["arm"]})
    with pytest.raises(ValueError, match=r"unflatten: vector .*got shape \(3, 7\)"):
        specs.unflatten(TREE, jitted[:, :7])
    with pytest.raises(ValueError, match=r"flattened: spec .*got \{\}"):
        specs.flattened({})


def test_a_one_hot_vector_of_all_int32_is_refused():
    wide = Bounded((), np.int32, -(2**31), 2**31 - 1)
    with pytest.raises(ValueError, match=r"flatten: .* would have 4294967296 elements, pass one_hot=False"):
        specs.flattened(wide)
    assert specs.flattened(wide, one_hot=False).shape == (1,)
