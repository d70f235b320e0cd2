"""Films as animated pictures in notebooks."""

import base64
import io
import re

import numpy as np
import pytest

from jaxenv.rollout._film import _MOST_SHOWN, Film
from tests.packages import lazy

Image, ImageSequence = lazy("PIL.Image"), lazy("PIL.ImageSequence")


def shown(frames, fps):
    """The frames of the picture that a notebook shows, and the milliseconds of each."""
    html = Film(frames, fps)._repr_html_()
    with Image.open(io.BytesIO(base64.b64decode(re.search('src="data:image/gif;base64,([^"]*)"', html)[1]))) as image:
        frames = [np.asarray(frame.convert("RGB")) for frame in ImageSequence.Iterator(image)]
        assert image.info.get("loop", 0) == 0
        return frames, image.info.get("duration")


def test_frames_of_few_colours_are_exact():
    frames = np.random.default_rng(0).integers(0, 2, (3, 7, 5, 3), np.uint8) * 200
    np.testing.assert_array_equal(shown(frames, 10)[0], frames)


def test_colours_that_only_some_frames_have_are_kept():
    frames = np.zeros((64, 4, 4, 3), np.uint8)
    frames[:, 0, 0, 1] = np.arange(64)  # no two frames are equal
    frames[33, 2:] = (220, 76, 72)
    np.testing.assert_allclose(shown(frames, 10)[0][33], frames[33], atol=4)


@pytest.mark.parametrize(("count", "stride"), [(5, 1), (_MOST_SHOWN, 1), (_MOST_SHOWN + 1, 2), (1000, 4)])
def test_a_long_film_leaves_out_frames_and_keeps_its_speed(count, stride):
    frames = np.zeros((count, 2, 2, 3), np.uint8)
    frames[:, 0, 0, 0] = np.arange(count) % 256
    pictures, duration = shown(frames, 40)
    assert len(pictures) == -(-count // stride) <= _MOST_SHOWN
    assert duration == pytest.approx(25 * stride, abs=5)  # GIFs count in steps of 10 ms
    assert pictures[-1][0, 0, 0] == pytest.approx((len(pictures) - 1) * stride % 256, abs=4)
