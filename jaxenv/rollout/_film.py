"""Films a policy in an environment, in a grid of lanes: an object that notebooks play, or a file."""

import base64
import dataclasses
import functools
import io
import pathlib
import warnings
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv._util.checks import check_bool, check_integer
from jaxenv.canvas import check_size
from jaxenv.canvas._films import check_path, write_film, write_gif
from jaxenv.canvas._grid import Grid, Moment, Part
from jaxenv.core.environment import Environment, check_environment
from jaxenv.core.timestep import TimeStep
from jaxenv.rollout._policy import Policy, PolicyLoop, random_policy
from jaxenv.tree import Tree

_MOST_SHOWN = 256  # frames in the output of a notebook
_MAX_STEPS = 1000  # of a film without a given length
_CHUNK = 32  # steps per call of the compiled function


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

    >>> Film(np.zeros((5, 48, 64, 3), np.uint8))
    Film(5 frames, 48 x 64 pixels, 30 fps)
    """

    frames: np.ndarray
    fps: int = 30
    parts: tuple[Part, ...] = ()

    def __post_init__(self) -> None:
        shape, dtype = np.shape(self.frames), getattr(self.frames, "dtype", None)
        if len(shape) != 4 or shape[-1] != 3 or not all(shape) or dtype != np.uint8:
            rule = "frames must be uint8 [T, H, W, 3] with at least one frame"
            raise ValueError(f"Film: {rule}, got {dtype}{list(shape)}")
        check_integer("Film", "fps", self.fps, 1)

    def save(self, path: str | pathlib.Path) -> pathlib.Path:
        """Writes the film and returns the path.

        The file is a ``.gif``, an ``.mp4`` (needs imageio-ffmpeg), or a ``.png``: a strip of eight moments, with a row
        for each lane that is shown.
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
    `jaxenv.record` takes the same arguments and writes an MP4 frame by frame.

    Args:
        env: an environment that has pictures, without ``same_step`` restarts.
        policy: as in `jaxenv.unroll`; random by default.
        key: a typed key, or ``Key[B]``, that resets the lanes; ``jax.random.key(0)`` by default.
        num_steps: the number of steps; by default the first episode of every lane, which then stands still.
        max_steps: a limit without ``num_steps``; by default 1000, with a warning.
        size: height and width of a picture in pixels, or one number for both.
        fps: frames per second.
        captions: whether to show step and return.
        initial_memory: as in `jaxenv.unroll`.
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

    Pictures are drawn by ``env.render`` inside ``jit``; no display is needed. ``path`` is the file, of a kind that
    `Film.save` lists, in an existing folder; it is returned. All other arguments are as for `jaxenv.film`.

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


