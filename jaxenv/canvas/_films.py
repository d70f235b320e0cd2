"""Collects films that compiled code sends frame by frame, and writes them in a thread.

Frames may arrive in any order and in any thread, since callbacks are not ordered: each carries its lane, episode and
step. A film is complete once it has its last frame and all frames before it. After no-ops, the first frame belongs to a
later step; that the film is complete follows only from the lane's next episode.
"""

import atexit
import dataclasses
import pathlib
import queue
import threading
import warnings
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxenv.canvas._film_files import write_film
from jaxenv.canvas._grid import Grid, Moment

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
