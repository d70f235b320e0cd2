"""`Packing`: small trees of arrays as one flat array."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenv.interop._adapter import Packing
from tests.rows import assert_equal


def shapes(values):
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), values)


def test_leaves_of_all_dtypes_survive():
    values = {
        "flag": jnp.array([True, False, False]),
        "byte": jnp.arange(3, dtype=jnp.uint8),
        "number": jnp.array([[1.5, -jnp.inf], [jnp.nan, -0.0]]),
        "half": jnp.array([1.5, 2.5], jnp.bfloat16),
        "word": jnp.array([2**32 - 1], jnp.uint32),
        "negative": (jnp.array(-1), jnp.zeros((2, 0))),
        "short": jnp.array([-300], jnp.int16),
    }
    packing = Packing(shapes(values))
    packed = jax.jit(packing.pack)(values)
    assert [x.dtype for x in packed] == [np.uint32]
    for found in (jax.jit(packing.unpack)(packed), packing.views([np.array(x) for x in packed])):
        assert_equal(jax.device_get(found), jax.device_get(values))


def test_unpacked_arrays_of_numpy_are_writable():
    values = {"a": jnp.array([True]), "b": jnp.array([1.5, 2.5])}
    packing = Packing(shapes(values))
    found = packing.views([np.array(x) for x in packing.pack(values)])
    assert all(x.flags.writeable for x in found.values())


@pytest.mark.parametrize("values", [{"key": jax.random.key(0)}, {"large": jnp.zeros(129)}, {}])
def test_large_trees_and_keys_stay_as_they_are(values):
    packing = Packing(shapes(values))
    arrays = packing.pack(values)
    assert all(x is y for x, y in zip(arrays, jax.tree.leaves(values), strict=True))
    assert packing.unpack(arrays) == values
