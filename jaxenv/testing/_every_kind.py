"""Toy environments with every kind of space."""

import numpy as np

from jaxenv import specs
from jaxenv.core.environment import Environment
from jaxenv.testing._random_environment import random_environment
from jaxenv.testing.chain import Chain
from jaxenv.testing.counting import Counting


def every_kind(num_envs: int = 1) -> list[Environment]:
    """Makes toy environments with integers, with floats, and with trees of spaces and a vector reward.

    Args:
        num_envs: number of lanes.
    """
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
