"""Writes films to files: GIF, MP4, or a strip of moments."""

import io
import itertools
import math
import pathlib
import warnings
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from jaxenv._util import files
from jaxenv._util.checks import check_path as checked_path
from jaxenv._util.library import import_library
from jaxenv.canvas._grid import GAP, Part
from jaxenv.canvas._palette import PAPER

FORMATS = (".gif", ".mp4", ".png")
_MOMENTS = 8  # pictures of a strip


def check_path(owner: str, path: str | pathlib.Path) -> pathlib.Path:
    """Returns the path of a film; raises a ``ValueError`` for an unknown ending or a missing folder."""
    path = checked_path(owner, "path", path)
    if path.suffix not in FORMATS:
        raise ValueError(f"{owner}: path must end in {', '.join(FORMATS[:-1])} or {FORMATS[-1]}, got {path.name!r}")
    if not path.parent.is_dir():
        raise ValueError(f"{owner}: path must be in a folder that exists, got {path}")
    return path


def write_film(
    path: pathlib.Path, frames: Iterable[np.ndarray], fps: int, parts: tuple[Part, ...] = (), rename: bool = False
) -> None:
    """Writes frames, uint8 ``[H, W, 3]``, to a file of one of the ``FORMATS``, completely or not at all.

    The ``parts`` of a frame become rows of a strip; by default the whole frame is one. With ``rename`` the file takes
    the first free name instead of replacing another.
    """
    with files.replacing(path, rename=rename) as file:
        if path.suffix == ".png":
            _write_strip(file, list(frames), parts)
        else:
            {".gif": write_gif, ".mp4": _write_mp4}[path.suffix](file, frames, fps)
        if not file.stat().st_size:  # failures of ffmpeg raise nothing
            raise OSError(f"ffmpeg could not write {path}")


def write_gif(file: pathlib.Path | io.BytesIO, frames: Iterable[np.ndarray], fps: float) -> None:
    """Writes frames, uint8 ``[H, W, 3]``, as a GIF that repeats and takes ``1 / fps`` seconds for each on average.

    Of more than 50 frames a second some are left out, neither the first nor the last.
    """
    image: Any = import_library("PIL.Image", "pip install pillow")

    def page(frame: np.ndarray, delay: int) -> Any:
        # Flat colours need no dithering, which would flicker and triple the size.
        made = image.fromarray(frame).quantize(128, dither=image.Dither.NONE)
        made.info["duration"] = 10 * delay
        return made

    pages = (page(*shown) for shown in _delayed(frames, fps))
    next(pages).save(file, "GIF", save_all=True, append_images=pages, loop=0, optimize=False)


def _delayed(frames: Iterable[np.ndarray], fps: float) -> Iterator[tuple[np.ndarray, int]]:
    """Yields the frames that a GIF shows, and for how many hundredths of a second, its unit.

    Browsers show delays of less than 2 hundredths slowly.
    """

    def start(number: int) -> int:
        return 2 * math.ceil(50 * number / fps) if fps > 50 else round(100 * number / fps)

    shown, since, number = None, 0, 0
    for number, frame in enumerate(frames):
        if shown is not None and start(number) > since:
            yield shown, start(number) - since
            since = start(number)
        shown = frame
    if shown is not None:
        yield shown, max(start(number + 1) - since, 2)


def _write_mp4(path: pathlib.Path, frames: Iterable[np.ndarray], fps: int) -> None:
    ffmpeg = import_library("imageio_ffmpeg", "pip install imageio-ffmpeg")
    frames = iter(frames)
    first = next(frames)
    size = (first.shape[1], first.shape[0])
    path = path.resolve()  # ffmpeg reads a relative name with a colon as a protocol
    writer = ffmpeg.write_frames(str(path), size, fps=fps, quality=8, macro_block_size=2, output_params=["-f", "mp4"])
    with warnings.catch_warnings():
        # JAX warns of every fork, because a child that continues in Python may wait for a lock of a missing thread.
        # This child makes one system call, setpgrp, and becomes ffmpeg.
        warnings.filterwarnings("ignore", r"os\.fork\(\) was called", RuntimeWarning)
        writer.send(None)  # starts ffmpeg
    try:
        for frame in itertools.chain([first], frames):
            writer.send(np.ascontiguousarray(frame))
    finally:
        writer.close()


def _write_strip(path: pathlib.Path, frames: list[np.ndarray], parts: tuple[Part, ...]) -> None:
    """Writes a column per moment and a row per part, so that time runs from left to right in every row."""
    image = import_library("PIL.Image", "pip install pillow")
    chosen = np.unique(np.linspace(0, len(frames) - 1, _MOMENTS).round().astype(int))
    rows = parts or ((slice(None), slice(None)),)
    height, width = frames[0][rows[0]].shape[:2]
    strip = np.empty((len(rows) * (height + GAP) - GAP, len(chosen) * (width + GAP) - GAP, 3), np.uint8)
    strip[:] = np.round(PAPER * 255).astype(np.uint8)
    for row, part in enumerate(rows):
        for column, moment in enumerate(chosen):
            top, left = row * (height + GAP), column * (width + GAP)
            strip[top : top + height, left : left + width] = frames[moment][part]
    image.fromarray(strip).save(path, "PNG")
