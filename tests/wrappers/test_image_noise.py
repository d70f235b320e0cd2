"""AddWhiteNoise and ObstructView: which pixels are replaced, by what, and what that costs."""

import jax
import numpy as np
import pytest

from jaxenv import random
from jaxenv.specs import Array, Bounded, discrete
from jaxenv.testing import random_environment
from jaxenv.wrappers import AddWhiteNoise, AutoReset, ObstructView, TransformObservation
from tests.rows import unrolled

U8 = np.uint8
HEIGHT, WIDTH = 6, 9


def black(num_envs=1, channels=3):
    """An environment that shows a black image of bytes and a vector."""
    spec = {"camera": Bounded((HEIGHT, WIDTH, channels), U8, 0, 0), "speed": Array((2,), np.float32)}
    env = random_environment(spec, discrete(2), num_envs=num_envs)
    return TransformObservation(env, lambda o: {**o, "camera": o["camera"] * U8(0)}, spec)


def images(env, num_steps=1):
    """The images of some rows, ``[T, B, H, W, C]``."""
    return unrolled(env, np.zeros((num_steps, env.num_envs), np.int32)).observation["camera"]


def patches(width):
    """Gymnasium's patch around each pixel of the image: bool ``[H * W, H, W]``."""
    found = np.zeros((HEIGHT * WIDTH, HEIGHT, WIDTH), bool)
    low = width // 2
    high = width - low
    for centre, (x, y) in enumerate(np.ndindex(HEIGHT, WIDTH)):
        found[centre, max(x - low, 0) : min(x + high, HEIGHT), max(y - low, 0) : min(y + high, WIDTH)] = True
    return found


def test_a_pixel_is_replaced_with_the_probability_of_its_lane():
    shown = images(AddWhiteNoise(black(3), np.array([0.0, 1.0, 0.25])), 199)
    assert not shown[:, 0].any()
    # Three channels of noise are all 0 once in 2**24 pixels.
    replaced = (shown != 0).any(axis=-1)
    assert replaced[:, 1].all()
    assert abs(replaced[:, 2].mean() - 0.25) < 0.025  # six standard deviations of 200 * 54 pixels
    assert (np.abs(replaced[:, 2].mean(axis=0) - 0.25) < 0.16).all()  # at every place, five


def test_noise_is_uniform_over_all_bytes_and_independent_of_channel_and_row():
    shown = images(AddWhiteNoise(black(2), 1.0), 99)
    counts = np.bincount(shown.ravel(), minlength=256)
    mean = shown.size / 256
    assert (np.abs(counts - mean) < 6 * np.sqrt(mean)).all()
    # Bits of a pixel, of the same pixel in the other lane, of the next pixel, and of the same pixel one row later.
    bits = np.unpackbits(shown, axis=-1).astype(np.float32)
    neighbours = [bits[:-1, 0], bits[:-1, 1], np.roll(bits[:-1, 0], 1, axis=2), bits[1:, 0]]
    correlations = np.corrcoef(np.concatenate(neighbours, axis=-1).reshape(-1, 96), rowvar=False)
    assert (np.abs(correlations - np.eye(96)) < 6 / np.sqrt(99 * HEIGHT * WIDTH)).all()


@pytest.mark.parametrize(
    "wrap", [lambda env: AddWhiteNoise(env, 0.5, True), lambda env: ObstructView(env, 0.5, 2, True)]
)
def test_grey_noise_is_equal_in_all_channels(wrap):
    shown = images(wrap(black(2)), 9)
    assert shown.any()
    assert (shown == shown[..., :1]).all()


@pytest.mark.parametrize("width", [1, 2, 3])
def test_a_patch_is_a_square_around_a_uniform_centre_cut_at_the_border(width):
    lanes = 4000
    env = ObstructView(black(lanes), (width**2 + 0.5) / (HEIGHT * WIDTH), width)  # one patch
    covered = (images(env, 0)[0] != 0).any(axis=-1)
    expected = patches(width)
    found = (covered[:, None] == expected[None]).all(axis=(-1, -2))
    assert (found.sum(axis=-1) == 1).all()
    counts, mean = found.sum(axis=0), lanes / len(expected)
    assert (np.abs(counts - mean) < 5 * np.sqrt(mean)).all()


