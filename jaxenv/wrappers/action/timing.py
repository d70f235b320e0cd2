"""Wrappers that repeat or delay actions."""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.core import (
    BatchWrapper,
    Facts,
    LaneWrapper,
    Starts,
    TimeStep,
    Wrapper,
    check_no_autoreset,
    check_no_turns,
    combined_info,
    layers,
)
from jaxenv.random import Stream
from jaxenv.tree import Tree


class ActionRepeat(Wrapper):
    """Repeats every action ``num`` times and stops early at the end of an episode.

    Rewards are summed, discounts multiplied, and all other fields come from the last step taken, except for flags of
    the contract in ``env_info``, which one of the steps sets, and entries that the task sums (``summed_entries``).
    ``env_info["num_env_frames"]`` (int32 ``[B]``, 0 at FIRST) counts the steps of the environment; nested repeats
    multiply. A `TimeLimit` outside counts the agent's steps, one inside the steps of the environment. Owns
    ``step_type``, ``reward``, ``discount``, ``observation`` and ``env_info``.

    Args:
        env: an environment without ``AutoReset`` and without batch state.
        num: number of repeats, at least 1.

    >>> import jaxenv
    >>> env = ActionRepeat(jaxenv.testing.Counting(np.array([4])), 3)
    >>> state, timestep = env.reset(jax.random.key(0))
    >>> state, timestep = env.step(state, jnp.array([5]))
    >>> timestep.observation.tolist(), timestep.reward.tolist(), timestep.env_info["num_env_frames"].tolist()
    ([3], [15.0], [3])
    """

    num: int = tree.static(default=1, low=1)

    owns: ClassVar[frozenset[str]] = frozenset({"step_type", "reward", "discount", "observation", "env_info"})
    in_evaluation = "kept"
    keeps_specs: ClassVar[frozenset[str]] = frozenset({"observation"})
    place = "several_steps"
    summed_entries = frozenset({"num_env_frames"})
    noop_kwargs = {"num": 1}

    def check(self) -> None:
        name = type(self).__name__
        check_no_autoreset(self, "would start the next episode between repeats")
        for layer in layers(self.env):
            if isinstance(layer, BatchWrapper):
                fault = f"{type(layer).__name__} carries state of the whole batch"
                raise ValueError(f"{name}: {fault}, put it outside {name}")

    def facts_of(self, inner: Facts) -> Facts:
        several = self.num > 1  # a game of turns does not alternate then: the action is played for both sides
        return dataclasses.replace(inner, alternates=inner.alternates and not several, repeats=inner.repeats or several)

    def reward_spec(self) -> specs.Array:
        inner = self.env.reward_spec()
        if not isinstance(inner, specs.Bounded):
            return inner
        # An early end sums 1 to num rewards. Float addition is monotonic, so sums of bounds are exact bounds.
        low, high = (np.cumsum(np.stack([bound] * self.num), axis=0) for bound in (inner.minimum, inner.maximum))
        return inner.replace(minimum=low.min(axis=0), maximum=high.max(axis=0))

    def begin(self, starts: Starts, previous: Tree = None) -> tuple[Tree, TimeStep]:
        state, timestep = super().begin(starts, previous)
        return state, _counted(timestep, jnp.zeros_like(starts.env_id))

    def proceed(self, state: Tree, action: Tree) -> tuple[Tree, TimeStep]:
        state, timestep, _ = self._repeat(state, action, two_frames=False)
        return state, timestep

    def _repeat(self, state: Tree, action: Tree, two_frames: bool) -> tuple[Tree, TimeStep, Any]:
        """Repeats the action: returns state and row, and with ``two_frames`` the observation of the last step but one.

        If only one step was taken, it is the observation of this step.
        """

        def one(state: Tree) -> tuple[Tree, TimeStep]:
            state, timestep = self.env.proceed(state, action)
            return state, _counted(timestep, timestep.env_info.get("num_env_frames", jnp.ones_like(timestep.env_id)))

        def repeated(carry: tuple[Tree, TimeStep, Any], _: Any) -> tuple[tuple[Tree, TimeStep, Any], None]:
            state, so_far, _previous = carry
            now, row = one(state)
            row = dataclasses.replace(
                row,
                reward=so_far.reward + row.reward,
                discount=so_far.discount * row.discount,
                env_info=combined_info(self, so_far.env_info, row.env_info),
            )
            new = (now, row, so_far.observation if two_frames else ())
            return tree.where(~so_far.is_last(), new, carry), None

        state, timestep = one(state)
        carry = tree.vary_like(timestep.env_id, (state, timestep, timestep.observation if two_frames else ()))
        # An unrolled loop takes longer to compile, and to run on CPU, where the compiler recomputes steps it fuses.
        return jax.lax.scan(repeated, carry, length=self.num - 1)[0]


def _counted(timestep: TimeStep, frames: jax.Array) -> TimeStep:
    """Adds the number of environment steps that a row covers."""
    return dataclasses.replace(timestep, env_info={**timestep.env_info, "num_env_frames": frames})


