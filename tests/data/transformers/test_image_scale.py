"""ImageScale: bytes as floats."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenv.data.transformers import ImageScale
from tests.data.transformers.sensors import batch_of, row, sensors, unrolled


def first_row():
    return jax.tree.map(lambda x: x[0], unrolled()[0].timestep)


def test_bytes_become_floats_and_nothing_else_changes():
    image = jnp.array([[0, 51], [255, 102]], jnp.uint8)
    timestep = row([0, 1], [0, 1], {"camera": image, "gear": jnp.array([1, 2], jnp.int32)})
    _, scaled = ImageScale().transform_timestep((), timestep)
    np.testing.assert_allclose(scaled.observation["camera"], [[-1, -0.6], [1, -0.2]], rtol=1e-6)
    assert scaled.observation["camera"].dtype == np.float32
    assert scaled.observation["gear"] is timestep.observation["gear"]
    _, batch = ImageScale(0, 5).transform_batch((), batch_of(timestep))
    np.testing.assert_allclose(batch.experience.timestep.observation["camera"][:, 0], [[0, 1], [5, 2]], rtol=1e-6)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ImageScale(1, 1), r"ImageScale: low .*got 1 and 1"),
        (lambda: ImageScale("dark"), r"ImageScale: low .*got 'dark'"),
        (lambda: ImageScale(fields=(3,)), r"ImageScale: fields .*got \(3,\)"),
    ],
)
def test_an_invalid_argument_raises(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("transformer", "message"),
    [
        (ImageScale(fields=("lidar",)), "ImageScale: field 'lidar': no 'lidar' here, the fields"),
        (ImageScale(fields=("place",)), "ImageScale: place .*got "),
    ],
)
def test_an_unknown_field_or_one_of_another_kind_raises(transformer, message):
    with pytest.raises(ValueError, match=message):
        transformer.transform_spec(sensors().time_step_spec())
    with pytest.raises(ValueError, match=message):
        transformer.transform_timestep(transformer.init(first_row()), first_row())


def test_an_observation_without_images_raises():
    with pytest.raises(ValueError, match=r"ImageScale: observation .*got Array\(\(3, 2\), float32\)"):
        ImageScale().transform_timestep((), row(observation=jnp.zeros((3, 2))))
