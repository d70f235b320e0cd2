"""Films of all lanes: collected frame by frame from compiled code, and written in a thread: GIF, MP4, or a strip.

Frames may arrive in any order and in any thread, since callbacks are not ordered: each carries its lane, episode and
step. A film is complete once it has its last frame and all frames before it. After no-ops, the first frame belongs to a
later step; that the film is complete follows only from the lane's next episode.
"""

import atexit
import dataclasses
import io
import itertools
import math
import pathlib
import queue
import threading
import warnings
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxenv._util import files
from jaxenv._util.checks import check_path as checked_path
from jaxenv._util.library import import_library
from jaxenv.canvas._grid import GAP, Grid, Moment, Part
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


_LARGEST_QUEUE = 2**30  # bytes of pictures that wait to be written
_MAX_DONE = 1024  # films whose ends are remembered, to drop frames of later steps


class Settings(NamedTuple):
    """How a film is written: the folder, the suffix of the format, and steps per second."""

    folder: str
    suffix: str
    fps: int


class Frame(NamedTuple):
    """One frame of one lane."""

    batch: int  # the number of the batch, if vmap runs several
    lane: int
    episode: int  # the number of the episode in its lane
    step: int  # the step of the episode
    following: int  # the step of the next frame; step itself for a picture after the end
    reward: float  # the reward between both, summed over components
    last: bool  # whether the film ends with this frame
    picture: np.ndarray  # uint8[H, W, 3]


@dataclasses.dataclass
class _Film:
    settings: Settings
    name: str
    frames: dict[int, Frame] = dataclasses.field(default_factory=dict)
    end: int | None = None

    def add(self, frame: Frame) -> bool:
        """Adds a frame; True if the film is complete from step 0 on."""
        is_after_end = self.end is not None and frame.step > self.end
        if is_after_end or (frame.step in self.frames and self.frames[frame.step].last):
            return False
        self.frames[frame.step] = frame
        if frame.last:
            self.end = frame.following
        return 0 in self.frames and self.has_no_gap

    @property
    def has_no_gap(self) -> bool:
        """Whether all frames from the first one that arrived to the end are there."""
        if self.end is None:
            return False
        return self.end - min(self.frames) == sum(one.following - one.step for one in self.shown)

    @property
    def shown(self) -> list[Frame]:
        """Returns the frames in order, without the frames of steps after the end of the episode."""
        return [self.frames[step] for step in sorted(self.frames) if self.end is None or step <= self.end]

    @property
    def size(self) -> int:
        return sum(frame.picture.nbytes for frame in self.frames.values())


class Recorder:
    """Collects frames and writes films in a background thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[tuple[Any, ...], _Film] = {}
        self._done: dict[tuple[Any, ...], float] = {}  # the steps at which the newest films ended
        self._queue: queue.Queue[_Film] = queue.Queue()
        self._pending = 0  # bytes in the queue
        self._thread: threading.Thread | None = None

    def receive(self, settings: Settings, frame: Frame) -> None:
        """Queues one frame. It is called inside compiled code, so it leaves the work to the thread."""
        key = (settings, frame.batch, frame.lane, frame.episode)
        with self._lock:
            self._start()
            film = self._open.get(key)
            if film is not None and frame.step in film.frames and not film.frames[frame.step].last:
                self._finish(key)  # the run has been reset: a new film
                film = None
            if film is None:
                if frame.step and frame.step >= self._done.get(key, np.inf):  # a step after the end of the episode
                    return
                self._done.pop(key, None)
                for earlier in [k for k in self._open if k[:3] == key[:3] and self._open[k].has_no_gap]:
                    self._finish(earlier)
                batch = f"batch-{frame.batch}-" if frame.batch >= 0 else ""
                film = self._open[key] = _Film(settings, f"{batch}lane-{frame.lane}-episode-{frame.episode}")
            if film.add(frame):
                self._finish(key)

    def flush(self, unfinished: bool = False) -> None:
        """Waits until every ended film is written; with ``unfinished`` also writes the unfinished ones."""
        jax.effects_barrier()
        with self._lock:
            for key in [k for k, film in self._open.items() if unfinished or film.has_no_gap]:
                self._finish(key)
        self._queue.join()

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="jaxenv-films", daemon=True)
            self._thread.start()
            atexit.register(self.flush, unfinished=True)

    def _finish(self, key: tuple[Any, ...]) -> None:
        film = self._open.pop(key)
        self._done.pop(key, None)
        self._done[key] = np.inf if film.end is None else film.end
        if len(self._done) > _MAX_DONE:
            self._done.pop(next(iter(self._done)))
        if len(film.frames) < 2:
            return
        if self._pending + film.size > _LARGEST_QUEUE:
            warnings.warn(f"RecordVideo: {film.name} is left out, films are made faster than written", stacklevel=2)
            return
        self._pending += film.size
        self._queue.put(film)

    def _work(self) -> None:
        while True:
            film = self._queue.get()
            try:
                _write(film)
            except Exception as fault:  # a full disk must not end the thread and all other films
                warnings.warn(f"RecordVideo: {film.name} is not written: {fault}", stacklevel=1)
            finally:
                with self._lock:
                    self._pending -= film.size
                self._queue.task_done()


def _write(film: _Film) -> None:
    folder = pathlib.Path(film.settings.folder)
    folder.mkdir(parents=True, exist_ok=True)
    ordered = film.shown
    grid = Grid(ordered[0].picture.shape[:2], 1, True)
    # A frame holds the reward of the step after it; the caption shows the sum of the rewards before it.
    totals = np.cumsum([0.0, *(frame.reward for frame in ordered[:-1])])
    pictures = (
        grid.frame(Moment(frame.picture[None], [frame.step], [total], np.zeros(1, bool)))
        for frame, total in zip(ordered, totals, strict=True)
    )
    # A repeated run keeps the films of the previous one.
    write_film(folder / f"{film.name}{film.settings.suffix}", pictures, film.settings.fps, rename=True)


RECORDER = Recorder()
