"""Samples of specs: distributions, independence of lanes, and masks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenv import random, specs
from jaxenv.specs import Array, Bounded
from tests.draws import chi_square

INF = np.inf
LARGEST = 3.4028235e38


def keys(n, seed=0):
    return jax.random.split(jax.random.key(seed), n)


def sample(spec, stream, outer=(), mask=None):
    """Calls a compiled ``specs.sample``."""
    return jax.jit(lambda stream, mask: specs.sample(spec, stream, outer, mask))(stream, mask)


def draw(spec, n=20_000, seed=0):
    """Returns one sample per key, ``[n, *shape]``."""
    return np.asarray(sample(spec, keys(n, seed)))


# --- distributions ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bound", [0.1, 16777217.0, -1e300])
def test_samples_of_float64_lie_within_bounds_that_float32_does_not_hold(bound):
    with jax.enable_x64(True):
        spec = Bounded((), np.float64, bound, bound)
        assert spec.contains(spec.sample(jax.random.key(0)))
        wide = Bounded((4,), np.float64, -1e300, 1e300)
        assert np.abs(wide.sample(jax.random.key(0))).min() > 1e30


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
def test_integers_are_uniform_and_include_both_bounds(dtype, low, high):
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


def test_integers_respect_bounds_per_element():
    values = draw(Bounded((2, 2), np.int32, [[0, 5], [-9, 7]], [[1, 5], [-8, 9]]), 2_000)
    assert values.min(axis=0).tolist() == [[0, 5], [-9, 7]]
    assert values.max(axis=0).tolist() == [[1, 5], [-8, 9]]


@pytest.mark.parametrize(("low", "high", "expected"), [(False, True, {0, 1}), (True, True, {1}), (False, False, {0})])
def test_booleans_respect_their_bounds(low, high, expected):
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


def test_kinds_of_bounds_may_differ_per_element():
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


def test_samples_have_the_lanes_first_and_then_outer_axes():
    spec = Bounded((3,), np.float32, 0, 1)
    stream = jax.eval_shape(random.stream, keys(5))
    assert jax.eval_shape(spec.sample, stream).shape == (5, 3)
    assert jax.eval_shape(lambda s: spec.sample(s, (2,)), stream).shape == (5, 2, 3)
    assert jax.eval_shape(lambda k: specs.discrete(3).sample(k, (2, 4)), jax.random.key(0)).shape == (2, 4)


def test_samples_of_a_lane_do_not_depend_on_other_lanes():
    spec = {"a": Bounded((3,), np.float32, 0, 1), "b": specs.discrete(1000)}
    many = sample(spec, keys(8))
    alone = sample(spec, keys(8)[5:6])
    assert many["b"][5] == alone["b"][0]
    np.testing.assert_allclose(many["a"][5], alone["a"][0], rtol=1e-6)


def test_different_keys_give_different_samples():
    spec = Bounded((), np.int32, 0, 2**31 - 1)
    assert sample(spec, jax.random.key(0)) == sample(spec, jax.random.key(0))
    assert sample(spec, jax.random.key(0)) != sample(spec, jax.random.key(1))


def test_leaves_of_a_tree_are_independent():
    spec = Bounded((), np.float32, 0, 1)
    values = sample({"a": spec, "b": (spec, spec)}, keys(5_000))
    columns = np.stack(jax.tree.leaves(values))
    assert (np.abs(np.corrcoef(columns) - np.eye(3)) < 0.06).all()


def test_a_sample_of_a_tree_has_its_structure():
    spec = {"a": specs.discrete(3), "b": (Array((2,), np.float32), ())}
    values = sample(spec, keys(4), (6,))
    assert jax.tree.structure(values) == jax.tree.structure(spec)
    specs.validate(spec, values, (4, 6))


def test_int64_specs_sample_values_that_fit_32_bits():
    with jax.enable_x64(True):
        values = sample(Bounded((), np.int64, -5, -3), keys(100))
        assert values.dtype == jnp.int64
        assert set(values.tolist()) == {-5, -4, -3}
        with pytest.raises(ValueError, match=r"sample: the bounds .*got Bounded\(\("):
            Bounded((), np.int64, 0, 2**40).sample(keys(1))


# --- masks -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.int32, np.uint8])
def test_masked_samples_are_uniform_over_the_allowed_values(dtype):
    spec = Bounded((), dtype, 2, 6)
    mask = jnp.array([False, True, False, True, True])
    values = sample(spec, keys(20_000), mask=jnp.broadcast_to(mask, (20_000, 5)))
    found, counts = np.unique(values, return_counts=True)
    assert values.dtype == dtype
    assert found.tolist() == [3, 5, 6]
    assert chi_square(counts) < 5


def test_each_lane_has_its_own_mask():
    chosen = jnp.array([2, 0, 4, 3])
    mask = jax.nn.one_hot(chosen, 5, dtype=bool)
    assert sample(specs.discrete(5, start=1), keys(4), mask=mask).tolist() == [3, 1, 5, 4]


def test_a_mask_that_allows_nothing_gives_the_minimum():
    assert sample(specs.discrete(3, start=-1), keys(4), mask=jnp.zeros((4, 3), bool)).tolist() == [-1] * 4


def test_every_agent_draws_from_its_own_mask():
    mask = jnp.array([[[True, False, True], [False, False, True]]] * 500)
    drawn = sample(Bounded((2,), np.int32, 5, 7), keys(500), mask=mask)
    assert set(drawn[:, 0].tolist()) == {5, 7}
    assert set(drawn[:, 1].tolist()) == {7}


def test_agents_with_equal_masks_draw_different_values():
    drawn = sample(Bounded((2,), np.int32, 0, 9), keys(500), mask=jnp.ones((500, 2, 10), bool))
    assert 0.05 < jnp.mean(drawn[:, 0] == drawn[:, 1]) < 0.2


def test_a_single_key_takes_a_single_mask():
    assert sample(specs.discrete(3), jax.random.key(0), mask=jnp.array([False, False, True])) == 2


@pytest.mark.parametrize(
    ("spec", "mask", "outer", "message"),
    [
        (specs.discrete(3), (2, 4), (), r"mask has shape \(2, 4\), the spec has 3 values"),
        (specs.discrete(3), (), (), r"mask has shape \(\), the spec has 3 values"),
        (Bounded((2,), np.int32, 0, 2), (2, 3), (), r"mask has shape \(2, 3\), the spec has 3 values"),
        (Bounded((2, 2), np.int32, 0, 2), (2, 2, 3), (), "mask needs a single discrete spec"),
        (Bounded((), np.float32, 0, 2), (2, 3), (), "mask needs a single discrete spec"),
        ({"a": specs.discrete(3)}, (2, 3), (), "mask needs a single discrete spec"),
        (specs.discrete(3), (2, 3), (5,), "no outer axes"),
    ],
)
def test_a_mask_that_does_not_fit_is_refused(spec, mask, outer, message):
    with pytest.raises(ValueError, match=message):
        specs.sample(spec, keys(2), outer, jnp.ones(mask, bool))
