"""Draw a goal for every episode."""

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from jaxenv import specs, tree
from jaxenv.core import LaneWrapper, TimeStep, check_callable
from jaxenv.random import Stream
from jaxenv.tree import Tree


class GoalConditioned(LaneWrapper):
    """Draws a goal at the start of every episode, shows it, and rewards progress towards it.

    The observation becomes a dict of ``observation``, ``achieved_goal`` and ``desired_goal``. The reward is a function
    of the two goals alone, so a learner can relabel transitions with ``env.reward_fn`` (hindsight). Reaching the goal
    does not end the episode; `TerminateOn` outside does that. Owns ``observation`` and ``reward``.

    Args:
        sample_goal: draws goals, a tree of arrays ``[B, ...]``, from a stream.
        reward_fn: maps achieved and desired goals to rewards ``[B]``, which are cast to float32; the reward at FIRST is
            0.
        achieved_fn: maps the inner observation to the goal that it achieves, in the structure, shapes and dtypes of the
            desired goal.
        goal_spec: specs of one goal, if its bounds are known.

    >>> import jax, jaxenv
    >>> from jaxenv import random
    >>> env = GoalConditioned(
    ...     jaxenv.testing.Chain(length=5),
    ...     sample_goal=lambda stream: random.integers(stream, (), 1, 5),
    ...     reward_fn=lambda achieved, desired: achieved == desired,
    ...     achieved_fn=lambda observation: observation,
    ... )
    >>> sorted(env.reset(jax.random.key(0))[1].observation)
    ['achieved_goal', 'desired_goal', 'observation']
    """

    sample_goal: Callable[[Stream], Any] = tree.static()
    reward_fn: Callable[[Any, Any], jax.Array] = tree.static()
    achieved_fn: Callable[[Any], Any] = tree.static()
    goal_spec: Any = tree.static(default=None)

    owns: ClassVar[frozenset[str]] = frozenset({"observation", "reward"})
    in_evaluation = "kept"

    def convert(self) -> dict[str, Any]:
        if self.goal_spec is None or isinstance(self.goal_spec, tree.Static):
            return {}
        specs.check_spec("GoalConditioned", self.goal_spec, "goal_spec")
        return {"goal_spec": tree.Static(self.goal_spec)}  # trees of specs need not be hashable

    def check(self) -> None:
        for name in ("sample_goal", "reward_fn", "achieved_fn"):
            check_callable("GoalConditioned", name, getattr(self, name))
        found = self._goal_specs()
        try:
            specs.require_equal(found[0], found[1], "achieved and desired goal")
            if self.goal_spec is not None:
                specs.require_equal(specs.unbatched(self.goal_spec.value, 0), found[1], "goal_spec and the goals")
        except ValueError as fault:
            raise ValueError(f"GoalConditioned: {fault}") from None

    def _goal_specs(self) -> tuple[Any, Any]:
        """Derives specs of achieved and desired goals from the functions."""
        word = jax.ShapeDtypeStruct((self._spec_lanes,), jnp.uint32)
        desired = specs.unbatched(jax.eval_shape(self.sample_goal, Stream(word, word, word, word)))
        return specs.mapped_spec(self.achieved_fn, self.env.observation_spec(), self._spec_lanes), desired

    def observation_spec(self) -> Tree:
        achieved, desired = self._goal_specs()
        if self.goal_spec is not None:
            achieved = desired = self.goal_spec.value
        return {"observation": self.env.observation_spec(), "achieved_goal": achieved, "desired_goal": desired}

    def reward_spec(self) -> specs.Array:
        return specs.Array((), "float32", "reward")

    def init(self, timestep: TimeStep, stream: Stream) -> Tree:
        return self.sample_goal(stream)

    def after(self, own: Tree, timestep: TimeStep, stream: Stream) -> tuple[Tree, TimeStep]:
        achieved = tree.strong(self.achieved_fn(timestep.observation))
        reward = jnp.asarray(self.reward_fn(achieved, own), jnp.float32)
        if reward.shape != timestep.env_id.shape:
            rule = f"reward_fn must return {timestep.env_id.shape} rewards"
            raise ValueError(f"GoalConditioned: {rule}, got {reward.shape}")
        # Copies ensure that donating both state and row never deletes an array twice.
        observation = {
            "observation": timestep.observation,
            "achieved_goal": jax.tree.map(jnp.copy, achieved),
            "desired_goal": jax.tree.map(jnp.copy, own),
        }
        reward = jnp.where(timestep.is_first(), jnp.zeros_like(reward), reward)
        return own, dataclasses.replace(timestep, observation=observation, reward=reward)
