"""Networks: how they read observations, convolutions as dense layers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenv import specs
from jaxenv.training import networks
from jaxenv.training.networks import LARGE, SMALL, Reader, Torso

# --- observations ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("torso", "shape", "layers"),
    [
        ("auto", (40, 64), LARGE),
        ("auto", (32, 32, 3), LARGE),
        ("auto", (10, 10, 4), SMALL),
        ("mlp", (40, 64), ()),
        ("auto", (4, 17), ()),  # four stacked vectors
        ("auto", (7, 7, 3), ()),
        ("cnn", (5, 5, 3), SMALL),
        ("auto", (6,), ()),
    ],
)
def test_the_spec_chooses_the_convolutions(torso, shape, layers):
    assert Reader.from_spec("learner", specs.Bounded(shape, np.uint8, 0, 255), torso).filters == (layers,)


def test_an_image_with_its_channels_first_and_a_cnn_without_an_image_are_refused():
    with pytest.raises(ValueError, match=r"learner: the channels of an image .*got Bounded\(\(4, 40"):
        Reader.from_spec("learner", specs.Bounded((4, 40, 64), np.uint8, 0, 255))
    with pytest.raises(ValueError, match=r"learner: the observation .*got Array"):
        Reader.from_spec("learner", specs.Array((4,), np.float32), "cnn")


def test_images_categories_and_numbers_of_a_dict_are_read_as_what_they_are():
    spec = {
        "angle": specs.Array((2,), np.float32),
        "flag": specs.Bounded((), bool, False, True),
        "floor": specs.Bounded((), np.int8, -1, 2),
        "view": specs.Bounded((10, 12), np.uint8, 0, 255),
        "count": specs.Bounded((), np.int32, 0, 10_000),
    }
    observation = {
        "angle": jnp.array([[0.5, -0.5], [1.5, 2.5]]),
        "flag": jnp.array([True, False]),
        "floor": jnp.array([-1, 2], jnp.int8),
        "view": jnp.arange(240, dtype=jnp.uint8).reshape(2, 10, 12),
        "count": jnp.array([7, 9000]),
    }
    read = Reader.from_spec("learner", spec)
    image, flag, floor, numbers = read(observation)
    assert (image.shape, image.dtype) == ((2, 10, 12, 1), np.uint8)
    np.testing.assert_array_equal(image[..., 0], observation["view"])
    np.testing.assert_array_equal(flag, [1, 0])
    np.testing.assert_array_equal(floor, [0, 3])
    assert {flag.dtype, floor.dtype} == {np.dtype(np.int32)}
    np.testing.assert_array_equal(numbers, [[0.5, -0.5, 7], [1.5, 2.5, 9000]])

    torso = Torso(read)
    params = torso.init(jax.random.key(0), read(observation))
    features = torso.apply(params, read(observation))
    expected = [[0, 1, 1, 0, 0, 0, 0.5, -0.5, 7], [1, 0, 0, 0, 0, 1, 1.5, 2.5, 9000]]
    np.testing.assert_array_equal(features[:, -9:], expected)
    assert features.shape == (2, 8 * 10 * 16 + 9)
    # Leading axes may be several.
    rows = jax.tree.map(lambda x: x[:, None], read(observation))
    np.testing.assert_allclose(torso.apply(params, rows)[:, 0], features, rtol=1e-5)


@pytest.mark.parametrize(("side", "stride"), [(8, 4), (4, 2), (3, 1)])
def test_a_patch_holds_the_pixels_under_a_filter(side, stride):
    image = np.arange(2 * 19 * 22 * 3).reshape(2, 19, 22, 3)
    patches = np.asarray(networks.patches(jnp.asarray(image), side, stride))
    rows, columns = (19 // stride * stride - side) // stride + 1, (22 // stride * stride - side) // stride + 1
    assert patches.shape == (2, rows, columns, side * side * 3)
    for lane, row, column in np.ndindex(2, rows, columns):
        window = image[lane, row * stride :, column * stride :][:side, :side]
        np.testing.assert_array_equal(np.sort(patches[lane, row, column]), np.sort(window, axis=None))


def test_bytes_are_scaled_to_one():
    torso = Torso(Reader.from_spec("learner", specs.Bounded((10, 12), np.uint8, 0, 255)))
    image = jax.random.randint(jax.random.key(0), (3, 10, 12, 1), 0, 256).astype(jnp.uint8)
    params = torso.init(jax.random.key(1), (image,))
    of_bytes, of_floats = (torso.apply(params, (x,)) for x in (image, image.astype(jnp.float32) / 255))
    np.testing.assert_allclose(of_bytes, of_floats, atol=1e-5)


# --- weights ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(3, 8), (8, 3), (5, 5)])
def test_orthogonal_weights_are_orthogonal_scaled_and_drawn_uniformly(shape):
    keys = jax.random.split(jax.random.key(0), 400)
    weights = np.asarray(jax.jit(jax.vmap(lambda key: networks.orthogonal(2.0)(key, shape)))(keys))
    assert (weights.shape, weights.dtype) == ((400, *shape), np.float32)
    short = weights if shape[0] <= shape[1] else weights.swapaxes(1, 2)
    products = short @ short.swapaxes(1, 2)
    np.testing.assert_allclose(products, np.broadcast_to(4 * np.eye(min(shape)), products.shape), atol=1e-5)
    # Each entry has mean 0 and variance 4 / max(shape). Without a choice of signs the first one is never positive.
    assert np.abs(weights.mean(axis=0)).max() < 5 * 2 / np.sqrt(max(shape) * 400)
    np.testing.assert_allclose(weights.var(axis=0), 4 / max(shape), rtol=0.4)
