"""Films a policy in an environment: an object that notebooks play, or a file."""

import base64
import dataclasses
import io
import pathlib
from typing import Any

import jax
import numpy as np

from jaxenv._util.checks import check_integer
from jaxenv.canvas._film_files import check_path, write_film, write_gif
from jaxenv.core.environment import Environment
from jaxenv.rollout._frames import Part
from jaxenv.rollout._frames import frames as frames_of
from jaxenv.rollout._policy import Policy

_MOST_SHOWN = 256  # frames in the output of a notebook


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Film:
    """The frames of a film. A notebook plays them.

    The output is an animated picture, which loads nothing and works in JupyterLab, VS Code and exported pages. It holds
    at most 256 frames; a longer film shows every second, third, ... frame, at the same speed. `save` writes all
    of them.

    Attributes:
        frames: uint8 ``[T, H, W, 3]``.
        fps: frames per second. Of more than 50 a GIF leaves some out and keeps the speed.
        parts: the rows and columns of a frame that show each lane, for `save` as a strip; ``()`` for the whole frame.

    Raises:
        ValueError: for frames of another shape or dtype, none of them, or ``fps`` below 1.

    >>> Film(np.zeros((5, 48, 64, 3), np.uint8))
    Film(5 frames, 48 x 64 pixels, 30 fps)
    """

    frames: np.ndarray
    fps: int = 30
    parts: tuple[Part, ...] = ()

    def __post_init__(self) -> None:
        shape, dtype = np.shape(self.frames), getattr(self.frames, "dtype", None)
        if len(shape) != 4 or shape[-1] != 3 or not all(shape) or dtype != np.uint8:
            raise ValueError(
                f"Film: frames must be uint8 [T, H, W, 3] with at least one frame, got {dtype}{list(shape)}"
            )
        check_integer("Film", "fps", self.fps, 1)

    def save(self, path: str | pathlib.Path) -> pathlib.Path:
        """Writes the film and returns the path.

        Args:
            path: the file: ``.gif``, ``.mp4`` (needs imageio-ffmpeg), or ``.png`` for a strip of eight moments,
                with a row for each lane that is shown.

        Raises:
            ValueError: for another kind of file, or a folder that does not exist.
            ImportError: if the library that writes the file is not installed.
        """
        path = check_path("Film", path)
        write_film(path, self.frames, self.fps, self.parts)
        return path

    def __len__(self) -> int:
        return len(self.frames)

    def __repr__(self) -> str:
        count, height, width, _ = self.frames.shape
        return f"Film({count} frame{'s' * (count > 1)}, {height} x {width} pixels, {self.fps} fps)"

    def _repr_html_(self) -> str:
        file, stride = io.BytesIO(), -(-len(self.frames) // _MOST_SHOWN)
        write_gif(file, self.frames[::stride], self.fps / stride)
        data = base64.b64encode(file.getvalue()).decode()
        return f'<img alt="film" style="max-width:100%" src="data:image/gif;base64,{data}">'


def film(
    env: Environment,
    policy: Policy | None = None,
    *,
    key: jax.Array | None = None,
    num_steps: int | None = None,
    max_steps: int | None = None,
    size: int | tuple[int, int] = 256,
    fps: int = 30,
    captions: bool = True,
    initial_memory: Any = (),
) -> Film:
    """Plays a policy and returns a film of all lanes ``[B]``, with the step and the return of each.

    In a notebook, ``jaxenv.film(env, policy)`` as the last line of a cell shows it. All frames are held in memory;
    `jaxenv.record` takes the same arguments, which it describes, and writes an MP4 frame by frame.

    Raises:
        ValueError: for an environment without pictures or with ``same_step`` restarts, or a number out of range.
    """
    frames, parts = frames_of("film", env, policy, key, num_steps, max_steps, size, fps, captions, initial_memory)
    return Film(np.stack(list(frames)), fps, parts)


def record(
    env: Environment,
    policy: Policy | None = None,
    path: str | pathlib.Path = "rollout.gif",
    *,
    key: jax.Array | None = None,
    num_steps: int | None = None,
    max_steps: int | None = None,
    size: int | tuple[int, int] = 256,
    fps: int = 30,
    captions: bool = True,
    initial_memory: Any = (),
) -> pathlib.Path:
    """Plays a policy and writes a film of all lanes ``[B]``, with the step and the return of each.

    Pictures are drawn by ``env.render`` inside ``jit``; no display is needed. ``path`` is the file: ``.gif``, ``.mp4``
    (needs imageio-ffmpeg), or ``.png`` for a strip of eight moments, with a row for each lane that is shown. All other
    arguments are as for `jaxenv.film`. Of more than 50 frames per second a GIF leaves some out and keeps the speed.

    Returns:
        The path of the file.

    Raises:
        ValueError: as `jaxenv.film`, and for another kind of file or a folder that does not exist.
        ImportError: if the library that writes the file is not installed.

    >>> import tempfile, jaxenv
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> env = jaxenv.make("CartPole-v1", num_envs=2)
    >>> record(env, path=folder / "random.gif", size=32, max_steps=8).name
    'random.gif'
    """
    path = check_path("record", path)
    frames, parts = frames_of("record", env, policy, key, num_steps, max_steps, size, fps, captions, initial_memory)
    write_film(path, frames, fps, parts)
    return path
