"""Stack the latest observations."""

import dataclasses
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import specs, tree
from jaxenv.core import Facts, LaneWrapper, TimeStep
from jaxenv.core.bases.lane_wrapper import LaneState
from jaxenv.random import Stream
from jaxenv.tree import Tree


class FrameStack(LaneWrapper):
    """Shows the last ``num`` observations as one, oldest first.

    The frames, ``[B, num, ...]`` or concatenated, are both the wrapper's state and the observation. Dtypes do not
    change, and bounds are repeated. Every step copies the frames, and stored rows take ``num`` times the memory of the
    inner observation; `jaxenv.data.transformers.FrameStacker` stores each frame once. Owns ``observation``.

    Args:
        env: any environment without a ``same_step`` ``AutoReset``.
        num: number of observations, at least 1.
        axis: ``None`` stacks along a new leading axis of one lane's observation; a number concatenates along that axis,
            counted from the end if negative. Observations of shape ``()`` are always stacked to ``(num,)``.
        padding: observations before the first: ``"reset"`` repeats the first, ``"zero"`` uses zeros.
        fields: dotted paths of the parts to stack; other parts pass through. ``None`` stacks all.

    >>> import jax, jaxenv
    >>> env = jaxenv.wrappers.FrameStack(jaxenv.testing.Chain(num_envs=1), 3)
    >>> state, timestep = env.reset(jax.random.key(0))
    >>> state, timestep = env.step(state, np.array([1]))
    >>> timestep.observation.tolist()
    [[0, 0, 1]]
    """

    num: int = tree.static(default=4, low=1)
    axis: int | None = tree.static(default=None)
    padding: Literal["reset", "zero"] = tree.static(default="reset")
    fields: Any = tree.static(default=None)

    owns: ClassVar[frozenset[str]] = frozenset({"observation"})
    in_evaluation = "kept"
    noop_kwargs: ClassVar[dict[str, Any]] = {"num": 1}

    def check(self) -> None:
        spec = self.env.observation_spec()
        for stack, leaf in zip(jax.tree.leaves(self._marks(spec)), jax.tree.leaves(spec), strict=True):
            if stack and self.axis is not None and leaf.ndim and not -leaf.ndim <= self.axis < leaf.ndim:
                raise ValueError(f"FrameStack: axis must be one of the {leaf.ndim} axes of {leaf}, got {self.axis}")

    def _marks(self, observation: Tree) -> Tree:
        return specs.select("FrameStack", observation, self.fields)

    def facts_of(self, inner: Facts) -> Facts:
        # The state holds the shown frames, so `AutoReset` can read the observation from it.
        holds_all = all(jax.tree.leaves(self._marks(self.env.observation_spec())))
        leads = inner.agents_lead and self.axis not in (None, 0)
        return dataclasses.replace(inner, observes_state=inner.observes_state or holds_all, agents_lead=leads)

    def observation_of(self, state: LaneState) -> Tree:
        stacked = self._marks(self.env.observation_spec())
        if all(jax.tree.leaves(stacked)):
            return state.own
        shown = self.env.observation_of(self.inner(state))
        return specs.map_marked(stacked, lambda x, frames: frames, shown, state.own)

    def observation_spec(self) -> Tree:
        spec, zeros = self.env.observation_spec(), self.padding == "zero"
        return specs.map_marked(self._marks(spec), lambda s: repeated(s, self.num, self.axis, zeros), spec)

    def init(self, timestep: TimeStep, stream: Stream) -> Tree:
        def fill(x: jax.Array) -> Any:
            return filled(jnp.zeros_like(x) if self.padding == "zero" else x, self.num, self.axis)

        observation = timestep.observation
        return specs.map_marked(self._marks(observation), fill, observation, otherwise=lambda _: ())

    def after(self, own: Tree, timestep: TimeStep, stream: Stream) -> tuple[Tree, TimeStep]:
        stacked, observation = self._marks(timestep.observation), timestep.observation
        push = lambda x, frames: pushed(frames, x, self.axis)  # noqa: E731
        own = specs.map_marked(stacked, push, observation, own, otherwise=lambda *_: ())
        # The copies serve eager callers who donate the state. Compiled code has none.
        row = specs.map_marked(stacked, lambda x, frames: jnp.copy(frames), observation, own)
        return own, dataclasses.replace(timestep, observation=row)


def filled(x: jax.Array, num: int, axis: int | None = None) -> jax.Array:
    """Stacks ``num`` copies of ``x`` (``[B, ...]``), along a new axis or along ``axis`` of one lane."""
    frame, at = _frame(x, axis)
    return jnp.concatenate([frame] * num, at)


def pushed(frames: jax.Array, x: jax.Array, axis: int | None = None) -> jax.Array:
    """Drops the oldest frame of a stack and appends ``x`` as the newest."""
    frame, at = _frame(x, axis)
    return jnp.concatenate([jax.lax.slice_in_dim(frames, frame.shape[at], None, axis=at), frame], at)


def repeated(spec: specs.Array, num: int, axis: int | None = None, zeros: bool = False) -> specs.Array:
    """Returns the spec of one lane's stack. With ``zeros`` the older frames may be zero."""
    new = axis is None or spec.ndim == 0
    join: Any = np.stack if new else lambda bounds: np.concatenate(bounds, axis)
    shape = join([np.broadcast_to(np.int8(0), spec.shape)] * num).shape
    if not isinstance(spec, specs.Bounded):
        return spec.replace(shape=shape)
    older = with_zero(spec) if zeros else spec
    low, high = (join([getattr(older, b)] * (num - 1) + [getattr(spec, b)]) for b in ("minimum", "maximum"))
    return spec.replace(shape=shape, minimum=low, maximum=high)


def with_zero(spec: specs.Array) -> specs.Array:
    """Widens the bounds of a spec to include zero."""
    if not isinstance(spec, specs.Bounded):
        return spec
    zero = np.zeros((), spec.dtype)
    return spec.replace(minimum=np.minimum(spec.minimum, zero), maximum=np.maximum(spec.maximum, zero))


def _frame(x: jax.Array, axis: int | None) -> tuple[jax.Array, int]:
    """Returns ``x`` as one frame of a stack, and the axis of the batch along which frames are joined."""
    if axis is None or x.ndim == 1:
        return x[:, None], 1
    return x, axis + 1 if axis >= 0 else axis + x.ndim
