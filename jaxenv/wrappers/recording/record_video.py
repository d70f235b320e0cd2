"""Film episodes of one lane while compiled code runs."""

import functools
import os
import warnings
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv.canvas import _films, check_size
from jaxenv.core import Environment, TimeStep, Wrapper, check_callable, check_folder
from jaxenv.core._merging import merging_leaves
from jaxenv.tree import Tree

# XLA:CPU copies larger arguments of callbacks in its thread pool, where they may wait for the program that called.
_LARGEST_PART = 96 * 1024


class RecordVideo(Wrapper):
    """Films episodes of one lane from inside a training run, which neither stops nor waits.

    The episodes are chosen by their numbers. On a step of a chosen episode the picture of that one lane is drawn and
    sent to the host; on all other steps nothing is drawn or sent. A background thread writes the films. ``flush`` waits
    for it. The end of the process waits too, and also writes the episodes that have not ended.

    Files are named ``lane-L-episode-E.gif``, and ``batch-N-lane-L-episode-E.gif`` under ``jax.vmap`` over N batches,
    such as the seeds of a run. An existing file is kept: the next one of the same name gets a number. A frame shows
    step and return, with the rewards of the environment inside.

    A `reset` ends the film of the episode in progress. Evaluate on another environment, without the wrapper or with
    another folder, since lane, episode and step alone identify a frame. ``make(mode="eval")`` leaves the wrapper out:
    `jaxenv.record` films a policy.

    The wrapper has no state and owns no field. In a stack of `jaxenv.make` it stands inside ``AutoReset`` and outside
    the time limit. A program that is differentiated under ``jax.checkpoint`` may film an episode twice.

    Args:
        env: an environment that has a picture, without a ``same_step`` ``AutoReset``.
        folder: the folder of the films, created with the first one.
        every: film the episodes 0, N, 2N, ... of the lane.
        episode_trigger: an elementwise function of numbers of episodes (int32 ``[B]``, traced) that returns bool
            ``[B]``, such as ``lambda episode: episode % 100 == 50``. Without it and ``every``, the cubes 0, 1, 8, 27,
            ... up to 729 are filmed and then every 1000th, as in Gymnasium.
        lane: the number of the lane, an ``env_id``. Trainers that ``vmap`` over an environment of one lane
            (`jaxenv.interop`) have lanes that are all number 0; the first of them is filmed.
        size: height and width of the pictures in pixels, or one number for both.
        max_steps: a film ends after this step, if the episode does not.
        fps: steps per second.
        format: ``"gif"`` or ``"mp4"`` (needs imageio-ffmpeg).

    >>> import jax, jaxenv, pathlib, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> video = ("RecordVideo", {"folder": folder, "every": 2, "size": 32})
    >>> env = jaxenv.make("CartPole-v1", num_envs=8, wrappers=[video])
    >>> policy = jaxenv.rollout.random_policy(env)
    >>> unroll = jax.jit(lambda state, timestep: jaxenv.unroll(env, policy, state, timestep, 150))
    >>> _, trajectory = unroll(*env.reset(jax.random.key(0)))
    >>> jaxenv.wrappers.RecordVideo.flush()
    >>> sorted(path.name for path in pathlib.Path(folder).iterdir())[:2]
    ['lane-0-episode-0.gif', 'lane-0-episode-2.gif']
    """

    folder: str = tree.static()
    every: int | None = tree.static(default=None, low=1)
    episode_trigger: Any = tree.static(default=None)
    lane: int = tree.static(default=0, low=0)
    size: Any = tree.static(default=(128, 128))
    max_steps: int = tree.static(default=1000, low=1)
    fps: int = tree.static(default=30, low=1)
    format: Literal["gif", "mp4"] = tree.static(default="gif")

    owns: ClassVar[frozenset[str]] = frozenset()
    in_evaluation = "left_out"
    place = "sees_ends"
    opt_outs = {
        "no_callback": "pictures leave the compiled code by a callback",
        "sharding_invariant": "the picture of one lane is drawn of a batch that may be on several devices",
    }

    def convert(self) -> dict[str, Any]:
        folder = check_folder("RecordVideo", "folder", self.folder)
        return {"folder": os.fspath(folder), "size": check_size("RecordVideo", self.size)}

    def check(self) -> None:
        if self.every is not None and self.episode_trigger is not None:
            raise ValueError("RecordVideo: give every or episode_trigger, not both")
        if self.episode_trigger is not None:
            check_callable("RecordVideo", "episode_trigger", self.episode_trigger)
        if self.lane >= self.num_envs > 1:
            lanes = f"the lanes of the environment are 0 to {self.num_envs - 1} unless reset is given env_id"
            warnings.warn(f"RecordVideo: lane {self.lane} may not exist: {lanes}", stacklevel=4)
        if self.autoreset == "same_step":
            fault = "after a LAST row of a same_step AutoReset the state belongs to the next episode"
            raise ValueError(f"RecordVideo: {fault}: put it inside AutoReset")

    @staticmethod
    def flush() -> None:
        """Waits until all films of this process whose episodes have ended are written."""
        _films.RECORDER.flush()

    def proceed(self, state: Tree, action: Tree) -> tuple[Tree, TimeStep]:
        before = state
        state, timestep = self.env.proceed(state, action)
        self._film(before, state, timestep)
        return state, timestep

    def _film(self, before: Any, after: Any, timestep: TimeStep) -> None:
        """Sends the pictures of the step if its episode is filmed."""
        row = (timestep.is_first(), timestep.is_last(), timestep.reward)
        leaves, structure = jax.tree.flatten(self.env)
        film = merging_leaves(functools.partial(self._film_batches, timestep.step_type.shape[0]), structure)
        film(*tree.detach((leaves, *row, before, after)))

    def _film_batches(
        self, lanes: int, env: Environment, is_first: Any, is_last: Any, reward: Any, before: Any, after: Any
    ) -> tuple[Any, ...]:
        """Sends pictures of one or, under ``vmap``, several batches of ``lanes`` lanes, in one branch."""

        def is_lane() -> jax.Array:
            return env.clock(before).env_id == np.int32(self.lane)

        def is_filmed() -> jax.Array:
            clock = env.clock(before)
            # A FIRST row is not a step: the LAST row showed the state before it.
            return self._is_chosen(clock.episode) & (clock.step < np.int32(self.max_steps)) & ~is_first

        def film_all() -> None:
            # Lanes that a trainer makes by `vmap` over one lane have the same number: the first one is filmed.
            batches = is_first.shape[0] // lanes
            within = jnp.argmax(is_lane().reshape(batches, lanes), axis=1).astype(jnp.int32)
            places = within + np.arange(batches, dtype=np.int32) * np.int32(lanes)
            filmed = is_lane() & is_filmed()
            send = functools.partial(self._send, batches, env, is_last, reward, before, after)

            def film(_: Any, place: jax.Array) -> tuple[None, None]:
                jax.lax.cond(filmed[place], lambda: send(place // np.int32(lanes), place), lambda: None)
                return None, None

            jax.lax.scan(film, None, places)

        # Work that the condition does not need stays inside the branch.
        jax.lax.cond(jnp.any(is_lane() & is_filmed()), film_all, lambda: None)
        return ()

    def _send(
        self, batches: int, env: Environment, is_last: Any, reward: Any, before: Any, after: Any, batch: Any, place: Any
    ) -> None:
        """Sends the picture before a step of the lane at ``place``, and the one after it if the episode ends."""
        clock, following = env.clock(before), env.clock(after).step[place]
        batch = batch if batches > 1 else np.int32(-1)
        where = {"batch": batch, "lane": clock.env_id[place], "episode": clock.episode[place], "following": following}
        settings = _films.Settings(self.folder, f".{self.format}", self.fps)
        rows = max(_LARGEST_PART // (3 * self.size[1]), 1)

        def send(state: Tree, **of_frame: Any) -> None:
            index = place[None]
            picture = env.take(index).picture_of(tree.gather(state, index), self.size)[0]
            parts = [picture[top : top + rows] for top in range(0, self.size[0], rows)]
            jax.debug.callback(functools.partial(_receive, settings), *parts, **where, **of_frame)

        is_cut = (following >= np.int32(self.max_steps)) & ~is_last[place]
        send(before, step=clock.step[place], reward=jnp.sum(reward[place]), last=is_cut)
        ending = {"step": following, "reward": np.float32(0), "last": np.bool_(True)}
        jax.lax.cond(is_last[place], lambda: send(after, **ending), lambda: None)

    def _is_chosen(self, episode: jax.Array) -> jax.Array:
        if self.episode_trigger is not None:
            chosen = jnp.asarray(self.episode_trigger(episode))
            if chosen.shape != episode.shape or chosen.dtype != bool:
                rule = f"episode_trigger must return bool{list(episode.shape)}, one per lane"
                raise ValueError(f"RecordVideo: {rule}, got {chosen.dtype}{list(chosen.shape)}")
            return chosen
        if self.every is not None:
            return episode % np.int32(self.every) == 0
        cubes = (episode == np.int32(n**3) for n in range(10))
        return functools.reduce(jnp.logical_or, cubes, (episode >= 1000) & (episode % np.int32(1000) == 0))


def _receive(settings: Any, *parts: Any, **numbers: Any) -> None:
    picture = np.concatenate([np.array(part) for part in parts])
    numbers = {name: np.asarray(x).item() for name, x in numbers.items()}
    _films.RECORDER.receive(settings, _films.Frame(**numbers, picture=picture))