def test_patches_are_independent():
    lanes, width, count = 4000, 2, 5
    env = ObstructView(black(lanes), count * width**2 / (HEIGHT * WIDTH) + 1e-6, width)
    free = (images(env, 0)[0] == 0).all(axis=-1).mean(axis=0)
    expected = (1 - patches(width).mean(axis=0)) ** count
    assert (np.abs(free - expected) < 5 * np.sqrt(0.25 / lanes)).all()


def test_the_view_is_obstructed_elsewhere_on_every_row():
    shown = (images(ObstructView(black(2), 0.4, 3), 9) != 0).any(axis=-1).reshape(20, -1)
    assert len(np.unique(shown, axis=0)) > 15


def test_too_few_pixels_for_a_patch_change_nothing():
    assert not images(ObstructView(black(), 0.1, 3), 3).any()


@pytest.mark.parametrize(
    ("wrap", "words"),
    [
        (lambda env: AddWhiteNoise(env, 0.5), 54 + 41),
        (lambda env: AddWhiteNoise(env, 0.5, True), 54 + 14),
        (lambda env: ObstructView(env, 0.5, 2), 6 + 41),
        (lambda env: ObstructView(env, 0.5, 2, True), 6 + 14),
    ],
)
def test_a_row_costs_the_documented_number_of_random_words(monkeypatch, wrap, words):
    env, drawn, bits = wrap(black()), [], random.bits
    with monkeypatch.context() as patched:
        patched.setattr(
            random, "bits", lambda stream, shape=(): drawn.append(int(np.prod(shape))) or bits(stream, shape)
        )
        stream = random.stream(jax.random.split(jax.random.key(0), 1))
        _, timestep = jax.eval_shape(env.env.reset, jax.random.key(0))
        drawn.clear()
        jax.eval_shape(lambda timestep: env.after((), timestep, stream)[1], timestep)
    assert sum(drawn) == words


@pytest.mark.parametrize("wrap", [lambda env: AddWhiteNoise(env, 0.5), lambda env: ObstructView(env, 0.5, 2)])
def test_bounds_of_noisy_images_are_those_of_bytes_and_other_leaves_pass(wrap):
    spec = wrap(black()).observation_spec()
    assert spec["camera"] == Bounded((HEIGHT, WIDTH, 3), U8, 0, 255)
    assert spec["speed"] == Array((2,), np.float32)
    with pytest.raises(ValueError, match="put it inside AutoReset"):
        wrap(AutoReset(black(), "same_step"))


BYTES, BOOLS = Bounded((4, 3, 3), U8, 0, 255), Bounded((4, 3, 3), bool, False, True)
BAD = [
    (AddWhiteNoise, BOOLS, (0.5,), r"observation .*got Bounded"),
    (AddWhiteNoise, BYTES, (1.5,), r"probability .*got 1.5"),
    (AddWhiteNoise, BYTES, (np.array([0.5, -1]),), r"probability .*got -1.0 in lane 1"),
    (ObstructView, BOOLS, (0.5, 1), r"observation .*got Bounded"),
    (ObstructView, BYTES, (1.5, 1), r"ratio .*got 1.5"),
    (ObstructView, BYTES, (0.5, 0), r"width .*got 0"),
]


@pytest.mark.parametrize(("wrapper", "spec", "arguments", "message"), BAD)
def test_an_invalid_argument_or_observation_is_refused_by_name(wrapper, spec, arguments, message):
    with pytest.raises(ValueError, match=f"^{wrapper.__name__}: {message}"):
        wrapper(random_environment(spec, discrete(2), num_envs=2), *arguments)
