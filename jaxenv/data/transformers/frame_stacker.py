"""Show the last observations together, and store each of them once."""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv._fields import select
from jaxenv.data.transformers.base import Transformer, check_fields, with_timestep
from jaxenv.timestep import StepType
from jaxenv.wrappers.frame_stack import filled, pushed, repeated


@tree.struct
class Frames:
    """State of `FrameStacker`.

    Attributes:
        frames: the stack in the structure of the observation, leaves ``[B, ...]``; ``()`` for parts not stacked.
        fresh: bool ``[B]``, lanes whose next row begins a stack.
    """

    frames: Any
    fresh: jax.Array


@dataclasses.dataclass(frozen=True)
class FrameStacker(Transformer):
    """Shows the last ``num`` observations as one, the oldest first, while rows hold one observation each.

    As ALF's ``FrameStacker``. In a rollout the lanes' stacks are the state, and a stack begins with its first
    observation repeated. On replay the ``num - 1`` rows before a window are read from the buffer, and none from before
    the episode's begin or the oldest row stored: there the first observation is repeated likewise, so that policy and
    learner see the same. Dtypes stay as they are.

    The buffer holds ``num`` times less than behind `jaxenv.wrappers.FrameStack`, for ``num - 1`` reads more for each
    window. That wrapper is the one to take in ``same_step`` streams, inside ``AutoReset``.

    Args:
        num: how many observations, at least 1.
        axis: a number concatenates along that axis of one lane's observation, counted from the end if negative;
            ``None`` stacks along a new axis in front of it. Observations without axes are stacked to ``(num,)`` anyway.
        fields: dotted paths of the parts of the observation to stack, the others stay as they are; ``None`` stacks
            all. Leave goals out that `Hindsight` relabels.

    Raises:
        ValueError: for a ``num`` below 1, an ``axis`` or a field that is not there, rows of a ``same_step`` stream, a
            buffer whose windows may begin at its oldest rows (``ignore_earliest`` below ``num - 1``), or windows of
            which something has changed what is to be stacked. Outside jitted code also if the buffer has written over
            the rows before a window since it was sampled, unless it now begins at the oldest row stored; in jitted code
            the oldest rows left are stacked.

    >>> import jax, jaxenv
    >>> env = jaxenv.testing.Chain(num_envs=1)
    >>> state, timestep = env.reset(jax.random.key(0))
    >>> stacker = FrameStacker(3)
    >>> stack, row = stacker.transform_timestep(stacker.init(timestep), timestep)
    >>> stacker.transform_timestep(stack, env.step(state, np.array([1]))[1])[1].observation.tolist()
    [[0, 0, 1]]
    """

    num: int = 4
    axis: int | None = 0
    fields: tuple[str, ...] | None = None

    tier: ClassVar[int] = 2
    reason: ClassVar[str] = (
        "it reads the raw observations before a window from the buffer, so nothing may have changed those of the window"
    )

    def check(self):
        for name, least in (("num", 1), ("axis", None)):
            value = getattr(self, name)
            if (name, value) != ("axis", None) and type(value) is not int:
                raise ValueError(f"FrameStacker: {name} must be a whole number, got {value!r}")
            if least is not None and value < least:
                raise ValueError(f"FrameStacker: {name} must be at least {least}, got {value}")
        check_fields("FrameStacker", self.fields)

    def init(self, timestep, stream=None):
        marks = self._stacked(timestep)
        frames = jax.eval_shape(
            lambda observation: jax.tree.map(
                lambda mark, x: filled(x, self.num, self.axis) if mark else (), marks, observation
            ),
            timestep.observation,
        )
        return Frames(tree.zeros(frames), jnp.ones(timestep.step_type.shape, bool))

    def transform_timestep(self, state, timestep):
        marks, observation = self._stacked(timestep), timestep.observation
        fresh = state.fresh | timestep.is_first()

        def push(mark, x, frames):
            if not mark:
                return ()
            return tree.where(fresh, filled(x, self.num, self.axis), pushed(frames, x, self.axis))

        frames = jax.tree.map(push, marks, observation, state.frames)
        # Copies are for eager callers who donate the state; compiled code has none.
        shown = jax.tree.map(lambda mark, x, stack: jnp.copy(stack) if mark else x, marks, observation, frames)
        return Frames(frames, jnp.zeros_like(fresh)), dataclasses.replace(timestep, observation=shown)

    def transform_batch(self, state, batch, replay=None, stored=None):
        if replay is None or stored is None:
            raise ValueError("FrameStacker: it reads the rows before the windows, pass replay and its state")
        if replay.ignore_earliest < self.num - 1:
            raise ValueError(
                f"FrameStacker: the buffer's ignore_earliest must be at least num - 1 = {self.num - 1}, the rows that "
                f"are read before a window, got {replay.ignore_earliest}"
            )
        timestep = batch.experience.timestep
        marks = self._stacked(timestep, outer=2)
        oldest = jnp.broadcast_to(replay.earliest(stored), replay.num_envs)[batch.env_id]
        position = batch.position[:, None] + np.arange(1 - self.num, 0, dtype=np.int32)[None]
        # Only what begins at the oldest row of all, as a whole buffer does, may ask for rows that are gone. Others had
        # them when they were sampled: `get` refuses where it can.
        whole = (batch.position == oldest) | (oldest == 0)
        position = jnp.where(whole[:, None], jnp.maximum(position, oldest[:, None]), position)
        env_id = jnp.broadcast_to(batch.env_id[:, None], position.shape)

        def read(path):
            return replay.get(stored, path, env_id, position)

        step_type = jnp.concatenate([read("timestep.step_type"), timestep.step_type], axis=1)
        frame = _frames(step_type == np.int32(StepType.FIRST), self.num)

        def stack(path, mark, x):
            if not mark:
                return x
            name = tree.path_name(path)
            earlier = read(f"timestep.observation.{name}" if name else "timestep.observation")
            if (earlier.shape[2:], earlier.dtype) != (x.shape[2:], x.dtype):
                raise ValueError(
                    f"FrameStacker: {name or 'the observation'} is {x.dtype}{list(x.shape[2:])} in the windows and "
                    f"{earlier.dtype}{list(earlier.shape[2:])} in the buffer: it must come first to what it stacks"
                )
            return _joined(_rows(jnp.concatenate([earlier, x], axis=1), frame), self.axis)

        shown = jax.tree_util.tree_map_with_path(stack, marks, timestep.observation)
        return state, with_timestep(batch, dataclasses.replace(timestep, observation=shown))

    def transform_spec(self, spec):
        marks = self._stacked(spec, outer=0)
        shown = jax.tree.map(lambda mark, s: repeated(s, self.num, self.axis) if mark else s, marks, spec.observation)
        return dataclasses.replace(spec, observation=shown)

    def _stacked(self, timestep, outer=1):
        """Which leaves of the observation are stacked, of rows that lead with ``outer`` axes."""
        if "final_observation" in timestep.env_info:
            raise ValueError(
                "FrameStacker: the rows hold env_info['final_observation']: the LAST rows of a same_step stream show "
                "the next episode, and no row the last stack of this one. Take wrappers.FrameStack inside AutoReset"
            )
        if not jax.tree.leaves(timestep.observation):
            raise ValueError("FrameStacker: the rows hold no observation, keep it in unroll(fields=...)")
        marks = select("FrameStacker", timestep.observation, self.fields)
        for mark, x in zip(jax.tree.leaves(marks), jax.tree.leaves(timestep.observation), strict=True):
            rank = len(x.shape) - outer
            if mark and self.axis is not None and rank and not -rank <= self.axis < rank:
                raise ValueError(
                    f"FrameStacker: axis must be one of the {rank} of {x.dtype}{list(x.shape[outer:])}, got {self.axis}"
                )
        return marks


