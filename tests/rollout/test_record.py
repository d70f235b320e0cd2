"""Films in files: what is written, and what is refused."""

import jax.numpy as jnp
import pytest
from PIL import Image

import jaxenv


@pytest.fixture(scope="module")
def env():
    return jaxenv.make("CartPole-v1", 3)


def push_right(timestep, stream):
    return jnp.ones(timestep.reward.shape, jnp.int32)


@pytest.mark.parametrize("name", ["film.gif", "strip.png"])
def test_a_film_is_written_to_its_file(env, tmp_path, name):
    path = jaxenv.record(env, push_right, tmp_path / name, size=8, max_steps=9)
    with Image.open(path) as image:
        assert image.format == path.suffix[1:].upper()
        assert getattr(image, "n_frames", 1) == (10 if name == "film.gif" else 1)
        columns = 1 if name == "film.gif" else 8
        assert image.size == (columns * 28 - 6, 42)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"path": "film.avi"}, r"record: path must end in .gif, .mp4 or .png, got 'film.avi'"),
        ({"size": 2}, "record: size must be one or two numbers of pixels in 8 .. 4096, got 2"),
        ({"fps": 0}, "record: fps must be at least 1, got 0"),
        ({"num_steps": 2.5}, "record: num_steps must be an integer"),
    ],
)
def test_what_does_not_fit_is_refused(env, arguments, message):
    with pytest.raises(ValueError, match=message):
        jaxenv.record(env, **arguments)
