"""Wrappers that show what was before."""

import dataclasses
import functools
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import specs, tree
from jaxenv.core import Facts, LaneWrapper, TimeStep, clip_discrete, layers
from jaxenv.core.bases.stateful import LaneState
from jaxenv.random import Stream
from jaxenv.tree import Tree
from jaxenv.wrappers.episode.trials import Trials


class FrameStack(LaneWrapper):
    """Shows the last ``num`` observations as one, oldest first.

    The frames, ``[B, num, ...]`` or concatenated, are both the wrapper's state and the observation. Dtypes do not
    change, and bounds are repeated. Every step copies the frames, and stored rows take ``num`` times the memory of the
    inner observation; `jaxenv.data.transformers.FrameStacker` stores each frame once. Owns ``observation``.

    Args:
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
        observation = timestep.observation
        fill = functools.partial(filled, num=self.num, axis=self.axis, zeros=self.padding == "zero")
        return specs.map_marked(self._marks(observation), fill, observation, otherwise=lambda _: ())

    def after(self, own: Tree, timestep: TimeStep, stream: Stream) -> tuple[Tree, TimeStep]:
        stacked, observation = self._marks(timestep.observation), timestep.observation
        push = lambda x, frames: pushed(frames, x, self.axis)  # noqa: E731
        own = specs.map_marked(stacked, push, observation, own, otherwise=lambda *_: ())
        # The copies serve eager callers who donate the state. Compiled code has none.
        row = specs.map_marked(stacked, lambda x, frames: jnp.copy(frames), observation, own)
        return own, dataclasses.replace(timestep, observation=row)


def filled(x: jax.Array, num: int, axis: int | None = None, zeros: bool = False) -> jax.Array:
    """Stacks ``num`` copies of ``x`` (``[B, ...]``), or zeros, along a new axis or along ``axis`` of one lane."""
    frame, at = _frame(jnp.zeros_like(x) if zeros else x, axis)
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


class PreviousActionAndReward(LaneWrapper):
    """Shows ``{"observation", "prev_action", "prev_reward"}``: the action that led to the observation, and its reward.

    Row t holds o_t, a_{t-1} and r_t (float32 ``()``, or ``(R,)`` for a vector reward), zeros at FIRST. It shows the
    action that this wrapper receives, so it goes outside wrappers that change actions. Discrete actions are clipped to
    their bounds; continuous ones are shown as given, so their spec has no bounds. Around `Trials` it also shows
    ``"episode_end"``, whether an episode of the trial ended with the row: what RL2 (Duan et al., 2016) reads. Owns
    ``observation``.

    Args:
        action: show the action.
        reward: show the reward.

    >>> import jax, jaxenv
    >>> env = jaxenv.wrappers.PreviousActionAndReward(jaxenv.testing.Chain(2, num_envs=1))
    >>> state, timestep = env.reset(jax.random.key(0))
    >>> state, timestep = env.step(state, jax.numpy.array([1]))
    >>> {name: x.tolist() for name, x in timestep.observation.items()}
    {'observation': [1], 'prev_action': [1], 'prev_reward': [1.0]}
    """

    action: bool = tree.static(default=True)
    reward: bool = tree.static(default=True)

    owns: ClassVar[frozenset[str]] = frozenset({"observation"})
    in_evaluation = "kept"

    def check(self) -> None:
        if not (self.action or self.reward):
            raise ValueError("PreviousActionAndReward: action or reward must be True, got neither")

    @property
    def _in_trials(self) -> bool:
        return any(isinstance(layer, Trials) for layer in layers(self.env))

    @property
    def _of_agents(self) -> tuple[int, ...]:
        """The axis of agents that act at once, in the shape of an observation; none for one agent."""
        return (self.num_agents,) if self.num_agents > 1 and not self.turns else ()

    def observation_spec(self) -> Tree:
        shown = {"observation": self.env.observation_spec()}
        if self.action:
            shown["prev_action"] = shown_action_spec(self.env.action_spec())
        if self.reward:
            shown["prev_reward"] = with_zero(self.env.reward_spec()).replace(name="prev_reward")
        if self._in_trials:
            shown["episode_end"] = specs.Bounded(self._of_agents, np.bool_, False, True, "episode_end")
        return shown

    def after(self, own: Tree, timestep: TimeStep, stream: Stream) -> tuple[Tree, TimeStep]:
        shown: dict[str, Any] = {}
        if self.action:
            shown["prev_action"] = shown_action(self.env.action_spec(), timestep.prev_action)
        if self.reward:
            shown["prev_reward"] = timestep.reward
        if self._in_trials:
            end = timestep.env_info["trial"]["episode_end"]
            wide = tree.expand(end, 1 + len(self._of_agents))
            shown["episode_end"] = jnp.broadcast_to(wide, end.shape + self._of_agents)
        # The copies serve eager callers who donate the state. Compiled code has none.
        observation = {"observation": timestep.observation, **jax.tree.map(jnp.copy, shown)}
        return own, dataclasses.replace(timestep, observation=observation)


def shown_action_spec(spec: tree.Tree) -> tree.Tree:
    """Returns the spec of actions as part of an observation: zero at FIRST, and unbounded if continuous."""
    return jax.tree.map(lambda s: with_zero(s) if s.is_discrete else specs.Array(s.shape, s.dtype, s.name), spec)


def shown_action(spec: tree.Tree, action: tree.Tree) -> tree.Tree:
    """Converts actions ``[B, ...]`` to a part of an observation, within `shown_action_spec`."""
    return clip_discrete(shown_action_spec(spec), action)


class History(LaneWrapper):
    """Shows the last ``num`` observations along a new leading axis, oldest first: ``[num, ...]`` for one lane.

    With actions the observation is ``{"observation": ..., "action": ...}``, both with the new axis. Entry k of the
    actions led to entry k of the observations; it is zero where there was no action. It shows the actions that this
    wrapper receives, so it goes outside wrappers that change actions. Owns ``observation``.

    Args:
        num: number of observations, at least 1.
        include_actions: show the actions, too.
        padding: observations before the first: ``"zero"`` uses zeros, ``"reset"`` repeats the first.

    >>> import jax, jaxenv
    >>> env = jaxenv.wrappers.History(jaxenv.testing.Chain(num_envs=1), 3, include_actions=True)
    >>> state, timestep = env.reset(jax.random.key(0))
    >>> state, timestep = env.step(state, jax.numpy.array([1]))
    >>> timestep.observation["observation"].tolist(), timestep.observation["action"].tolist()
    ([[0, 0, 1]], [[0, 0, 1]])
    """

    num: int = tree.static(default=4, low=1)
    include_actions: bool = tree.static(default=False)
    padding: Literal["zero", "reset"] = tree.static(default="zero")

    owns: ClassVar[frozenset[str]] = frozenset({"observation"})
    in_evaluation = "kept"
    noop_kwargs: ClassVar[dict[str, Any]] = {"num": 1, "include_actions": False}

    def _with_actions(self, observation: Tree, action: Tree) -> Any:
        return {"observation": observation, "action": action} if self.include_actions else observation

    def facts_of(self, inner: Facts) -> Facts:
        return dataclasses.replace(inner, observes_state=True, agents_lead=False)  # the state holds what is shown

    def observation_of(self, state: LaneState) -> Tree:
        return state.own

    def observation_spec(self) -> Tree:
        zeros = self.padding == "zero"
        observation = jax.tree.map(lambda s: repeated(s, self.num, zeros=zeros), self.env.observation_spec())
        action = jax.tree.map(lambda s: repeated(s, self.num), shown_action_spec(self.env.action_spec()))
        return self._with_actions(observation, action)

    def init(self, timestep: TimeStep, stream: Stream) -> Tree:
        zeros = self.padding == "zero"
        observation = jax.tree.map(lambda x: filled(x, self.num, zeros=zeros), timestep.observation)
        action = jax.tree.map(lambda a: filled(a, self.num, zeros=True), timestep.prev_action)
        return self._with_actions(observation, action)

    def after(self, own: Tree, timestep: TimeStep, stream: Stream) -> tuple[Tree, TimeStep]:
        action = shown_action(self.env.action_spec(), timestep.prev_action)
        own = jax.tree.map(pushed, own, self._with_actions(timestep.observation, action))
        return own, dataclasses.replace(timestep, observation=jax.tree.map(jnp.copy, own))


class DelayObservation(LaneWrapper):
    """Shows the observation of ``delay`` steps ago.

    The first ``delay`` rows of an episode show, element by element, the valid value closest to zero. Reward and step
    type are not delayed, so the last ``delay`` observations of an episode are never shown. The state holds the delayed
    observations, ``[B, delay, ...]``. Owns ``observation``.

    >>> import jax, jaxenv, numpy as np
    >>> env = jaxenv.wrappers.DelayObservation(jaxenv.testing.Chain(num_envs=1), 1)
    >>> state, timestep = env.step(env.reset(jax.random.key(0))[0], np.array([1]))
    >>> timestep.observation.tolist(), env.step(state, np.array([1]))[1].observation.tolist()
    ([0], [1])
    """

    delay: int = tree.static(default=1, low=0)

    owns: ClassVar[frozenset[str]] = frozenset({"observation"})
    in_evaluation = "kept"
    keeps_specs: ClassVar[frozenset[str]] = frozenset({"observation"})
    noop_kwargs: ClassVar[dict[str, Any]] = {"delay": 0}

    def init(self, timestep: TimeStep, stream: Stream) -> Tree:
        if self.delay == 0:
            return ()

        def fill(spec: specs.Array, x: jax.Array) -> jax.Array:
            return filled(jnp.broadcast_to(specs.aligned(specs.nearest_zero(spec), x.ndim), x.shape), self.delay)

        return jax.tree.map(fill, self.env.observation_spec(), timestep.observation)

    def after(self, own: Tree, timestep: TimeStep, stream: Stream) -> tuple[Tree, TimeStep]:
        if self.delay == 0:
            return own, timestep
        row = dataclasses.replace(timestep, observation=jax.tree.map(lambda queue: queue[:, 0], own))
        return jax.tree.map(pushed, own, timestep.observation), row


class TimeAwareObservation(LaneWrapper):
    """Adds the number of steps since FIRST to the observation. Each lane counts its own steps, from 0 at FIRST.

    With ``flatten`` the observation is one float32 vector: all arrays in the order of the tree, then the time.
    Otherwise a dict gains the entry ``key``, a tuple or list gains an item, and any other observation becomes
    ``{"observation": ..., "time": ...}``. The time is int32 ``()``, or float32 if normalised, and stays at
    ``max_steps`` once it is reached. Owns ``observation``.

    Args:
        max_steps: maximum length of an episode, if known: the bound of the time.
        normalize: show the time as a fraction of ``max_steps``, which must then be given.
        flatten: show one vector.
        key: name of the time in a dict.

    >>> import jax, jaxenv
    >>> env = jaxenv.wrappers.TimeAwareObservation(jaxenv.testing.Chain(num_envs=1), max_steps=500, normalize=True)
    >>> state, timestep = env.reset(jax.random.key(0))
    >>> state, timestep = env.step(state, np.array([1]))
    >>> timestep.observation.round(3).tolist()
    [[1.0, 0.002...]]
    """

    max_steps: int | None = tree.static(default=None, low=1)
    normalize: bool = tree.static(default=False)
    flatten: bool = tree.static(default=True)
    key: str = tree.static(default="time")

    owns: ClassVar[frozenset[str]] = frozenset({"observation"})
    in_evaluation = "kept"

    def check(self) -> None:
        if self.normalize and self.max_steps is None:
            raise ValueError("TimeAwareObservation: normalize requires max_steps, got None")
        spec = self.env.observation_spec()
        if not self.flatten and self.key in (spec if isinstance(spec, dict) else ("observation",)):
            raise ValueError(f"TimeAwareObservation: key must be new to the observation, got {self.key!r} for {spec}")

    def observation_spec(self) -> Tree:
        spec = self.env.observation_spec()
        if self.normalize:
            time = specs.Bounded((), np.float32, 0, 1, self.key)
        else:
            longest = np.iinfo(np.int32).max if self.max_steps is None else self.max_steps
            time = specs.Bounded((), np.int32, 0, longest, self.key)
        if not self.flatten:
            return self._joined(spec, time)
        return specs.flattened((spec, time), one_hot=False, dtype=np.float32).replace(name="observation")

    def init(self, timestep: TimeStep, stream: Stream) -> Tree:
        return jnp.zeros_like(timestep.step_type)

    def after(self, own: Tree, timestep: TimeStep, stream: Stream) -> tuple[Tree, TimeStep]:
        time = own if self.max_steps is None else jnp.minimum(own, np.int32(self.max_steps))
        if self.normalize:
            time = time.astype(jnp.float32) / np.float32(self.max_steps)
        observation = timestep.observation
        if self.flatten:
            leaves = [x.reshape(x.shape[0], -1).astype(jnp.float32) for x in jax.tree.leaves((observation, time))]
            observation = jnp.concatenate(leaves, axis=-1)
        else:
            observation = self._joined(observation, time)
        return own + 1, dataclasses.replace(timestep, observation=observation)

    def _joined(self, observation: Tree, time: Any) -> Any:
        if isinstance(observation, dict):
            return {**observation, self.key: time}
        if isinstance(observation, list | tuple) and not hasattr(observation, "_fields"):
            return type(observation)([*observation, time])
        return {"observation": observation, self.key: time}
