"""Rows that a loss leaves out, made finite before a network reads them."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import data


def test_only_floats_of_invalid_rows_that_are_not_finite_become_zero():
    valid = np.array([[True, False, False]])
    rows = {
        "image": np.array([[[1, 2], [3, 4], [5, 6]]], np.uint8),
        "vector": np.array([[[np.nan, 1], [np.inf, 2], [-np.inf, np.nan]]], np.float32),
        "number": jnp.array([[0.5, 1.5, np.nan]], jnp.bfloat16),
        "nothing": (),
    }
    masked = data.mask_non_finite(rows, valid)
    assert masked["image"] is rows["image"]
    np.testing.assert_array_equal(masked["vector"], [[[np.nan, 1], [0, 2], [0, 0]]])
    assert masked["number"].tolist() == [[0.5, 1.5, 0]]
    assert [x.dtype for x in jax.tree.leaves(masked)] == [x.dtype for x in jax.tree.leaves(rows)]


def test_a_row_with_weight_zero_leaves_a_gradient_finite():
    rows, valid = jnp.array([[1.0], [np.nan], [3]]), jnp.array([True, False, True])

    def loss(weight):
        return jnp.mean((data.mask_non_finite(rows, valid) @ weight) ** 2, where=valid)

    assert jax.grad(loss)(jnp.ones(1)).tolist() == [10]
