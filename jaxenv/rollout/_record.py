"""Films a policy in an environment and writes a file: GIF, MP4, or a strip of pictures."""

import pathlib
from typing import Any

import jax

from jaxenv.canvas._film_files import check_path, write_film
from jaxenv.core.environment import Environment
from jaxenv.rollout._frames import frames as frames_of
from jaxenv.rollout._policy import Policy


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
    arguments are those of `jaxenv.film`. Of more than 50 frames per second a GIF leaves some out and keeps the speed.

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
