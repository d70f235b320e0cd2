"""Films as objects: their frames, files and players."""

import base64
import io
import re

import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv.rollout import Film
from jaxenv.rollout._film import frames_of as frames
from tests.packages import lazy
from tests.rollout.test_record import push_right

Image, ImageSequence = lazy("PIL.Image"), lazy("PIL.ImageSequence")


@pytest.fixture(scope="module")
def env():
    return jaxenv.make("CartPole-v1", 3)


@pytest.fixture(scope="module")
def film(env):
    return jaxenv.film(env, push_right, size=8, max_steps=9, fps=20)


def test_a_film_holds_the_frames_that_a_file_would_show(env, film, tmp_path):
    assert film.frames.dtype == np.uint8
    assert film.frames.shape == (10, 42, 22, 3)
    jaxenv.record(env, push_right, tmp_path / "recorded.png", size=8, max_steps=9)
    film.save(tmp_path / "saved.png")
    assert (tmp_path / "saved.png").read_bytes() == (tmp_path / "recorded.png").read_bytes()


def test_a_saved_film_has_all_frames_at_its_speed(film, tmp_path):
    path = film.save(str(tmp_path / "film.gif"))
    with Image.open(path) as image:
        assert len(list(ImageSequence.Iterator(image))) == len(film) == 10
        assert image.info["duration"] == 50


def test_a_film_of_no_steps_shows_the_start(env):
    kinds = {"key": None, "max_steps": 1000, "size": 8, "fps": 30, "captions": True, "initial_memory": ()}
    assert len(list(frames("film", env, push_right, num_steps=0, **kinds)[0])) == 1
    still = Film(np.zeros((1, 8, 8, 3), np.uint8))
    assert repr(still) == "Film(1 frame, 8 x 8 pixels, 30 fps)"
    assert "data:image/gif" in still._repr_html_()


def test_a_notebook_plays_a_film_and_a_terminal_prints_its_size(film):
    assert repr(film) == "Film(10 frames, 42 x 22 pixels, 20 fps)"
    html = film._repr_html_()
    with Image.open(io.BytesIO(base64.b64decode(re.search('base64,([^"]*)"', html)[1]))) as image:
        assert (image.n_frames, image.info["duration"]) == (10, 50)
    assert "http" not in html
    assert "<script" not in html


def test_what_does_not_fit_is_refused(env, film):
    with pytest.raises(ValueError, match=r"film: num_steps .*got -1"):
        jaxenv.film(env, num_steps=-1)
    with pytest.raises(ValueError, match=r"film: env .*got 'CartPole-v1'"):
        jaxenv.film("CartPole-v1")
    with pytest.raises(ValueError, match=r"film: autoreset .*got <AutoReset<Time"):
        jaxenv.film(jaxenv.make("CartPole-v1", autoreset="same_step"))
    with pytest.raises(ValueError, match=r"Film: path .*got 'film.webm'"):
        film.save("film.webm")


@pytest.mark.parametrize(
    ("frames", "fps", "rule"),
    [
        (np.zeros((0, 8, 8, 3), np.uint8), 30, r"frames .*got uint8\[0, 8, 8, 3\]"),
        (np.zeros((2, 8, 8), np.uint8), 30, r"frames must be .*, got uint8\[2, 8, 8\]"),
        (np.zeros((2, 8, 8, 3), np.float32), 30, r"frames .*got float32\[2, 8, 8, 3\]"),
        (np.zeros((2, 8, 8, 3), np.uint8), 0, r"fps .*got 0"),
    ],
)
def test_frames_that_are_no_film_are_refused(frames, fps, rule):
    with pytest.raises(ValueError, match=f"^Film: {rule}"):
        Film(frames, fps)


@pytest.mark.parametrize("name", ["film.gif", "film.png"])
def test_a_film_that_fails_leaves_the_file_before_it(env, tmp_path, name):
    path = tmp_path / name
    jaxenv.record(env, push_right, path, size=8, max_steps=3)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="shape"):
        jaxenv.record(env, lambda timestep, stream: jnp.zeros((1, 3), jnp.int32), path, size=8, max_steps=3)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
