"""Environments composed of named observations, actions, rewards and ends."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import random, specs, tree
from jaxenv.elements import Composed
from jaxenv.environment import Environment, Transition
from jaxenv.registry import EnvSpec
from jaxenv.testing import Counting, check_env
from jaxenv.wrappers import AutoReset, TimeLimit
from tests.rows import assert_equal, random_actions, unrolled
from tests.wrappers.paying import Paying, paying


@tree.struct
class Point:
    """State of `Reacher`, each float32 ``[B, 2]``."""

    at: jax.Array
    target: jax.Array


class Reacher(Environment):
    """A point that is pushed to a target; it says what its reward is made of, as Gymnasium's Reacher does."""

    def initial(self, key):
        at, target = random.uniform(key, (2,), -1, 1), random.uniform(random.fold_in(key, "target"), (2,), -1, 1)
        return Point(at, target)

    def transition(self, state, action, key):
        at = jnp.clip(state.at + np.float32(0.1) * action, -1, 1)
        distance, effort = (jnp.sum(x * x, axis=-1) for x in (at - state.target, action))
        env_info = {"reward_dist": -distance, "reward_ctrl": -effort}
        return Transition(Point(at, state.target), -distance - effort, distance < 0.01, env_info)

    def observe(self, state):
        return jnp.concatenate([state.at, state.target], axis=-1)

    def observation_spec(self):
        return specs.Bounded((4,), np.float32, -1, 1)

    def action_spec(self):
        return specs.Bounded((2,), np.float32, -1, 1)


def reacher(env, **weights):
    """Gymnasium's ReacherReward in three lines."""
    terms = {"distance": "reward_dist", "control": "reward_ctrl"}
    weights = {"distance": 1.0, "control": 0.5, **weights}
    return Composed(env, rewards=terms, weights=weights)


def wide(*shape):
    return specs.Array(shape, np.float32)


OBSERVATIONS = {
    "cart": (wide(2), lambda state: jnp.stack([state.x, state.x_dot], axis=-1)),
    "pole": (wide(2), lambda state: jnp.stack([state.theta, state.theta_dot], axis=-1)),
}
REWARDS = {
    "upright": lambda state, action, out: jnp.cos(out.state.theta),
    "still": lambda state, action, out: jnp.abs(out.state.x - state.x),
}
TERMINATIONS = {"far": lambda state, action, out: jnp.abs(out.state.x) > 0.1}
ACTIONS = (
    {"push": specs.Bounded((), np.float32, -1, 1), "on": specs.discrete(2)},
    lambda state, action: jnp.where(action["push"] > 0, action["on"], 0),
)


def cart_pole(num_envs=3, **groups):
    groups = groups or {
        "observations": OBSERVATIONS,
        "actions": ACTIONS,
        "rewards": REWARDS,
        "terminations": TERMINATIONS,
        "weights": {"still": -4.0, "upright": 0.5},
    }
    return Composed(jaxenv.spec("CartPole-v1").make(num_envs), **groups)
