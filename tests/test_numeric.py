"""Arithmetic that a compiler cannot make wrong: bounds stated, bounds held."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenv._numeric import clip, sin_cos


@pytest.mark.parametrize("limit", [0.8, 4.0, 100.0, 10_000.0])
def test_sine_and_cosine_are_within_their_stated_bound(limit):
    x = np.random.default_rng(0).uniform(-limit, limit, 500_000).astype(np.float32)
    x[:9] = np.float32(np.pi / 4) * np.arange(-4, 5)
    sine, cosine = jax.jit(sin_cos)(x)
    assert np.abs(np.asarray(sine) - np.sin(x.astype(np.float64))).max() < 1.2e-7
    assert np.abs(np.asarray(cosine) - np.cos(x.astype(np.float64))).max() < 1.2e-7


def test_sine_and_cosine_stay_within_one_for_any_finite_angle_and_are_nan_for_none():
    sine, cosine = jax.jit(sin_cos)(np.float32([1e6, -3e7, 1e9]))
    assert np.all(np.abs(sine) <= 1.001)
    assert np.all(np.abs(cosine) <= 1.001)
    assert np.isnan(sin_cos(jnp.float32([np.nan, np.inf, -np.inf]))).all()


def test_the_slope_of_the_sine_is_the_cosine():
    x = jnp.linspace(-7, 7, 101)
    slopes = [jax.vmap(jax.grad(lambda v, i=i: sin_cos(v)[i]))(x) for i in (0, 1)]
    np.testing.assert_allclose(slopes[0], jnp.cos(x), atol=2e-6)
    np.testing.assert_allclose(slopes[1], -jnp.sin(x), atol=2e-6)


def test_clip_keeps_values_and_nan_and_takes_bounds_per_element():
    x = jnp.array([[-3.0, 0.5, np.nan], [np.inf, -np.inf, 1.0]])
    clipped = clip(x, np.array([[-1.0], [-2.0]], np.float32), 2)
    np.testing.assert_array_equal(clipped, [[-1, 0.5, np.nan], [2, -2, 1]])
    assert clip(jnp.array([1, 9], jnp.int32), 0, 5).tolist() == [1, 5]


def test_the_slope_of_a_clip_is_one_inside_and_zero_outside():
    slope = jax.vmap(jax.grad(lambda v: clip(v, -1, 1)))(jnp.array([-2.0, -0.5, 0.0, 0.9, 3.0]))
    assert slope.tolist() == [0, 1, 1, 1, 0]


def test_the_slope_of_a_clip_asks_on_which_side_and_never_for_equality():
    """Equality with a value that the compiler rounds once more or once less is chance (see docs/decisions.md)."""
    slope = str(jax.make_jaxpr(lambda x, t: jax.jvp(lambda v: clip(v, -1, 1), (x,), (t,)))(1.0, 1.0))
    assert " eq " not in slope
    assert " eq " in str(jax.make_jaxpr(lambda x, t: jax.jvp(lambda v: jnp.clip(v, -1, 1), (x,), (t,)))(1.0, 1.0))
