"""Stack the latest observations and the actions between them."""

import dataclasses
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp

from jaxenv import tree
from jaxenv.core import Facts, LaneWrapper, TimeStep
from jaxenv.core.bases.lane_wrapper import LaneState
from jaxenv.random import Stream
from jaxenv.tree import Tree
from jaxenv.wrappers.observation.frame_stack import filled, pushed, repeated
from jaxenv.wrappers.observation.previous_action_and_reward import shown_action, shown_action_spec


class History(LaneWrapper):
    """Shows the last ``num`` observations along a new leading axis, oldest first: ``[num, ...]`` for one lane.

    With actions the observation is ``{"observation": ..., "action": ...}``, both with the new axis. Entry k of the
    actions led to entry k of the observations; it is zero where there was no action. It shows the actions that this
    wrapper receives, so it goes outside wrappers that change actions. Owns ``observation``.

    Args:
        env: any environment without a ``same_step`` ``AutoReset``.
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
        def fill(x: jax.Array) -> jax.Array:
            return filled(jnp.zeros_like(x) if self.padding == "zero" else x, self.num)

        actions = jax.tree.map(lambda a: filled(jnp.zeros_like(a), self.num), timestep.prev_action)
        return self._with_actions(jax.tree.map(fill, timestep.observation), actions)

    def after(self, own: Tree, timestep: TimeStep, stream: Stream) -> tuple[Tree, TimeStep]:
        action = shown_action(self.env.action_spec(), timestep.prev_action)
        own = jax.tree.map(pushed, own, self._with_actions(timestep.observation, action))
        return own, dataclasses.replace(timestep, observation=jax.tree.map(jnp.copy, own))
