"""Frames as a GIF."""

import numpy as np
import pytest

from jaxenv.canvas._films import write_gif
from tests.packages import lazy

Image, ImageSequence = lazy("PIL.Image"), lazy("PIL.ImageSequence")


@pytest.mark.parametrize("fps", [7, 24, 30, 40, 48, 50, 51, 60, 75, 99, 100, 144, 240])
def test_a_gif_plays_at_the_speed_that_is_asked_for_and_shows_the_first_and_the_last_frame(fps, tmp_path):
    count, path = 61, tmp_path / "film.gif"
    frames = np.zeros((count, 4, 4, 3), np.uint8)
    frames[..., 0] = 4 * np.arange(count, dtype=np.uint8)[:, None, None]
    write_gif(path, iter(frames), fps)
    with Image.open(path) as image:
        found = [(one.info["duration"], np.asarray(one.convert("RGB"))) for one in ImageSequence.Iterator(image)]
    delays, shown = [delay for delay, _ in found], [int(picture[0, 0, 0]) / 4 for _, picture in found]
    assert min(delays) >= 20
    assert max(delays) - min(delays) <= 10
    assert sum(delays) == pytest.approx(1000 * count / fps, abs=40)
    assert len(shown) == count if fps <= 50 else len(shown) == pytest.approx(50 * count / fps, abs=2)
    assert (shown[0], shown[-1]) == (0, count - 1)
    starts = np.cumsum([0, *delays[:-1]])  # every picture is there at its time
    np.testing.assert_allclose(starts, 1000 * np.array(shown) / fps, atol=20)


@pytest.mark.parametrize(("count", "fps"), [(1, 30), (1, 144), (2, 144)])
def test_a_short_film_is_a_gif(count, fps, tmp_path):
    write_gif(tmp_path / "film.gif", iter(np.zeros((count, 4, 4, 3), np.uint8)), fps)
    with Image.open(tmp_path / "film.gif") as image:
        assert image.info["duration"] >= 20
