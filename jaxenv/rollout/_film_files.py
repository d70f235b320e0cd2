"""The files that films are written to: GIF, MP4, or a strip of moments."""

import itertools
import pathlib
from collections.abc import Iterable, Iterator

import numpy as np

from jaxenv._library import import_library
from jaxenv.canvas import PAPER
from jaxenv.rollout._frames import GAP

FORMATS = (".gif", ".mp4", ".png")
_MOMENTS = 8  # pictures of a strip


def check_path(owner: str, path: str | pathlib.Path) -> pathlib.Path:
    """The path of a film; raises a ``ValueError`` if its ending is not one of ``FORMATS``."""
    path = pathlib.Path(path)
    if path.suffix not in FORMATS:
        raise ValueError(f"{owner}: path must end in {', '.join(FORMATS[:-1])} or {FORMATS[-1]}, got {path.name!r}")
    return path


def write_film(path: pathlib.Path, frames: Iterable[np.ndarray], fps: int) -> None:
    """Writes frames, uint8 ``[H, W, 3]``, to a file of one of the ``FORMATS``."""
    _WRITERS[path.suffix](path, iter(frames), fps)


def _write_gif(path: pathlib.Path, frames: Iterator[np.ndarray], fps: int) -> None:
    image = import_library("PIL.Image", "pip install pillow")
    # Browsers show steps of less than 20 ms slowly; GIFs count in steps of 10 ms.
    duration = max(round(100 / fps), 2) * 10
    # Flat colours need no dithering, which would flicker and triple the size.
    pages = (image.fromarray(frame).quantize(128, dither=image.Dither.NONE) for frame in frames)
    first = next(pages)
    first.save(path, save_all=True, append_images=pages, duration=duration, loop=0, optimize=False)


def _write_mp4(path: pathlib.Path, frames: Iterator[np.ndarray], fps: int) -> None:
    ffmpeg = import_library("imageio_ffmpeg", "pip install imageio-ffmpeg")
    first = next(frames)
    size = (first.shape[1], first.shape[0])
    writer = ffmpeg.write_frames(str(path), size, fps=fps, quality=8, macro_block_size=2)
    writer.send(None)
    try:
        for frame in itertools.chain([first], frames):
            writer.send(np.ascontiguousarray(frame))
    finally:
        writer.close()


def _write_strip(path: pathlib.Path, frames: Iterator[np.ndarray], fps: int) -> None:
    image = import_library("PIL.Image", "pip install pillow")
    every = list(frames)
    chosen = np.unique(np.linspace(0, len(every) - 1, _MOMENTS).round().astype(int))
    gap = np.broadcast_to(np.round(PAPER * 255).astype(np.uint8), (every[0].shape[0], GAP, 3))
    parts = [part for i in chosen for part in (gap, every[i])][1:]
    image.fromarray(np.concatenate(parts, axis=1)).save(path)


_WRITERS = {".gif": _write_gif, ".mp4": _write_mp4, ".png": _write_strip}