def frames_of(
    owner: str,
    env: Environment,
    policy: Policy | None,
    key: jax.Array | None,
    num_steps: int | None,
    max_steps: int | None,
    size: int | tuple[int, int],
    fps: int,
    captions: bool,
    initial_memory: Any,
) -> tuple[Iterator[np.ndarray], tuple[Part, ...]]:
    """Checks the arguments of `film` and `record`, named ``owner``.

    Returns the frames, uint8 ``[H, W, 3]``, and the part of a frame that shows each lane.
    """
    check_environment(owner, env)
    if env.autoreset == "same_step":
        rule = "autoreset must be 'next_step' or None: in 'same_step' a LAST row has the state of the next episode"
        raise ValueError(f"{owner}: {rule}, got {env}")
    check_integer(owner, "fps", fps, 1)
    if max_steps is not None:
        check_integer(owner, "max_steps", max_steps, 1)
    check_integer(owner, "num_steps", 0 if num_steps is None else num_steps, 0)
    check_bool(owner, "captions", captions)
    grid = Grid(check_size(owner, size), env.num_envs // env.lanes_per_game, captions)
    policy = random_policy(env) if policy is None else policy
    reel = Reel(owner, env, policy, grid.size, num_steps, max_steps)
    return map(grid.frame, reel.play(jax.random.key(0) if key is None else key, initial_memory)), grid.parts


@dataclasses.dataclass(eq=False)
class Reel:
    """Plays a policy and draws the frames of a film. Further plays, also with other weights, compile nothing."""

    owner: str  # the name of the calling function, which begins errors
    env: Environment
    policy: Policy
    size: tuple[int, int]
    num_steps: int | None = None
    max_steps: int | None = None

    def __post_init__(self) -> None:
        self._first = jax.jit(self._start)
        self._advance = jax.jit(
            lambda loop, carry: jax.lax.scan(functools.partial(self._step, loop), carry, None, _CHUNK)
        )

    def play(self, key: jax.Array, initial_memory: Any) -> Iterator[Moment]:
        """Yields the moments of a film as NumPy arrays, drawn in chunks of steps."""
        env, owner = self.env, self.owner
        start = env.reset(key)
        loop = PolicyLoop.create(owner, env, self.policy, start, None, initial_memory, None)
        shown = self._first(start[0])
        yield jax.device_get(moment := shown[-1])
        carry = ((*start, loop.memory), shown)
        remaining = (self.max_steps or _MAX_STEPS) if self.num_steps is None else self.num_steps
        while remaining:
            carry, chunk = self._advance((loop.words, loop.initial_memory), carry)
            chunk = jax.device_get(chunk)
            for t in range(min(_CHUNK, remaining)):
                moment = jax.tree.map(lambda x, t=t: x[t], chunk)
                yield moment
                remaining -= 1
                if self.num_steps is None and moment.over.all():
                    return
        if self.num_steps is None and self.max_steps is None:
            lanes = f"{np.sum(~moment.over)} of {moment.over.size} {'lanes' if env.lanes_per_game == 1 else 'games'}"
            warnings.warn(
                f"{owner}: the film ends after {_MAX_STEPS:,} steps, before the episodes of {lanes}: pass max_steps or "
                "num_steps",
                stacklevel=2,
            )

    def _moment(self, state: Tree, total: jax.Array, over: jax.Array) -> Moment:
        """The lanes of a game share a picture, the sum of their returns, and stand still when the last is over."""
        per_game = self.env.lanes_per_game
        picture, step = (x[::per_game] for x in (self.env.render(state, self.size), self.env.clock(state).step))
        total, over = (x.reshape(-1, per_game) for x in (total, over))
        return Moment(picture, step, total.sum(axis=1), over.all(axis=1))

    def _start(self, state: Tree) -> tuple[jax.Array, jax.Array, Moment]:
        none = jnp.zeros(self.env.clock(state).step.shape, jnp.float32)
        return none, none > 0, self._moment(state, none, none > 0)

    def _step(
        self, loop: Any, carry: tuple[tuple[Any, TimeStep, Any], tuple[jax.Array, jax.Array, Moment]], _: Any
    ) -> tuple[Any, ...]:
        of_loop, (total, over, shown) = carry
        env, (words, initial_memory) = self.env, loop
        starts = env.episode_starts(of_loop[1])
        of_loop, _ = PolicyLoop(env, self.policy, words, initial_memory, ()).step(of_loop)
        state, timestep, _ = of_loop
        reward = timestep.reward.reshape(timestep.reward.shape[0], -1).sum(axis=-1)
        # Agents that have left repeat FIRST rows until the game ends, and keep their return.
        begins = (starts | timestep.is_first()).reshape(-1, env.lanes_per_game).all(axis=1)
        new_total = jnp.where(jnp.repeat(begins, env.lanes_per_game), 0, total) + reward
        total = jnp.where(over, total, new_total)
        if self.num_steps is None or env.autoreset is None:
            over = over | timestep.is_last()
        shown = tree.where(shown.over, shown, self._moment(state, total, over))
        return (of_loop, (total, over, shown)), shown
