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


BITS = np.arange(32, dtype=np.uint32)


def expanded(words):
    return _xla.in_own_kernels(lambda words, bit: (words[:, None] & bit[None]) != 0, words, np.uint32(1) << BITS)


def test_an_image_in_its_own_kernels_is_the_image_with_and_without_jit():
    words = jnp.array([0, 5, 2**32 - 1], jnp.uint32)
    expected = np.asarray(words)[:, None] >> BITS & 1 != 0
    np.testing.assert_array_equal(expanded(words), expected)
    np.testing.assert_array_equal(jax.jit(expanded)(words), expected)
    np.testing.assert_array_equal(jax.jit(jax.vmap(expanded))(words[None]), expected[None])


def test_an_image_in_its_own_kernels_is_computed_in_a_branch_that_xla_keeps():
    # XLA would fuse what is not behind a branch into the kernel that reads it.
    assert "conditional" in jax.jit(expanded).lower(jnp.zeros(3, jnp.uint32)).compile().as_text()


@pytest.mark.parametrize("kind", [jax.sharding.AxisType.Auto, jax.sharding.AxisType.Explicit])
def test_an_image_in_its_own_kernels_traces_over_a_mesh(kind):
    mesh = jax.make_mesh((1,), ("lanes",), axis_types=(kind,))
    lanes = jax.sharding.PartitionSpec("lanes")
    words = jax.device_put(jnp.arange(4, dtype=jnp.uint32), jax.sharding.NamedSharding(mesh, lanes))
    expected = np.arange(4)[:, None] >> BITS & 1 != 0
    with jax.set_mesh(mesh):
        np.testing.assert_array_equal(jax.jit(expanded)(words), expected)
        shards = jax.shard_map(expanded, mesh=mesh, in_specs=lanes, out_specs=lanes)
        np.testing.assert_array_equal(jax.jit(shards)(words), expected)
