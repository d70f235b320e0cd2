"""Show the previous action and reward."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp

from jaxenv import specs, tree
from jaxenv.core import LaneWrapper, TimeStep, clip_discrete
from jaxenv.random import Stream
from jaxenv.tree import Tree
from jaxenv.wrappers.observation.frame_stack import with_zero


class PreviousActionAndReward(LaneWrapper):
    """Shows ``{"observation", "prev_action", "prev_reward"}``: the action that led to the observation, and its reward.

    Row t holds o_t, a_{t-1} and r_t (float32 ``()``, or ``(R,)`` for a vector reward), zeros at FIRST. It shows the
    action that this wrapper receives, so it goes outside wrappers that change actions. Discrete actions are clipped to
    their bounds; continuous ones are shown as given, so their spec has no bounds. Owns ``observation``.

    Args:
        env: any environment without a ``same_step`` ``AutoReset``.
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

    def _joined(self, observation: Tree, action: Tree, reward: Tree) -> dict[str, Tree]:
        shown = {"observation": observation}
        return (
            shown | ({"prev_action": action} if self.action else {}) | ({"prev_reward": reward} if self.reward else {})
        )

    def observation_spec(self) -> Tree:
        action = shown_action_spec(self.env.action_spec())
        reward = with_zero(self.env.reward_spec()).replace(name="prev_reward")
        return self._joined(self.env.observation_spec(), action, reward)

    def after(self, own: Tree, timestep: TimeStep, stream: Stream) -> tuple[Tree, TimeStep]:
        action = shown_action(self.env.action_spec(), timestep.prev_action)
        # The copies serve eager callers who donate the state. Compiled code has none.
        action, reward = jax.tree.map(jnp.copy, (action, timestep.reward))
        observation = self._joined(timestep.observation, action, reward)
        return own, dataclasses.replace(timestep, observation=observation)


def shown_action_spec(spec: tree.Tree) -> tree.Tree:
    """Returns the spec of actions as part of an observation: zero at FIRST, and unbounded if continuous."""
    return jax.tree.map(lambda s: with_zero(s) if s.is_discrete else specs.Array(s.shape, s.dtype, s.name), spec)


def shown_action(spec: tree.Tree, action: tree.Tree) -> tree.Tree:
    """Converts actions ``[B, ...]`` to a part of an observation, within `shown_action_spec`."""
    return clip_discrete(shown_action_spec(spec), action)
