"""Functions that control how XLA compiles and shares arrays."""

import jax.numpy as jnp

from jaxenv import _xla


def test_unshare_copies_a_leaf_that_occurs_twice():
    x, y = jnp.arange(3), jnp.ones(3)
    a, b, c = _xla.unshare((x, x, y))
    assert a is x
    assert c is y
    assert b is not x
    assert b.tolist() == [0, 1, 2]
