"""Films in files: what is written, and what is refused."""

import pathlib
import sys
import types
import warnings

import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from tests.packages import lazy

Image = lazy("PIL.Image")


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
        assert image.size == ((22, 42) if name == "film.gif" else (8 * 14 - 6, 3 * 24 - 6))


def test_a_strip_has_a_row_for_each_lane_and_a_column_for_each_moment(env, tmp_path):
    film = jaxenv.film(env, push_right, size=8, max_steps=15)
    with Image.open(jaxenv.record(env, push_right, tmp_path / "strip.png", size=8, max_steps=15)) as image:
        strip = np.asarray(image)
    moments = np.linspace(0, len(film) - 1, 8).round().astype(int)
    for lane, (rows, columns) in enumerate(film.parts):
        for column, moment in enumerate(moments):
            shown = strip[lane * 24 : lane * 24 + 18, column * 14 : column * 14 + 8]
            np.testing.assert_array_equal(shown, film.frames[moment, rows, columns])


@pytest.mark.parametrize("name", ["gymnax:x.mp4", "-y.mp4", "new.mp4"])
def test_an_mp4_may_have_any_name_and_replaces_an_older_one(env, tmp_path, monkeypatch, name):
    pytest.importorskip("imageio_ffmpeg")
    monkeypatch.chdir(tmp_path)
    pathlib.Path(name).write_text("old")
    path = jaxenv.record(env, path=name, num_steps=2, size=16)
    assert path.read_bytes()[4:8] == b"ftyp"
    assert [found.name for found in tmp_path.iterdir()] == [name]


def test_an_mp4_that_cannot_be_written_is_an_error(env, tmp_path):
    pytest.importorskip("imageio_ffmpeg")
    with pytest.raises(ValueError, match=r"path .*got .*nofolder"):
        jaxenv.record(env, path=tmp_path / "nofolder" / "x.mp4", num_steps=2, size=16)
    (tmp_path / "folder.mp4").mkdir()
    with pytest.raises(IsADirectoryError):
        jaxenv.record(env, path=tmp_path / "folder.mp4", num_steps=2, size=16)
    assert [found.name for found in tmp_path.iterdir()] == ["folder.mp4"]


def test_an_mp4_gets_every_frame_and_no_warning_of_the_fork_that_starts_ffmpeg(env, tmp_path, monkeypatch):
    sent = []

    def write_frames(path, size, **settings):
        warnings.warn("os.fork() was called. os.fork() is incompatible with ...", RuntimeWarning, stacklevel=2)
        pathlib.Path(path).write_text("film")
        while True:
            sent.append((path, size, (yield)))

    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", types.SimpleNamespace(write_frames=write_frames))
    path = jaxenv.record(env, push_right, tmp_path / "film.mp4", size=8, max_steps=4)
    assert [(size, frame.shape) for _, size, frame in sent] == [((22, 42), (42, 22, 3))] * 5
    assert path.read_text() == "film"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"path": "nowhere/film.gif"}, r"record: path .*got nowhere/film.gif"),
        ({"path": "film.avi"}, r"record: path .*got 'film.avi'"),
        ({"size": 2}, r"record: size .*got 2"),
        ({"fps": 0}, r"record: fps .*got 0"),
        ({"num_steps": 2.5}, r"record: num_steps .*got 2\.5"),
    ],
)
def test_what_does_not_fit_is_refused(env, arguments, message):
    with pytest.raises(ValueError, match=message):
        jaxenv.record(env, **arguments)