# --- stacks from windows ---------------------------------------------------------------------------------------------


def _frames(first: jax.Array, num: int) -> jax.Array:
    """Which of the rows ``[N, num - 1 + L]`` make the stacks of a window's L rows: int32 ``[N, L, num]``.

    None lies before the row that begins the episode, of those that ``first`` marks (bool ``[N, num - 1 + L]``).
    """
    row = np.arange(first.shape[1], dtype=np.int32)[None]
    begin = jax.lax.cummax(jnp.where(first, row, np.int32(0)), axis=1)
    stack = row[:, num - 1 :, None] + np.arange(1 - num, 1, dtype=np.int32)[None, None]
    return jnp.maximum(stack, begin[:, num - 1 :, None])


def _rows(x: jax.Array, row: jax.Array) -> jax.Array:
    """Rows ``[N, L, num]`` of every window's ``x`` (``[N, S, ...]``): ``[N, L, num, ...]``."""
    window = np.arange(x.shape[0], dtype=np.int32)[:, None, None]
    return x.at[window, row].get(mode="clip")


def _joined(frames: jax.Array, axis: int | None) -> jax.Array:
    """Stacks ``[N, L, num, ...]`` in the layout of `filled`."""
    rank = frames.ndim - 3
    if axis is None or rank == 0:
        return frames
    at = 2 + axis % rank
    frames = jnp.moveaxis(frames, 2, at)
    return frames.reshape(*frames.shape[:at], frames.shape[at] * frames.shape[at + 1], *frames.shape[at + 2 :])
