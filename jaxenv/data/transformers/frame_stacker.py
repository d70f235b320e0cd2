"""Stacks the latest observations but stores each once."""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv._util.checks import check_integer, is_concrete, is_integer
from jaxenv.core.timestep import StepType, TimeStep
from jaxenv.data.transformers.transformer import Transformer, with_timestep
from jaxenv.specs import field_paths, map_marked, select
from jaxenv.tree import Tree
from jaxenv.wrappers.observation.memory import filled, pushed, repeated


@tree.struct
class Frames:
    """State of `FrameStacker`."""

    frames: Any  # the stacks in the structure of the observation, leaves [B, ...]; () for parts not stacked
    fresh: jax.Array  # bool[B], lanes whose next row starts a stack


@dataclasses.dataclass(frozen=True)
class FrameStacker(Transformer):
    """Shows the last ``num`` observations as one, the oldest first. Stored rows hold one observation each.

    In a rollout, the state holds the stack of each lane; an episode starts with its first observation repeated. On
    replay, the ``num - 1`` rows before a window are read from the buffer. The first observation of an episode, or the
    oldest one stored, is repeated there too, so that policy and learner see the same stacks. Dtypes do not change.

    The buffer takes ``num`` times less memory than with `jaxenv.wrappers.FrameStack`, at the cost of ``num - 1`` more
    reads per window. For ``same_step`` mode use that wrapper, inside ``AutoReset``.

    Args:
        num: number of observations, at least 1.
        axis: the axis of one lane's observation to concatenate along, counted from the end if negative; ``None`` stacks
            along a new leading axis. Observations without axes are always stacked to ``(num,)``.
        fields: dotted paths of the parts of the observation to stack; the others do not change. ``None`` stacks all.
            Goals that `Hindsight` relabels must not be stacked.

    The buffer needs ``ignore_earliest`` of at least ``num - 1``. If the rows before a window were overwritten since it
    was sampled, this raises a ``ValueError`` outside jitted code, unless the window now starts at the oldest row
    stored; jitted code stacks the oldest rows left.

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
    fields: str | tuple[str, ...] | None = None

    tier: ClassVar[int] = 2
    reason: ClassVar[str] = (
        "it reads the raw observations before a window from the buffer, so nothing may have changed those of the window"
    )

    def check(self) -> None:
        check_integer("FrameStacker", "num", self.num, 1)
        if self.axis is not None and not is_integer(self.axis):
            raise ValueError(f"FrameStacker: axis must be None or an integer, got {self.axis!r}")
        field_paths("FrameStacker", self.fields)

    def init(self, timestep: TimeStep, key: jax.Array | None = None) -> Frames:
        marks = self._stacked(timestep)
        fill = lambda x: filled(x, self.num, self.axis)  # noqa: E731
        frames = jax.eval_shape(lambda o: map_marked(marks, fill, o, otherwise=lambda _: ()), timestep.observation)
        return Frames(tree.zeros(frames), jnp.ones(timestep.step_type.shape, bool))

    def transform_timestep(self, state: Frames, timestep: TimeStep) -> tuple[Tree, TimeStep]:
        marks, observation = self._stacked(timestep), timestep.observation
        fresh = state.fresh | timestep.is_first()

        def push(x: jax.Array, frames: jax.Array) -> Any:
            return tree.where(fresh, filled(x, self.num, self.axis), pushed(frames, x, self.axis))

        frames = map_marked(marks, push, observation, state.frames, otherwise=lambda *_: ())
        # The copies serve eager callers that donate the state; compiled code removes them.
        stacked = map_marked(marks, lambda x, stack: jnp.copy(stack), observation, frames)
        return Frames(frames, jnp.zeros_like(fresh)), dataclasses.replace(timestep, observation=stacked)

    def transform_batch(self, state: Tree, batch: Any, replay: Any = None, stored: Any = None) -> Any:
        if replay is None or stored is None:
            raise ValueError("FrameStacker: pass replay and its state, to read the rows before the windows")
        if replay.ignore_earliest < self.num - 1:
            raise ValueError(
                f"FrameStacker: the buffer's ignore_earliest must be at least num - 1 = {self.num - 1}, the rows that "
                f"are read before a window, got {replay.ignore_earliest}"
            )
        timestep = batch.experience.timestep
        marks = self._stacked(timestep, outer=2)
        oldest = jnp.broadcast_to(replay.earliest(stored), replay.num_envs)[batch.env_id]
        position = batch.position[:, None] + np.arange(1 - self.num, 0, dtype=np.int32)[None]
        # A window that starts at the oldest row, as in `gather_all`, has no rows before it, and in a buffer that was
        # never overwritten other windows may have too few. The others had these rows when they were sampled: `get`
        # raises if they have been overwritten.
        may_lack_rows = (batch.position == oldest) | (oldest == 0)
        position = jnp.where(may_lack_rows[:, None], jnp.maximum(position, oldest[:, None]), position)
        env_id = jnp.broadcast_to(batch.env_id[:, None], position.shape)
        if is_concrete(position) and (lacks := np.flatnonzero(np.asarray(position[:, 0] < oldest))).size:
            which = f"the window at position {batch.position[lacks[0]]} of lane {batch.env_id[lacks[0]]}"
            rule = f"needs the {self.num - 1} rows before it, the oldest one stored is {oldest[lacks[0]]}"
            raise ValueError(f"FrameStacker: {which} {rule}")

        def read(path: str) -> jax.Array:
            return replay.get(stored, path, env_id, position)

        step_type = jnp.concatenate([read("timestep.step_type"), timestep.step_type], axis=1)
        frame_rows = _frame_rows(step_type == np.int32(StepType.FIRST), self.num)
        window = np.arange(len(step_type), dtype=np.int32)[:, None, None]

        def stack(path: tuple[Any, ...], mark: bool, x: jax.Array) -> jax.Array:
            if not mark:
                return x
            name = tree.path_name(path)
            earlier = read(f"timestep.observation.{name}" if name else "timestep.observation")
            if (earlier.shape[2:], earlier.dtype) != (x.shape[2:], x.dtype):
                raise ValueError(
                    f"FrameStacker: {name or 'the observation'} is {x.dtype}{list(x.shape[2:])} in the windows and "
                    f"{earlier.dtype}{list(earlier.shape[2:])} in the buffer: stack it before it is changed"
                )
            return _join_frames(
                jnp.concatenate([earlier, x], axis=1).at[window, frame_rows].get(mode="clip"), self.axis
            )

        stacked = jax.tree_util.tree_map_with_path(stack, marks, timestep.observation)
        return state, with_timestep(batch, dataclasses.replace(timestep, observation=stacked))

    def transform_spec(self, spec: TimeStep) -> TimeStep:
        marks = self._stacked(spec, outer=0)
        stacked = map_marked(marks, lambda s: repeated(s, self.num, self.axis), spec.observation)
        return dataclasses.replace(spec, observation=stacked)

    def _stacked(self, timestep: TimeStep, outer: int = 1) -> Any:
        """Marks the leaves of the observation that are stacked; rows lead with ``outer`` axes."""
        if "final_observation" in timestep.env_info:
            raise ValueError(
                "FrameStacker: the rows hold env_info['final_observation']: in same_step mode no row shows the last "
                "stack of an episode. Use wrappers.FrameStack inside AutoReset"
            )
        if not jax.tree.leaves(timestep.observation):
            raise ValueError("FrameStacker: the rows hold no observation, keep it in unroll(fields=...)")
        marks = select("FrameStacker", timestep.observation, self.fields)
        for mark, x in zip(jax.tree.leaves(marks), jax.tree.leaves(timestep.observation), strict=True):
            rank = len(x.shape) - outer
            if mark and self.axis is not None and rank and not -rank <= self.axis < rank:
                rule = f"axis must be one of the {rank} of {x.dtype}{list(x.shape[outer:])}"
                raise ValueError(f"FrameStacker: {rule}, got {self.axis}")
        return marks


def _frame_rows(first: jax.Array, num: int) -> jax.Array:
    """Returns the rows of ``[N, num - 1 + L]`` that each row of a window stacks: int32 ``[N, L, num]``.

    A stack never reaches back beyond the first row of its episode, which ``first``, bool ``[N, num - 1 + L]``, marks.
    """
    row = np.arange(first.shape[1], dtype=np.int32)[None]
    begin = jax.lax.cummax(jnp.where(first, row, np.int32(0)), axis=1)
    stack = row[:, num - 1 :, None] + np.arange(1 - num, 1, dtype=np.int32)[None, None]
    return jnp.maximum(stack, begin[:, num - 1 :, None])


def _join_frames(frames: jax.Array, axis: int | None) -> jax.Array:
    """Joins stacks ``[N, L, num, ...]`` in the layout of `filled`."""
    rank = frames.ndim - 3
    if axis is None or rank == 0:
        return frames
    at = 2 + axis % rank
    frames = jnp.moveaxis(frames, 2, at)
    return frames.reshape(*frames.shape[:at], frames.shape[at] * frames.shape[at + 1], *frames.shape[at + 2 :])
