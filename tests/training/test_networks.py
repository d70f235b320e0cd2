"""Networks: how they read observations, convolutions as dense layers, and memories that a mask restarts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenv import specs
from jaxenv.training import networks
from jaxenv.training.networks import GRU, LARGE, LSTM, SMALL, Reader, Torso

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


# --- the GRU ---------------------------------------------------------------------------------------------------------


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def test_a_gru_restarts_every_lane_by_its_mask_as_in_a_loop_over_rows_and_lanes():
    width, steps, lanes, inputs = 3, 6, 4, 2
    keys = jax.random.split(jax.random.key(0), 4)
    x, memory = jax.random.normal(keys[0], (steps, lanes, inputs)), jax.random.normal(keys[1], (lanes, width))
    starts = jax.random.bernoulli(keys[2], 0.3, (steps, lanes))
    assert starts[0].any()
    assert starts[1:].any()
    gru = GRU(width)
    params = gru.init(keys[3], memory, x, starts)
    params = jax.tree.map(lambda p: p + 0.1, params)  # biases that are not 0
    last, out = gru.apply(params, memory, x, starts)

    p = jax.tree.map(np.asarray, params["params"])
    expected = np.zeros((steps, lanes, width))
    for lane in range(lanes):
        h = np.asarray(memory[lane])
        for t in range(steps):
            h = np.zeros(width) if starts[t, lane] else h
            gates = np.asarray(x[t, lane]) @ p["Dense_0"]["kernel"] + p["Dense_0"]["bias"]
            of_reset, of_update, of_new = np.split(gates, 3)
            reset, update = sigmoid(of_reset + h @ p["reset"]), sigmoid(of_update + h @ p["update"])
            new = np.tanh(of_new + reset * (h @ p["new"] + p["bias"]))
            h = (1 - update) * new + update * h
            expected[t, lane] = h
    np.testing.assert_allclose(out, expected, atol=1e-5)
    np.testing.assert_array_equal(last, out[-1])
    unmasked = gru.apply(params, memory, x, jnp.zeros_like(starts))[1]
    assert np.abs(out - unmasked).max() > 0.05


def test_a_new_gru_has_a_gradient_of_what_it_saw_40_rows_before():
    gru, memory = GRU(64), jnp.zeros((1, 64))
    starts = jnp.zeros((40, 1), bool)
    params = gru.init(jax.random.key(0), memory, jnp.zeros((40, 1, 2)), starts)

    def last(first):
        x = jnp.zeros((40, 1, 2)).at[0, 0].set(first)
        return gru.apply(params, memory, x, starts)[0]

    assert np.abs(jax.jacobian(last)(jnp.zeros(2))).max() > 1e-4  # with biases of 0 it is below 1e-6


# --- the LSTM --------------------------------------------------------------------------------------------------------


def test_an_lstm_and_its_gradients_equal_those_of_a_loop_over_the_rows():
    width, steps, lanes, inputs = 3, 6, 4, 2
    keys = jax.random.split(jax.random.key(0), 6)
    x, memory = jax.random.normal(keys[0], (steps, lanes, inputs)), jax.random.normal(keys[1], (lanes, 2 * width))
    starts = jax.random.bernoulli(keys[2], 0.3, (steps, lanes))
    assert starts[0].any()
    assert starts[1:].any()
    lstm = LSTM(width)
    params = jax.tree.map(lambda p: p + 0.1, lstm.init(keys[3], memory, x, starts))  # biases that are not 0

    def loop(params, memory, x):
        kernel, outputs = params["params"]["kernel"], []
        output, cell = memory[:, :width], memory[:, width:]
        for t in range(steps):
            output, cell = (jnp.where(starts[t][:, None], 0, part) for part in (output, cell))
            read = jnp.concatenate([x[t], jnp.ones((lanes, 1)), output], axis=-1)
            write, keep, show, new = jnp.split(read @ kernel, 4, axis=-1)
            cell = jax.nn.sigmoid(keep) * cell + jax.nn.sigmoid(write) * jnp.tanh(new)
            output = jax.nn.sigmoid(show) * jnp.tanh(cell)
            outputs.append(output)
        return jnp.concatenate([output, cell], axis=-1), jnp.stack(outputs)

    weights = jax.random.normal(keys[4], (lanes, 2 * width)), jax.random.normal(keys[5], (steps, lanes, width))

    def total(run):
        return lambda *arguments: sum(jnp.sum(w * y) for w, y in zip(weights, run(*arguments), strict=True))

    ours = lambda params, memory, x: lstm.apply(params, memory, x, starts)  # noqa: E731
    for found, expected in zip(ours(params, memory, x), loop(params, memory, x), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-5)
    gradients = [jax.grad(total(run), (0, 1, 2))(params, memory, x) for run in (ours, loop)]
    for found, expected in zip(*map(jax.tree.leaves, gradients), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-5)
