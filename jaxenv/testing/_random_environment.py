"""A toy environment that samples its specs, and toy environments with every kind of space."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv._util.checks import is_concrete
from jaxenv.core.environment import Environment
from jaxenv.core.task import Task
from jaxenv.core.timestep import Transition
from jaxenv.random import Stream
from jaxenv.testing.chain import Chain
from jaxenv.testing.counting import Counting
from jaxenv.tree import Tree


@tree.struct
class Sampled:
    """State of `RandomEnvironment`: the observation, leaves ``[B, ...]``, and the steps so far, int32 ``[B]``."""

    observation: Any
    step: jax.Array


class RandomEnvironment(Task):
    """Samples observations and rewards from specs and ends each lane at random; see `random_environment`.

    The state is the observation and the number of steps, ``[B, ...]``.
    """

    end_probability: float = tree.leaf(default=0.1, low=0, high=1)
    min_steps: int = tree.leaf(default=1, low=0)
    max_steps: int = tree.leaf(default=0, low=0)
    spaces: tree.Static = tree.static(kw_only=True)

    def check(self) -> None:
        if is_concrete(self.max_steps) and is_concrete(self.min_steps):
            minimum, maximum = np.asarray(self.min_steps), np.asarray(self.max_steps)
            if np.any((maximum > 0) & (maximum < minimum)):
                rule = "max_steps must be at least min_steps or 0"
                raise ValueError(f"random_environment: {rule}, got {maximum} and {minimum}")

    def initial(self, stream: Stream) -> Sampled:
        return Sampled(specs.sample(self.observation_spec(), stream), jnp.zeros(stream.shape, jnp.int32))

    def transition(self, state: Sampled, action: Tree, stream: Stream) -> Transition:
        observation = specs.sample(self.observation_spec(), random.fold_in(stream, "observation"))
        step = state.step + 1
        ended = random.bernoulli(random.fold_in(stream, "end"), (), self.end_probability) & (step >= self.min_steps)
        reward_fn = self.spaces.value["reward_fn"]
        if reward_fn is None:
            reward = self.spaces.value["reward"].sample(random.fold_in(stream, "reward"))
        else:
            reward = jnp.asarray(reward_fn(observation, action), jnp.float32)
        return Transition(Sampled(observation, step), reward, terminated=ended | (step == self.max_steps))

    def observe(self, state: Sampled) -> Tree:
        return state.observation

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
    *,
    min_steps: Any = 1,
    max_steps: Any = 0,
    reward_fn: Callable[[Any, Any], jax.Array] | None = None,
) -> RandomEnvironment:
    """Makes a `RandomEnvironment` for any trees of specs.

    Args:
        observation_spec: tree of specs to sample observations from.
        action_spec: tree of specs of the action, which has no effect.
        reward_spec: float32 spec of the reward, uniform in [0, 1) by default; of shape ``(R,)`` for a vector reward.
        end_probability: probability that a step ends the episode: like the next two one number, or one per lane.
        num_envs: number of lanes.
        min_steps: the smallest number of steps of an episode.
        max_steps: the largest number, 0 for none.
        reward_fn: ``reward_fn(observation, action)`` returns the reward ``[B]`` of an action and the observation it led
            to, in place of a sampled one; not with ``reward_spec``.
    """
    for name, spec in (("observation_spec", observation_spec), ("action_spec", action_spec)):
        leaves = jax.tree.leaves(spec)
        if not leaves or not all(map(specs.is_spec, leaves)):
            raise ValueError(f"random_environment: {name} must be a spec or a tree of specs, got {spec!r}")
    if reward_fn is not None and not callable(reward_fn):
        raise ValueError(f"random_environment: reward_fn must be a function or None, got {reward_fn!r}")
    if reward_fn is not None and reward_spec is not None:
        raise ValueError("random_environment: reward_spec must be None where reward_fn computes the reward")
    reward_spec = specs.Bounded((), np.float32, 0.0, 1.0, "reward") if reward_spec is None else reward_spec
    if not specs.is_spec(reward_spec) or reward_spec.dtype != np.float32 or len(reward_spec.shape) > 1:
        rule = "reward_spec must be a float32 spec of shape () or (R,)"
        raise ValueError(f"random_environment: {rule}, got {reward_spec!r}")
    kinds = {"observation": observation_spec, "action": action_spec, "reward": reward_spec, "reward_fn": reward_fn}

    return RandomEnvironment(end_probability, min_steps, max_steps, spaces=tree.Static(kinds), num_envs=num_envs)


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
