"""Stacks for tests of the whole library: ids of every kind as ``make`` builds them, and toys in other stacks."""

import functools
from collections.abc import Callable

import jax
import numpy as np

import jaxenv
from jaxenv import specs, wrappers
from jaxenv.core.environment import Environment
from jaxenv.testing import Chain, Counting, count_to_two, random_environment
from tests.rows import random_actions, unrolled


def _of_id(id: str) -> Callable[[int], Environment]:
    return lambda lanes: jaxenv.make(id, num_envs=lanes, max_episode_steps=np.arange(3, 3 + lanes))


def _dict_spaces(lanes: int) -> Environment:
    observation = {
        "image": specs.Bounded((2, 2, 1), np.uint8, 0, 255),
        "position": (specs.Array((2,), np.float32), specs.Bounded((), np.int32, -3, 3)),
        "flag": specs.Bounded((), bool, False, True),
        "nothing": specs.Array((0,), np.float32),
    }
    action = {"move": specs.Bounded((2,), np.float32, -1, 1), "press": specs.Bounded((3,), np.int32, 0, [1, 2, 3])}
    reward = specs.Bounded((2,), np.float32, -1, 1)
    env = random_environment(observation, action, reward, 0.2, num_envs=lanes)
    return wrappers.AutoReset(wrappers.TimeLimit(env, 5), "same_step", "compact")


# One id of each kind of start and step: tests of the whole library do not depend on the rules of an environment.
_IDS = (
    *("Acrobot-v1", "CartPole-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Pendulum-v1"),
    *(
        "Breakout-MinAtar",
        "CardGame-v0",
        "TicTacToe-v0",
        "SimpleBandit-bsuite",
        "Blackjack-v1",
        "MiniGrid-DoorKey-5x5-v0",
    ),
)

STACKS: dict[str, Callable[[int], Environment]] = {
    **{id: _of_id(id) for id in _IDS},
    "same step, compact": lambda lanes: jaxenv.make(
        "CartPole-v1",
        num_envs=lanes,
        autoreset="same_step",
        reset_strategy="compact",
        max_episode_steps=np.arange(3, 3 + lanes),
    ),
    "rescaled": lambda lanes: jaxenv.make("Pendulum-v1", num_envs=lanes, wrappers=[("RescaleAction", {})]),
    "fixed start": lambda lanes: jaxenv.make("CartPole-v1", num_envs=lanes, fixed_reset_key=jax.random.key(9)),
    "no restarts": lambda lanes: jaxenv.make("CartPole-v1", num_envs=lanes, autoreset=None),
    "counting": lambda lanes: wrappers.AutoReset(Counting(np.array([1, 3, 2]), num_envs=lanes), "next_step", "compact"),
    "mock": lambda lanes: wrappers.AutoReset(count_to_two(lanes)),
    "chain": lambda lanes: wrappers.AutoReset(wrappers.TimeLimit(Chain(4, num_envs=lanes), 9)),
    "dict spaces": _dict_spaces,
}

LANES, STEPS = 5, 12


@functools.cache
def rows_of(name: str):
    """Returns environment, actions and all rows of a stack, computed once for all tests."""
    env = STACKS[name](LANES)
    actions = random_actions(env, STEPS)
    return env, actions, unrolled(env, actions)
