"""A toy environment that samples its specs, and toy environments with every kind of space."""

from typing import Any

import jax
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.core.environment import Environment
from jaxenv.core.task import Task
from jaxenv.core.timestep import Transition
from jaxenv.random import Stream
from jaxenv.testing.chain import Chain
from jaxenv.testing.counting import Counting
from jaxenv.tree import Tree


class RandomEnvironment(Task):
    """Samples observations and rewards from specs and ends each lane at random; see `random_environment`.

    The state is the observation, leaves ``[B, ...]``.
    """

    end_probability: float = tree.leaf(default=0.1, low=0, high=1)
    spaces: tree.Static = tree.static(kw_only=True)

    def initial(self, stream: Stream) -> Tree:
        return specs.sample(self.observation_spec(), stream)

    def transition(self, state: Tree, action: Tree, stream: Stream) -> Transition:
        observation = specs.sample(self.observation_spec(), random.fold_in(stream, "observation"))
        ended = random.bernoulli(random.fold_in(stream, "end"), (), self.end_probability)
        reward = self.spaces.value["reward"].sample(random.fold_in(stream, "reward"))
        return Transition(observation, reward, terminated=ended)

    def observe(self, state: Tree) -> Tree:
        return state

    def observation_spec(self) -> Tree:
        return self.spaces.value["observation"]

    def action_spec(self) -> Tree:
        return self.spaces.value["action"]


def random_environment(
    observation_spec: Any,
    action_spec: Any,
    reward_spec: specs.Array | None = None,
    end_probability: Any = 0.1,
    num_envs: int = 1,
) -> RandomEnvironment:
    """Makes a `RandomEnvironment` for any trees of specs.

    Args:
        observation_spec: tree of specs to sample observations from.
        action_spec: tree of specs of the action, which has no effect.
        reward_spec: float32 spec of the reward, uniform in [0, 1) by default; of shape ``(R,)`` for a vector reward.
        end_probability: probability that a step ends the episode, one number or one per lane.
        num_envs: number of lanes.
    """
    for name, spec in (("observation_spec", observation_spec), ("action_spec", action_spec)):
        leaves = jax.tree.leaves(spec)
        if not leaves or not all(map(specs.is_spec, leaves)):
            raise ValueError(f"random_environment: {name} must be a spec or a tree of specs, got {spec!r}")
    reward_spec = specs.Bounded((), np.float32, 0.0, 1.0, "reward") if reward_spec is None else reward_spec
    if not specs.is_spec(reward_spec) or reward_spec.dtype != np.float32 or len(reward_spec.shape) > 1:
        rule = "reward_spec must be a float32 spec of shape () or (R,)"
        raise ValueError(f"random_environment: {rule}, got {reward_spec!r}")
    kinds = {"observation": observation_spec, "action": action_spec, "reward": reward_spec}
    return RandomEnvironment(end_probability, spaces=tree.Static(kinds), num_envs=num_envs)


def every_kind(num_envs: int = 1) -> list[Environment]:
    """Makes toy environments with integers, with floats, and with trees of spaces and a vector reward."""
    vector = specs.Bounded((3,), np.float32, -1.0, 1.0, "observation")
    force = specs.Bounded((2,), np.float32, -1.0, 1.0, "action")
    observation = {
        "image": specs.Bounded((4, 4, 3), np.uint8, 0, 255),
        "place": specs.Bounded((2,), np.float32, -1.0, 1.0),
        "nothing": specs.Array((0,), np.float32),
    }
    action = {"move": specs.Bounded((2,), np.float32, -1.0, 1.0), "press": specs.Bounded((3,), np.int32, 0, [1, 2, 3])}
    rewards = specs.Bounded((2,), np.float32, -1.0, 1.0, "reward")
    return [
        Counting(np.array([1, 3, 2]), stride=10, num_envs=num_envs),
        Chain(num_envs=num_envs),
        random_environment(vector, force, num_envs=num_envs),
        random_environment(observation, action, rewards, num_envs=num_envs),
    ]
