"""Toy environments whose streams can be written down by hand."""

from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.environment import Environment
from jaxenv.task import Task, Transition


@tree.struct
class Count:
    """State of `Counting`: how many episodes and steps lie behind, int32 ``[B]``."""

    episode: jax.Array
    step: jax.Array


class Counting(Task):
    """Counts its steps and ends after as many as it was told, lane by lane and episode by episode.

    The observation is ``stride * episode + step`` (int32), the action an integer in 0 .. 9. With ``pays="action"`` the
    reward is the action, with ``pays="end"`` it is 1 on the step that ends the episode and 0 before.

    Args:
        lengths: int32 ``[E]``, the length of episode e is ``lengths[e % E]``; ``[B, E]`` for each lane its own. An
            episode of length 0 never ends.
        stride: what an episode adds to the observation.
        pays: ``"action"`` or ``"end"``.
    """

    lengths: Any = tree.leaf(rank=1, dtype=np.int32)
    stride: int = tree.static(default=0)
    pays: Literal["action", "end"] = tree.static(default="action")

    def check(self):
        if self.pays not in ("action", "end"):
            raise ValueError(f"Counting: pays must be 'action' or 'end', got {self.pays!r}")

    def initial(self, stream):
        return Count(jnp.zeros(stream.shape, jnp.int32), jnp.zeros(stream.shape, jnp.int32))

    def carry(self, old, new):
        return Count(old.episode + 1, new.step)

    def transition(self, state, action, stream):
        step = state.step + 1
        lengths = jnp.broadcast_to(self.lengths, (*step.shape, np.shape(self.lengths)[-1]))
        index = state.episode % lengths.shape[-1]
        ended = step == jnp.take_along_axis(lengths, index[:, None], axis=-1)[:, 0]
        reward = (action if self.pays == "action" else ended).astype(jnp.float32)
        return Transition(Count(state.episode, step), reward, terminated=ended)

    def observe(self, state):
        return self.stride * state.episode + state.step

    def observation_spec(self):
        return specs.Array((), np.int32, "observation")

    def action_spec(self):
        return specs.discrete(10, name="action")


def mock_012(num_envs: int = 1) -> Counting:
    """TF-Agents' mock: observations 0, 1, 2, 0, ...; the third row is LAST with reward 1 and discount 0."""
    return Counting(np.array([2]), pays="end", num_envs=num_envs)


class Chain(Task):
    """A corridor of ``length`` cells: 1 goes right, 0 goes left, the last cell pays 1 and ends the episode.

    The observation is the cell, int32 ``[B]`` in 0 .. length - 1.
    """

    length: int = tree.static(default=5)

    def check(self):
        if self.length < 2:
            raise ValueError(f"Chain: length must be at least 2, got {self.length}")

    def initial(self, stream):
        return jnp.zeros(stream.shape, jnp.int32)

    def transition(self, state, action, stream):
        cell = jnp.clip(state + 2 * action - 1, 0, self.length - 1)
        arrived = cell == self.length - 1
        return Transition(cell, reward=arrived.astype(jnp.float32), terminated=arrived)

    def observe(self, state):
        return state

    def observation_spec(self):
        return specs.discrete(self.length, name="observation")

    def action_spec(self):
        return specs.discrete(2, name="action")


class RandomEnvironment(Task):
    """Observations and rewards drawn from specs; each lane ends by chance, on its own.

    Made by `random_environment`. The state is the observation, a tree of ``[B, ...]``.
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
        observation_spec: tree of specs that observations are drawn from.
        action_spec: tree of specs of the action, which changes nothing.
        reward_spec: float32 spec of the reward, uniform in [0, 1) by default; of shape ``(R,)`` for a vector reward.
        end_probability: chance that a step ends the episode: one number, or one per lane.
        num_envs: how many lanes.
    """
    reward_spec = specs.Bounded((), np.float32, 0.0, 1.0, "reward") if reward_spec is None else reward_spec
    spaces = tree.Static({"observation": observation_spec, "action": action_spec, "reward": reward_spec})
    return RandomEnvironment(end_probability, spaces=spaces, num_envs=num_envs)


def every_kind(num_envs: int = 1) -> list[Environment]:
    """Toys of every kind of space: integers that end in writing, floats, and trees of spaces with a vector reward."""
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
