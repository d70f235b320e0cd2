"""Let the agent observe what it did and what it was paid."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp

from jaxenv import _actions, specs, tree
from jaxenv._wrapper_bases import LaneWrapper
from jaxenv.wrappers.frame_stack import with_zero


class PreviousActionAndReward(LaneWrapper):
    """Shows ``{"observation", "prev_action", "prev_reward"}``: the action that led to the observation and its reward.

    Row t holds o_t, a_{t-1} and r_t (float32 ``()``, or ``(R,)`` for a vector reward), zeros at FIRST. DI-engine's
    wrapper of the kind lags one action behind and keeps the last episode's; with ``reward=False`` it is ALF's
    ``ActionObservationWrapper``, with ``action=False`` DI-engine's ``AllinObs``. The action is the one that this
    wrapper is given: put it outside wrappers that change actions. Discrete ones are shown within their bounds;
    continuous ones as they were given, so without bounds.

    Owns ``observation``.

    Args:
        env: any environment; in ``same_step`` streams one without ``AutoReset``.
        action: show the action.
        reward: show the reward.

    Raises:
        ValueError: if neither is to be shown.

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

    def check(self):
        if not (self.action or self.reward):
            raise ValueError("PreviousActionAndReward: action or reward must be True, got neither")

    def _joined(self, observation, action, reward):
        shown = {"observation": observation}
        return (
            shown | ({"prev_action": action} if self.action else {}) | ({"prev_reward": reward} if self.reward else {})
        )

    def observation_spec(self):
        action = shown_action_spec(self.env.action_spec())
        reward = with_zero(self.env.reward_spec()).replace(name="prev_reward")
        return self._joined(self.env.observation_spec(), action, reward)

    def init(self, timestep, stream):
        return ()

    def after(self, own, timestep, stream):
        action = shown_action(self.env.action_spec(), timestep.prev_action)
        # Copies are for eager callers who donate; compiled code has none.
        action, reward = jax.tree.map(jnp.copy, (action, timestep.reward))
        observation = self._joined(timestep.observation, action, reward)
        return own, dataclasses.replace(timestep, observation=observation)


def shown_action_spec(spec: tree.Tree) -> tree.Tree:
    """The spec of actions as part of an observation: they are zero at FIRST, and continuous ones may lie anywhere."""
    return jax.tree.map(lambda s: with_zero(s) if s.is_discrete else specs.Array(s.shape, s.dtype, s.name), spec)


def shown_action(spec: tree.Tree, action: tree.Tree) -> tree.Tree:
    """A batch of actions as part of an observation: within `shown_action_spec`."""
    return _actions.clip_discrete(shown_action_spec(spec), action)
