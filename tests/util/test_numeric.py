"""Error bounds of ``sin_cos``, and values and derivatives of ``clip``."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenv._util.numeric import clip, sin_cos


@pytest.mark.parametrize("limit", [0.8, 4.0, 100.0, 10_000.0])
def test_sin_cos_is_within_its_error_bound(limit):
    x = np.random.default_rng(0).uniform(-limit, limit, 500_000).astype(np.float32)
    x[:9] = np.float32(np.pi / 4) * np.arange(-4, 5)
    sine, cosine = jax.jit(sin_cos)(x)
    assert np.abs(np.asarray(sine) - np.sin(x.astype(np.float64))).max() < 1.2e-7
    assert np.abs(np.asarray(cosine) - np.cos(x.astype(np.float64))).max() < 1.2e-7


def test_sin_cos_is_bounded_for_finite_angles_and_nan_for_others():
    sine, cosine = jax.jit(sin_cos)(np.float32([1e6, -3e7, 1e9]))
    assert np.all(np.abs(sine) <= 1.001)
    assert np.all(np.abs(cosine) <= 1.001)
    assert np.isnan(sin_cos(jnp.float32([np.nan, np.inf, -np.inf]))).all()


def test_derivatives_of_sin_cos_are_the_cosine_and_minus_the_sine():
    x = jnp.linspace(-7, 7, 101)
    slopes = [jax.vmap(jax.grad(lambda v, i=i: sin_cos(v)[i]))(x) for i in (0, 1)]
    np.testing.assert_allclose(slopes[0], jnp.cos(x), atol=2e-6)
    np.testing.assert_allclose(slopes[1], -jnp.sin(x), atol=2e-6)


def test_clip_accepts_bounds_per_element_and_keeps_nan():
    x = jnp.array([[-3.0, 0.5, np.nan], [np.inf, -np.inf, 1.0]])
    clipped = clip(x, np.array([[-1.0], [-2.0]], np.float32), 2)
    np.testing.assert_array_equal(clipped, [[-1, 0.5, np.nan], [2, -2, 1]])
    assert clip(jnp.array([1, 9], jnp.int32), 0, 5).tolist() == [1, 5]


def test_derivative_of_clip_is_one_inside_the_bounds_and_zero_outside():
    slope = jax.vmap(jax.grad(lambda v: clip(v, -1, 1)))(jnp.array([-2.0, -0.5, 0.0, 0.9, 3.0]))
    assert slope.tolist() == [0, 1, 1, 1, 0]


def test_derivative_of_clip_does_not_compare_for_equality():
    """The compiler may round one side once more, so equality would be unreliable (see docs/decisions.md, "envs")."""
    slope = str(jax.make_jaxpr(lambda x, t: jax.jvp(lambda v: clip(v, -1, 1), (x,), (t,)))(1.0, 1.0))
    assert " eq " not in slope
    assert " eq " in str(jax.make_jaxpr(lambda x, t: jax.jvp(lambda v: jnp.clip(v, -1, 1), (x,), (t,)))(1.0, 1.0))
