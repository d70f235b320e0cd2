"""Writes frames as an animated picture: a GIF file, or HTML that embeds one and loads nothing."""

import base64
import io
import pathlib
from collections.abc import Iterable
from typing import Any

import numpy as np

from jaxenv._util.library import import_library

MAX_FRAMES = 256


def animated(frames: np.ndarray, fps: float, width: int | None = None) -> str:
    """Returns HTML of a picture that repeats ``frames``, uint8 ``[T, H, W, 3]``, enlarged to ``width`` if it is given.

    Of more than ``MAX_FRAMES`` evenly spaced ones are shown, at the same speed.
    """
    native, stride = frames.shape[2], -(-len(frames) // MAX_FRAMES)
    file = io.BytesIO()
    write_gif(file, frames[::stride], fps / stride)
    width = native if width is None else width
    crisp = ";image-rendering:pixelated" if width > native else ""
    data = base64.b64encode(file.getvalue()).decode()
    return f'<img alt="film" width="{width}" style="width:{width}px{crisp}" src="data:image/gif;base64,{data}">'


def write_gif(file: pathlib.Path | io.BytesIO, frames: Iterable[np.ndarray], fps: float) -> None:
    """Writes frames, uint8 ``[H, W, 3]``, as a GIF that repeats."""
    image: Any = import_library("PIL.Image", "pip install pillow")
    # Browsers show steps of less than 20 ms slowly; GIFs count in steps of 10 ms.
    duration = max(round(100 / fps), 2) * 10
    # Flat colours need no dithering, which would flicker and triple the size.
    pages = (image.fromarray(frame).quantize(128, dither=image.Dither.NONE) for frame in frames)
    next(pages).save(file, "GIF", save_all=True, append_images=pages, duration=duration, loop=0, optimize=False)
