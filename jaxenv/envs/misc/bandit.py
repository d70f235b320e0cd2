"""Base class of bandits for meta-learning: each episode draws new arms, and the observation shows the last pull.

Observation   float32[num_actions + 2]   last reward; last action one-hot; time
Action        int32                      the arm to pull
Terminates    never
env_info      regret: float32, how much more the best arm pays on average than the pulled one

At the start of an episode the last action and the last reward are 0. The time in the observation counts steps, or with
normalize_time ranges from -1 at the start to 1 at step t_max.
"""

import abc
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import specs, tree
from jaxenv.canvas import Canvas
from jaxenv.core import Task, Transition
from jaxenv.envs._arms import Arms
from jaxenv.envs._drawing import timeline
from jaxenv.envs.misc._time_feature import time_bounds, time_feature
from jaxenv.random import Stream


@tree.struct
class Params:
    """Scalars, or ``[B]`` for one value per lane. The params of every bandit have this field."""

    t_max: float = tree.leaf(default=100.0, unit="steps", above=0, doc="the step at which the normalized time is 1")


@tree.struct
class State:
    """The arms of an episode, and the last pull."""

    means: jax.Array  # float32[B, num_actions], the mean reward of each arm
    last_action: jax.Array  # int32[B]
    last_reward: jax.Array  # float32[B]
    time: jax.Array  # int32[B], steps taken


class Bandit(Task):
    """A bandit with random rewards; the module docstring is the specification."""

    # Only the time limit ends an episode, so on most steps no lane ends, and then all lanes end together.
    reset_strategy = {"cpu": "cond", "default": "select"}
    summed_entries = frozenset({"regret"})
    params: Any = Params()
    normalize_time: bool = tree.static(default=True, doc="whether the observed time is from -1 to 1, not a count")

    # --- implemented by each bandit ----------------------------------------------------------------------------------

    @property
    @abc.abstractmethod
    def num_actions(self) -> int:
        """Number of arms."""

    @abc.abstractmethod
    def arms(self, stream: Stream) -> jax.Array:
        """Draws the mean rewards of the arms of an episode: float32 ``[B, num_actions]``."""

    @abc.abstractmethod
    def noise(self, stream: Stream) -> jax.Array:
        """Draws the random number of one pull: float32 ``[B]``."""

    @abc.abstractmethod
    def pay(self, mean: jax.Array, action: jax.Array, noise: jax.Array) -> jax.Array:
        """Returns the reward of pulling arm ``action`` with mean reward ``mean``: float32 ``[B]``."""

    @abc.abstractmethod
    def reward_bounds(self) -> tuple[float, float]:
        """Returns the lower and the upper bound of the rewards."""

    # --- the task ----------------------------------------------------------------------------------------------------

    def initial(self, stream: Stream) -> State:
        lanes = jnp.zeros(stream.shape, jnp.int32)
        return State(self.arms(stream), lanes, jnp.zeros(stream.shape, jnp.float32), lanes)

    def transition(self, state: State, action: jax.Array, stream: Stream) -> Transition:
        return self.advance(state, action, self.noise(stream))

    def advance(self, state: State, action: jax.Array, noise: jax.Array) -> Transition:
        """Pulls an arm, given the random number from `noise`."""
        arms = np.arange(self.num_actions, dtype=np.int32)[None]
        mean = jnp.sum(jnp.where(action[:, None] == arms, state.means, 0.0), axis=-1)
        reward = self.pay(mean, action, noise)
        regret = jnp.max(state.means, axis=-1) - mean
        state = State(state.means, action, reward, state.time + 1)
        return Transition(state, reward, jnp.zeros_like(reward, bool), {"regret": regret})

    def observe(self, state: State) -> jax.Array:
        time = time_feature(state.time, self.params.t_max, self.normalize_time)
        # Stacking columns takes two thirds of the time of concatenating blocks.
        last_action = [(state.last_action == arm).astype(jnp.float32) for arm in range(self.num_actions)]
        return jnp.stack([state.last_reward, *last_action, time], axis=-1)

    def observation_spec(self) -> specs.Bounded:
        (low, high), (first, last) = self.reward_bounds(), time_bounds(self.normalize_time)
        arms = self.num_actions
        bounds = [low, *[0.0] * arms, first], [high, *[1.0] * arms, last]
        return specs.Bounded((arms + 2,), np.float32, *bounds, "observation")

    def action_spec(self) -> specs.Bounded:
        return specs.discrete(self.num_actions, name="action")

    # --- the picture -------------------------------------------------------------------------------------------------

    def picture_bounds(self) -> tuple[Any, Any]:
        """Returns both ends of the picture's scale of rewards: numbers, or float32 ``[B]``."""
        return self.reward_bounds()

    def draw(self, state: State, canvas: Canvas) -> Canvas:
        arms = Arms(self.num_actions, *self.picture_bounds())
        canvas = arms.draw(canvas, state.means)
        canvas = arms.draw_pull(canvas, state.last_action, state.last_reward, state.time > 0)
        return timeline(canvas, 0.7, 9.3, 0.5, state.time.astype(jnp.float32) / self.params.t_max)
