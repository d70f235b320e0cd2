"""Functions that control how XLA compiles and shares arrays."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenv import _xla, random


def test_unshare_copies_a_leaf_that_occurs_twice():
    x, y = jnp.arange(3), jnp.ones(3)
    a, b, c = _xla.unshare((x, x, y))
    assert a is x
    assert c is y
    assert b is not x
    assert b.tolist() == [0, 1, 2]


@pytest.mark.parametrize("shape", [(), (3,)])
def test_random_words_of_one_lane_are_computed_apart_from_their_consumers(shape):
    # Otherwise some programs of one lane take minutes to compile.
    def programs(lanes):
        words = jnp.arange(lanes, dtype=jnp.uint32)
        return str(jax.make_jaxpr(lambda w: random.bits(random.Stream(w, w, w, w), shape))(words))

    assert "cond" in programs(1)
    assert "cond" not in programs(2)


def test_random_words_of_one_lane_are_those_of_the_lane_in_a_batch():
    words = jnp.arange(3, dtype=jnp.uint32)
    draw = jax.jit(lambda w: random.bits(random.Stream(w, w, w, w), (5,)))
    np.testing.assert_array_equal(draw(words[1:2])[0], draw(words)[1])
