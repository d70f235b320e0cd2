"""Minibatches: every row once, in shuffled order."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenv import data


def test_minibatches_contain_every_row_once_and_shuffle_all_leaves_in_the_same_order():
    tree = {"a": jnp.arange(264), "b": (jnp.arange(528).reshape(264, 2),)}
    cut = jax.jit(lambda key: data.minibatches(key, tree, size=32))(jax.random.key(0))
    assert cut["a"].shape == (8, 33)
    assert cut["b"][0].shape == (8, 33, 2)
    assert sorted(cut["a"].ravel().tolist()) == list(range(264))
    np.testing.assert_array_equal(cut["b"][0][..., 0], 2 * cut["a"])
    assert cut["a"].ravel().tolist() != list(range(264))
    assert data.minibatches(jax.random.key(0), tree, 4)["a"].shape == (4, 66)
    assert data.minibatches(jax.random.key(0), jnp.zeros((6, 0)), 2).shape == (2, 3, 0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_minibatches": 7}, r"264 entries cannot be.*, num_minibatches is 7; 6 minibatches of 44 can"),
        ({"size": 50}, r"264 entries cannot be.* 50 makes 5 minibatches; 4 minibatches of 66 can"),
        ({"num_minibatches": 0}, r"num_minibatches .*got 0"),
        ({"size": 300}, r"size .*got 300"),
        ({}, r"pass either num_minibatches or size"),
        ({"num_minibatches": 2.5}, r"num_minibatches .*got 2.5"),
        ({"num_minibatches": True}, r"num_minibatches .*got True"),
        ({"size": 2.5}, r"size .*got 2.5"),
        ({"num_minibatches": 8, "size": 33}, r"pass either num_minibatches or size"),
    ],
)
def test_minibatches_that_would_drop_rows_raise(arguments, message):
    with pytest.raises(ValueError, match=message):
        data.minibatches(jax.random.key(0), jnp.zeros(264), **arguments)
    with pytest.raises(ValueError, match=r"all leaves .*got \[\(4,\), \(6,\)\]"):
        data.minibatches(jax.random.key(0), (jnp.zeros(4), jnp.zeros(6)), 2)
