"""Toy wrappers, one or more per base, and the environment around which the tests put them."""

import dataclasses

import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs
from jaxenv.testing import Counting
from jaxenv.wrappers import ActionWrapper, BatchWrapper, LaneWrapper, ObservationWrapper, RewardWrapper

LENGTHS = np.array([[2, 4, 1], [3, 3, 2], [1, 5, 2]])


def counting():
    return Counting(LENGTHS, num_envs=3, stride=100)


class Doubled(ActionWrapper):
    def action(self, action):
        return action * 2

    def action_spec(self):
        return specs.discrete(5)


class Halves(ObservationWrapper):
    def observation(self, observation):
        return {"half": observation.astype(jnp.float32) / 2}


class PlusOne(RewardWrapper):
    def reward(self, reward):
        return reward + 1


class Sum(LaneWrapper):
    """Shows the sum of the episode's observations, including the first, plus a number drawn at its start."""

    owns = frozenset({"observation"})

    def init(self, timestep, stream):
        return random.integers(stream, (), 0, 1000)

    def after(self, own, timestep, stream):
        own = own + timestep.observation
        return own, dataclasses.replace(timestep, observation=own)


class Echoes(LaneWrapper):
    """Executes the previous action; 0 at the start of an episode."""

    owns = frozenset({"prev_action"})

    def init(self, timestep, stream):
        return jnp.zeros_like(timestep.env_id)

    def before(self, own, action, stream):
        return action, own


class Return(LaneWrapper):
    """Reports the return so far in env_info."""

    owns = frozenset({"env_info"})

    def init(self, timestep, stream):
        return jnp.zeros(timestep.reward.shape, jnp.float32)

    def after(self, own, timestep, stream):
        own = own + timestep.reward
        return own, dataclasses.replace(timestep, env_info={**timestep.env_info, "return": own})


class RewardMean(BatchWrapper):
    """Subtracts the mean over all rows so far from the reward, and counts each lane's rows since its start."""

    owns = frozenset({"reward"})

    def init(self, timestep):
        return {"sum": jnp.zeros(()), "count": jnp.zeros((), jnp.int32)}

    def init_lanes(self, timestep):
        return jnp.zeros_like(timestep.env_id)

    def after(self, shared, lanes, timestep, learn):
        if learn:
            shared = {"sum": shared["sum"] + timestep.reward.sum(), "count": shared["count"] + timestep.reward.size}
        mean = shared["sum"] / jnp.maximum(shared["count"], 1).astype(jnp.float32)
        return shared, lanes + 1, dataclasses.replace(timestep, reward=timestep.reward - mean)
