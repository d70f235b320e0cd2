"""Toy environments with predictable rows, and one that samples its specs."""

from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv._util.checks import check_choice
from jaxenv.core.environment import Environment
from jaxenv.core.task import Task
from jaxenv.core.timestep import Transition
from jaxenv.random import Stream
from jaxenv.tree import Tree


class Chain(Task):
    """A corridor of ``length`` cells: action 1 moves right, action 0 left, the last cell pays 1 and ends the episode.

    The observation is the cell, int32 ``[B]`` from 0 to length - 1.
    """

    length: int = tree.static(default=5, low=2)

    def initial(self, stream: Stream) -> Tree:
        return jnp.zeros(stream.shape, jnp.int32)

    def transition(self, state: Tree, action: Tree, stream: Stream) -> Transition:
        cell = jnp.clip(state + 2 * action - 1, 0, self.length - 1)
        arrived = cell == self.length - 1
        return Transition(cell, reward=arrived.astype(jnp.float32), terminated=arrived)

    def observe(self, state: Tree) -> Tree:
        return state

    def observation_spec(self) -> Tree:
        return specs.discrete(self.length, name="observation")

    def action_spec(self) -> Tree:
        return specs.discrete(2, name="action")


@tree.struct
class Counters:
    """State of `Counting`: completed episodes and steps of the current one, int32 ``[B]``."""

    episode: jax.Array
    step: jax.Array


class Counting(Task):
    """Counts its steps and ends after a scripted number of them, per lane and episode.

    The action is an integer from 0 to 9.

    Args:
        lengths: int32 ``[E]``, the length of episode e is ``lengths[e % E]``; ``[B, E]`` for lengths per lane. An
            episode of length 0 never ends.
        stride: the increment of the observation per episode.
        pays: ``"action"``, or ``"end"`` for 1 on the last step of an episode and 0 on others.
        shows: ``"number"`` for ``stride * episode + step`` (int32 ``[B]``), ``"tuple"`` for ``(episode, step)``, or
            ``"dict"`` for ``{"episode": ..., "step": ...}``.
    """

    lengths: Any = tree.leaf(rank=1, dtype=np.int32)
    stride: int = tree.static(default=0)
    pays: Literal["action", "end"] = tree.static(default="action")
    shows: Literal["number", "tuple", "dict"] = tree.static(default="number")

    def check(self) -> None:
        if np.shape(self.lengths)[-1] == 0:
            raise ValueError("Counting: lengths must hold at least one length, got none")
        check_choice("Counting", "shows", self.shows, ("number", "tuple", "dict"))
        check_choice("Counting", "pays", self.pays, ("action", "end"))

    def initial(self, stream: Stream) -> Counters:
        return Counters(jnp.zeros(stream.shape, jnp.int32), jnp.zeros(stream.shape, jnp.int32))

    def carry(self, old: Counters, new: Counters) -> Counters:
        return Counters(old.episode + 1, new.step)

    def transition(self, state: Counters, action: Tree, stream: Stream) -> Transition:
        step = state.step + 1
        lengths = jnp.broadcast_to(self.lengths, (*step.shape, np.shape(self.lengths)[-1]))
        index = state.episode % lengths.shape[-1]
        ended = step == jnp.take_along_axis(lengths, index[:, None], axis=-1)[:, 0]
        reward = (action if self.pays == "action" else ended).astype(jnp.float32)
        return Transition(Counters(state.episode, step), reward, terminated=ended)

    def observe(self, state: Counters) -> Tree:
        if self.shows == "number":
            return self.stride * state.episode + state.step
        return self._pair(state.episode, state.step)

    def observation_spec(self) -> Tree:
        if self.shows == "number":
            return specs.Array((), np.int32, "observation")
        return self._pair(specs.Array((), np.int32, "episode"), specs.Array((), np.int32, "step"))

    def _pair(self, episode: Any, step: Any) -> Any:
        return (episode, step) if self.shows == "tuple" else {"episode": episode, "step": step}

    def action_spec(self) -> Tree:
        return specs.discrete(10, name="action")


def count_to_two(num_envs: int = 1) -> Counting:
    """Makes an environment that observes 0, 1, 2, 0, ...; every third row is LAST with reward 1 and discount 0."""
    return Counting(np.array([2]), pays="end", num_envs=num_envs)


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
