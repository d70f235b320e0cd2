"""The player of frames: its pictures, and what it needs from the page."""

import base64
import io
import re

import numpy as np
import pytest
from PIL import Image

from jaxenv.canvas._player import MAX_FRAMES, player, pngs


def decoded(png):
    with Image.open(io.BytesIO(png)) as image:
        return np.asarray(image.convert("RGB"))


def test_pictures_of_few_colours_are_exact():
    frames = np.random.default_rng(0).integers(0, 2, (3, 7, 5, 3), np.uint8) * 200
    for png, frame in zip(pngs(frames), frames, strict=True):
        np.testing.assert_array_equal(decoded(png), frame)


def test_pictures_of_many_colours_are_close_and_their_commonest_colour_is_exact():
    sky = (100, 120, 160)
    frames = np.full((4, 64, 64, 3), sky, np.uint8)
    red, green = np.meshgrid(np.arange(0, 256, 4), np.arange(0, 256, 8))
    frames[:, 16:48] = np.stack([red, green, 255 - red], axis=-1)
    for png, frame in zip(pngs(frames), frames, strict=True):
        shown = decoded(png).astype(int)
        assert np.abs(shown - frame).max() <= 40
        assert np.abs(shown - frame).mean() <= 8
        np.testing.assert_array_equal(shown[:16], frame[:16])


def test_colours_that_only_some_frames_have_are_kept():
    frames = np.zeros((64, 4, 4, 3), np.uint8)
    frames[33] = (220, 76, 72)  # not among the frames that the palette is averaged over
    shown = decoded(list(pngs(frames))[33]).astype(int)
    assert np.abs(shown - frames[33]).max() <= 4


@pytest.mark.parametrize(
    ("count", "stride"), [(5, 1), (MAX_FRAMES, 1), (MAX_FRAMES + 1, 2), (MAX_FRAMES + 2, 2), (1000, 4)]
)
def test_a_long_film_leaves_out_frames_and_keeps_its_speed(count, stride):
    frames = np.zeros((count, 1, 1, 3), np.uint8)
    frames[:, 0, 0, 0] = np.arange(count) % 256
    html = player(frames, fps=40)
    assert f'data-stride="{stride}" data-last="{count - 1}" data-interval="{25 * stride}"' in html
    rest = re.search('data-frames="([^"]*)"', html)[1].split(",")
    assert len(rest) == -(-(count - 1) // stride) < MAX_FRAMES
    for data, frame in ((rest[0], stride), (rest[-1], count - 1)):  # the last frame is there
        assert int(decoded(base64.b64decode(data))[0, 0, 0]) == pytest.approx(frame % 256, abs=4)
    assert f'max="{len(rest)}"' in html


def test_without_scripts_the_first_frame_is_there_and_the_controls_are_not():
    frames = np.stack([np.full((2, 2, 3), c, np.uint8) for c in (0, 200)])
    still = re.sub("<script>.*</script>", "", player(frames, fps=1), flags=re.DOTALL)
    first = re.search(r'<img [^>]*src="data:image/png;base64,([^"]*)"', still)[1]
    assert (decoded(base64.b64decode(first)) == 0).all()
    assert 'class="jaxenv-bar" style="display:none' in still


def test_players_on_one_page_share_no_names():
    html = player(np.zeros((2, 1, 1, 3), np.uint8), fps=1)
    assert not re.search(r"\bid=|getElementById|\bvar\b|window\.", html)
    assert html.endswith("})()</script>")


def test_small_frames_are_enlarged_without_blur():
    html = player(np.zeros((1, 10, 10, 3), np.uint8), fps=1, width=160)
    assert 'width="160" style="width:160px;image-rendering:pixelated"' in html