class MaxAndSkip(ActionRepeat):
    """An `ActionRepeat` whose observation is the elementwise maximum of the last two frames, for screens that flicker.

    A step with a single frame shows that frame: ``num`` is 1, or the episode ends on the first repeat. The FIRST row
    shows its own observation. `ActionRepeat` has the same arguments and owns the same fields.

    >>> import jax, numpy as np, jaxenv
    >>> env = MaxAndSkip(jaxenv.testing.Counting(np.array([9])), 4)
    >>> state, timestep = env.reset(jax.random.key(0))
    >>> env.step(state, np.array([0]))[1].observation.tolist()
    [4]
    """

    in_evaluation = "kept"

    def facts_of(self, inner: Facts) -> Facts:
        return dataclasses.replace(super().facts_of(inner), observes_state=False)

    def proceed(self, state: Tree, action: Tree) -> tuple[Tree, TimeStep]:
        state, timestep, previous = self._repeat(state, action, two_frames=True)
        observation = jax.tree.map(jnp.maximum, previous, timestep.observation)
        return state, dataclasses.replace(timestep, observation=observation)


class ActionDelay(LaneWrapper):
    """Executes the action that the agent gave ``delay`` steps ago.

    The first ``delay`` actions of an episode are zeros, clipped to the bounds of the action. Actions of the previous
    episode are never executed. Owns ``prev_action``: the agent's latest action, not the one executed.

    Args:
        delay: number of steps, at least 0. The queue, ``[B, delay, ...]`` for every leaf, is part of the state.

    >>> import jaxenv
    >>> env = ActionDelay(jaxenv.spec("CartPole-v1").make(), 2)
    >>> env.reset(jax.random.key(0))[0].own.tolist()
    [[0, 0]]
    """

    delay: int = tree.static(default=1, low=0)

    owns: ClassVar[frozenset[str]] = frozenset({"prev_action"})
    in_evaluation = "kept"
    noop_kwargs = {"delay": 0}

    def check(self) -> None:
        check_no_turns("ActionDelay", self.env)

    def init(self, timestep: TimeStep, stream: Stream) -> Tree:
        """Returns the queue, oldest action first: a tree of arrays ``[B, delay, ...]``."""
        lanes = timestep.env_id.shape[0]
        idle = lambda s: jnp.broadcast_to(specs.nearest_zero(s), (lanes, self.delay, *s.shape))  # noqa: E731
        return jax.tree.map(idle, self.action_spec())

    def before(self, own: Tree, action: Tree, stream: Stream) -> tuple[Tree, Tree]:
        queue = jax.tree.map(lambda old, new: jnp.concatenate([old, new[:, None]], axis=1), own, action)
        return jax.tree.map(lambda x: x[:, 1:], queue), jax.tree.map(lambda x: x[:, 0], queue)


@tree.struct
class Sticky:
    """The action that a lane repeats."""

    last: Any  # the action executed last, leaves [B, ...]; zeros before the first
    left: jax.Array  # int32[B], the remaining repetitions; -1 before the first step of an episode


class StickyAction(LaneWrapper):
    """Executes the previously executed action instead of the agent's, with some probability at every step.

    The first action of an episode is always the agent's. A repetition lasts ``duration`` steps and may be followed by
    another. See Machado et al. (2018, doi:10.1613/jair.5699, section 5.2). Inside an `ActionRepeat` the probability
    applies to every repeated step. Owns ``prev_action``: the agent's action, even if another one was executed.

    Args:
        probability: probability of a repetition in [0, 1): one number, or one per lane.
        duration: steps per repetition: a number, or (least, most) to draw from uniformly, both included.

    >>> import jaxenv
    >>> env = StickyAction(jaxenv.spec("CartPole-v1").make(), 0.25)
    >>> repr(env)
    '<StickyAction<CartPole-v1>>'
    """

    probability: Any = tree.leaf(low=0, below=1)
    duration: Any = tree.static(default=(1, 1))

    owns: ClassVar[frozenset[str]] = frozenset({"prev_action"})
    in_evaluation = "kept"
    noop_kwargs = {"probability": np.float32(0)}

    def check(self) -> None:
        check_no_turns("StickyAction", self.env)
        given = np.asarray(self.duration)
        if given.dtype.kind not in "iu" or given.shape not in ((), (2,)) or not 1 <= given.flat[0] <= given.flat[-1]:
            rule = "duration must be a number of steps, at least 1, or (least, most)"
            raise ValueError(f"StickyAction: {rule}, got {self.duration}")

    def init(self, timestep: TimeStep, stream: Stream) -> Sticky:
        lanes = timestep.env_id.shape
        return Sticky(specs.zeros(self.action_spec(), lanes), jnp.full(lanes, np.int32(-1)))

    def before(self, own: Sticky, action: Tree, stream: Stream) -> tuple[Tree, Tree]:
        drawn = random.bernoulli(stream, (), self.probability)
        repeating = own.left > 0
        sticks = repeating | (drawn & (own.left == 0))
        left = jnp.where(repeating, own.left, self._draw_duration(stream)) - 1
        executed = tree.where(sticks, own.last, action)
        return Sticky(executed, jnp.where(sticks, left, 0)), executed

    def _draw_duration(self, stream: random.Stream) -> jax.Array:
        least, most = np.broadcast_to(np.asarray(self.duration, np.int32), 2)
        if least == most:
            return least
        return random.integers(random.fold_in(stream, "duration"), (), least, most + 1)
