"""Films of a policy in an environment: GIF, MP4, or a strip of pictures."""

import itertools
import math
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv._checks import check_integer
from jaxenv._library import import_library
from jaxenv.canvas import INK, PAPER, check_size, text_width, write
from jaxenv.environment import Environment, check_environment
from jaxenv.rollout._policy import random_policy
from jaxenv.rollout._policy_loop import PolicyLoop

FORMATS = (".gif", ".mp4", ".png")
_CHUNK = 32  # steps per call of the compiled function
_GAP = 6  # pixels between lanes
_MOMENTS = 8  # pictures of a strip


def record(
    env: Environment,
    policy: Callable | None = None,
    path: str | pathlib.Path = "rollout.gif",
    *,
    key: jax.Array | None = None,
    num_steps: int | None = None,
    max_steps: int = 1000,
    size: int | tuple[int, int] = 256,
    fps: int = 30,
    captions: bool = True,
    initial_memory: Any = (),
) -> pathlib.Path:
    """Plays a policy and writes a film of all lanes ``[B]``, with the step and the return of each.

    Pictures are drawn by ``env.render`` inside ``jit``; no display is needed.

    Args:
        env: an environment that has pictures. Its ``num_envs`` lanes are shown together.
        policy: as in `jaxenv.unroll`; random actions by default.
        path: the file: ``.gif``, ``.mp4`` (needs imageio-ffmpeg), or ``.png`` for a strip of eight moments.
        key: the key of ``env.reset``; ``jax.random.key(0)`` by default.
        num_steps: the number of steps, with all episodes that begin in them. By default the first episode of every lane
            is shown: a lane whose episode has ended stands still until the last one ends.
        max_steps: a limit where ``num_steps`` is not given.
        size: height and width of the picture of a lane in pixels, or one number for both.
        fps: steps per second; a GIF shows at most 50.
        captions: whether to write step and return below the picture of each lane.
        initial_memory: as in `jaxenv.unroll`.

    Returns:
        The path of the file.

    Raises:
        ValueError: for an environment without pictures, another kind of file, or a number out of range.
        ImportError: if the library that writes the file is not installed.

    >>> import tempfile, jaxenv
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> env = jaxenv.make("CartPole-v1", num_envs=2)
    >>> record(env, path=folder / "random.gif", size=32, max_steps=8).name
    'random.gif'
    """
    check_environment("record", env)
    path = pathlib.Path(path)
    if path.suffix not in FORMATS:
        raise ValueError(f"record: path must end in {', '.join(FORMATS[:-1])} or {FORMATS[-1]}, got {path.name!r}")
    for name, value in (("fps", fps), ("max_steps", max_steps), ("num_steps", num_steps)):
        if value is not None:
            check_integer("record", name, value, 1)
    lanes = _Lanes(check_size("record", size), env.num_envs, captions)
    policy = random_policy(env) if policy is None else policy
    moments = _moments(env, policy, key, num_steps, max_steps, lanes.size, initial_memory)
    _WRITERS[path.suffix](path, map(lanes.frame, moments), fps)
    return path


# --- what is shown ----------------------------------------------------------------------------------------------------


@tree.struct
class Moment:
    """What a frame shows of every lane.

    Attributes:
        picture: uint8 ``[B, H, W, 3]``.
        step: int32 ``[B]``, the step of the episode.
        total: float32 ``[B]``, the sum of its rewards so far; of all their components for vector rewards.
        over: bool ``[B]``, lanes that stand still.
    """

    picture: jax.Array
    step: jax.Array
    total: jax.Array
    over: jax.Array


def _moments(
    env: Environment,
    policy: Callable,
    key: jax.Array | None,
    num_steps: int | None,
    max_steps: int,
    size: tuple[int, int],
    initial_memory: Any,
) -> Iterator[Moment]:
    """The moments of a film as NumPy arrays, drawn in chunks of steps."""
    start = jax.jit(env.reset)(jax.random.key(0) if key is None else key)
    loop = PolicyLoop.create("record", env, policy, start, None, initial_memory, None)

    def first(state):
        none = jnp.zeros(env.clock(state).step.shape, jnp.float32)
        return Moment(env.render(state, size), env.clock(state).step, none, none > 0)

    def step(carry, _):
        of_loop, shown = carry
        starts = env.starts(of_loop[1])
        of_loop, _ = loop.step(of_loop)
        state, timestep, _ = of_loop
        reward = timestep.reward.reshape(timestep.reward.shape[0], -1).sum(axis=-1)
        total = jnp.where(starts | timestep.is_first(), 0, shown.total) + reward
        new = Moment(env.render(state, size), env.clock(state).step, total, shown.over)
        if num_steps is None:
            new = tree.rebuild(tree.where(shown.over, shown, new), over=shown.over | timestep.is_last())
        return (of_loop, new), new

    moment = jax.jit(first)(start[0])
    yield jax.device_get(moment)
    carry = ((*start, loop.memory), moment)
    advance = jax.jit(lambda carry: jax.lax.scan(step, carry, None, length=_CHUNK))
    remaining = max_steps if num_steps is None else num_steps
    while remaining:
        carry, chunk = advance(carry)
        chunk = jax.device_get(chunk)
        for t in range(min(_CHUNK, remaining)):
            moment = jax.tree.map(lambda x, t=t: x[t], chunk)
            yield moment
            remaining -= 1
            if moment.over.all():
                return


class _Lanes:
    """Puts the pictures of all lanes and their captions side by side."""

    def __init__(self, size: tuple[int, int], count: int, captions: bool):
        self.size = size
        height, width = size
        self._columns = math.ceil(math.sqrt(count * height / width))
        self._letter = max(min(height // 16, round(width / 17)), 5) if captions else 0
        self._cell = (height + (2 * self._letter if captions else 0), width)
        self._grid = (math.ceil(count / self._columns), self._columns)

    def frame(self, moment: Moment) -> np.ndarray:
        """The frame of a moment, uint8 ``[H, W, 3]`` with an even height and width, as video codecs want."""
        (height, width), (rows, columns) = self._cell, self._grid
        shape = (rows * (height + _GAP) - _GAP, columns * (width + _GAP) - _GAP)
        frame = np.empty((*(n + n % 2 for n in shape), 3), np.uint8)
        frame[:] = np.round(PAPER * 255).astype(np.uint8)
        for lane, picture in enumerate(moment.picture):
            top, left = lane // columns * (height + _GAP), lane % columns * (width + _GAP)
            frame[top : top + self.size[0], left : left + width] = picture
            if self._letter:
                self._caption(frame, moment, lane, top + self.size[0] + self._letter // 2, left)
        return frame

    def _caption(self, frame: np.ndarray, moment: Moment, lane: int, top: int, left: int) -> None:
        margin = self._letter // 2
        step, total = f"{moment.step[lane]}", f"{moment.total[lane]:.4g}"
        right = left + self._cell[1] - margin - text_width(total, self._letter)
        write(frame, step, left + margin, top, self._letter, INK)
        write(frame, total, right, top, self._letter, INK)


# --- files ------------------------------------------------------------------------------------------------------------


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
    gap = np.broadcast_to(np.round(PAPER * 255).astype(np.uint8), (every[0].shape[0], _GAP, 3))
    parts = [part for i in chosen for part in (gap, every[i])][1:]
    image.fromarray(np.concatenate(parts, axis=1)).save(path)


_WRITERS = {".gif": _write_gif, ".mp4": _write_mp4, ".png": _write_strip}
