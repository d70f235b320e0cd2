"""A toy environment that samples its specs."""

from typing import Any

import numpy as np

from jaxenv import random, specs, tree
from jaxenv.task import Task, Transition


class RandomEnvironment(Task):
    """Samples observations and rewards from specs and ends each lane at random.

    Constructed by `random_environment`. The state is the observation, a tree of ``[B, ...]``.
    """

    end_probability: float = 0.1
    spaces: tree.Static = tree.static(kw_only=True)

    def initial(self, stream):
        return specs.sample(self.observation_spec(), stream)

    def transition(self, state, action, stream):
        observation = specs.sample(self.observation_spec(), random.fold_in(stream, "observation"))
        ended = random.bernoulli(random.fold_in(stream, "end"), (), self.end_probability)
        reward = self.spaces.value["reward"].sample(random.fold_in(stream, "reward"))
        return Transition(observation, reward, terminated=ended)

    def observe(self, state):
        return state

    def observation_spec(self):
        return self.spaces.value["observation"]

    def action_spec(self):
        return self.spaces.value["action"]


def random_environment(
    observation_spec: Any,
    action_spec: Any,
    reward_spec: specs.Array | None = None,
    end_probability: Any = 0.1,
    num_envs: int = 1,
) -> RandomEnvironment:
    """A `RandomEnvironment` for any trees of specs.

    Args:
        observation_spec: tree of specs to sample observations from.
        action_spec: tree of specs of the action, which has no effect.
        reward_spec: float32 spec of the reward, uniform in [0, 1) by default; of shape ``(R,)`` for a vector reward.
        end_probability: probability that a step ends the episode: one number, or one per lane.
        num_envs: number of lanes.
    """
    reward_spec = specs.Bounded((), np.float32, 0.0, 1.0, "reward") if reward_spec is None else reward_spec
    spaces = tree.Static({"observation": observation_spec, "action": action_spec, "reward": reward_spec})
    return RandomEnvironment(end_probability, spaces=spaces, num_envs=num_envs)
