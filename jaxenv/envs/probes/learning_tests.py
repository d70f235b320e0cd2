"""Four tasks with known values and optimal policies, for testing whether a learner learns at all.

Reference: ALF's ``suite_unittest`` (tests/envs/probes/test_learning_tests.py).

Observation   float32[obs_dim]     see Reward
Action        int32, 0 or 1; float32[1] in [0, 1] with action_type="continuous"; a pair of both in MixedPolicyUnittest
Reward        of every step of an episode:
              ValueUnittest          1 for any action; the observation is all ones
              PolicyUnittest         1 - |action - observation|; the observation is one number, 0 or 1, redrawn at every
                                     step
              MixedPolicyUnittest    1 if the discrete action equals (continuous action > 0.5), else 0; the observation
                                     is standard normal noise
              RNNPolicyUnittest      0 in the first gap steps, then 1 - |action - target|; the target is 1 if the first
                                     entry of the first observation was positive, else 0; that entry is -1 or 1, the
                                     entries after it are 1, and all later observations are 0
Starts        see Reward
Terminates    with row number episode_length of the episode, that is, after episode_length - 1 steps
Time limit    none: episodes terminate, as in the original, so no value is bootstrapped at their end

In the original, ValueUnittestEnv also has reward 1 on the first row of an episode, before any action.
"""

import abc
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.canvas import GREEN, GREY, INK, ORANGE, SILVER, Canvas
from jaxenv.core import Task, Transition, check_choice, check_order


@tree.struct
class State:
    """The current observation, and the data that later rewards depend on."""

    step: jax.Array  # int32[B]
    observation: jax.Array  # float32[B, obs_dim]
    memory: tuple[jax.Array, ...] = ()  # defined by the task


class Unittest(Task):
    """Base class of the tasks: episodes of fixed length."""

    episode_length: Any = tree.leaf(
        default=13, unit="rows", low=2, doc="number of rows of an episode from FIRST to LAST; a number, or one per lane"
    )
    obs_dim: int = tree.static(default=1, low=1, doc="length of the observation")
    action_type: str = tree.static(default="discrete", doc='``"discrete"`` or ``"continuous"``')

    def check(self) -> None:
        check_choice(str(self), "action_type", self.action_type, ("discrete", "continuous"))

    # --- implemented by each task ------------------------------------------------------------------------------------

    def start(self, stream: random.Stream) -> tuple[jax.Array, tuple[jax.Array, ...]]:
        """Returns the first observation of an episode and the value of ``State.memory``."""
        return self.next_observation(stream), ()

    @abc.abstractmethod
    def next_observation(self, stream: random.Stream) -> jax.Array:
        """Returns a later observation, float32 ``[B, obs_dim]``."""

    @abc.abstractmethod
    def reward(self, state: State, action: Any) -> jax.Array:
        """Returns the reward of an action, float32 ``[B]``, or ``[B, reward_dim]``."""

    def best_action(self, state: State) -> tuple[jax.Array, jax.Array] | None:
        """Returns the best action, int32 ``[B]``, and whether the next action counts, bool ``[B]``, for the picture."""
        return None

    # --- the task ----------------------------------------------------------------------------------------------------

    def initial(self, stream: random.Stream) -> State:
        return State(jnp.zeros(stream.shape, jnp.int32), *self.start(stream))

    def transition(self, state: State, action: Any, stream: random.Stream) -> Transition:
        reward = self.reward(state, action)
        state = State(state.step + 1, self.next_observation(stream), state.memory)
        return Transition(state, reward, terminated=state.step >= self.episode_length - 1)

    def observe(self, state: State) -> jax.Array:
        return state.observation

    def observation_spec(self) -> specs.Array:
        return specs.Array((self.obs_dim,), np.float32, "observation")

    def action_spec(self) -> Any:
        return _action_spec(self.action_type)

    def draw(self, state: State, canvas: Canvas) -> Canvas:
        """Paints the observation as bars from -1 to 1, the best action where it is known, and the elapsed time."""
        canvas, best = canvas.view((0, 1), (0, 1)), self.best_action(state)
        width = 0.84 if best is None else 0.44
        canvas = canvas.text("OBSERVED", 0.08, 0.9, 0.04, GREY)
        for level, colour in ((-1, SILVER), (1, SILVER), (0, INK)):
            canvas = canvas.box(0.08 + width / 2, 0.52 + 0.28 * level, width, 0.016, colour)
        for i in range(self.obs_dim):
            x, value = 0.08 + (i + 0.5) * width / self.obs_dim, jnp.clip(state.observation[:, i], -1.2, 1.2)
            thick = 0.6 * width / self.obs_dim
            canvas = canvas.box(x, 0.52 + 0.14 * value, thick, 0.28 * jnp.abs(value), ORANGE)
        if best is not None:
            action, counts = best
            canvas = canvas.text("BEST ACTION", 0.92, 0.9, 0.04, GREY, align=1)
            paint = jnp.where(counts[:, None], GREEN[None], SILVER[None])
            canvas = canvas.number(action, 0.73, 0.39, 0.26, paint, digits=1, align=0.5)
        elapsed = state.step.astype(jnp.float32) / (jnp.asarray(self.episode_length, jnp.float32) - 1)
        return canvas.gauge(elapsed, 0.08, 0.06, 0.84, 0.06, GREY, SILVER)


class ValueUnittest(Unittest):
    """Reward 1 for every step: the value of a row is the discounted number of remaining steps."""

    def next_observation(self, stream: random.Stream) -> jax.Array:
        return jnp.ones((*stream.shape, self.obs_dim), jnp.float32)

    def reward(self, state: State, action: jax.Array) -> jax.Array:
        return jnp.ones(state.step.shape, jnp.float32)


class PolicyUnittest(Unittest):
    """The best action is the observed number."""

    reward_dim: int = tree.static(default=1, low=1, doc="length of the reward; above 1 a vector of equal entries")

    def check(self) -> None:
        super().check()
        if self.obs_dim != 1:
            raise ValueError(f"{self}: obs_dim must be 1, got {self.obs_dim}")

    def next_observation(self, stream: random.Stream) -> jax.Array:
        return random.bernoulli(stream, (1,)).astype(jnp.float32)

    def reward(self, state: State, action: jax.Array) -> jax.Array:
        reward = 1 - jnp.abs(state.observation[:, 0] - _number(action))
        return reward if self.reward_dim == 1 else jnp.repeat(reward[:, None], self.reward_dim, axis=1)

    def best_action(self, state: State) -> tuple[jax.Array, jax.Array] | None:
        return state.observation[:, 0].astype(jnp.int32), jnp.ones(state.step.shape, bool)

    def observation_spec(self) -> specs.Bounded:
        return specs.Bounded((1,), np.float32, 0, 1, "observation")


class MixedPolicyUnittest(Unittest):
    """Two actions that must agree; the observation is irrelevant."""

    def check(self) -> None:
        super().check()
        if self.action_type != "discrete":
            raise ValueError(f"{self}: action_type does not apply, got {self.action_type!r}")

    def next_observation(self, stream: random.Stream) -> jax.Array:
        return random.normal(stream, (self.obs_dim,))

    def reward(self, state: State, action: tuple[jax.Array, jax.Array]) -> jax.Array:
        discrete, continuous = action
        return (discrete == (continuous[:, 0] > 0.5).astype(jnp.int32)).astype(jnp.float32)

    def action_spec(self) -> tuple[specs.Bounded, specs.Bounded]:
        return _action_spec("discrete"), _action_spec("continuous")


class RNNPolicyUnittest(Unittest):
    """The first observation determines the best action after a gap."""

    gap: Any = tree.leaf(default=3, unit="steps", low=0, doc="steps without reward at the start; one or per lane")

    def check(self) -> None:
        super().check()
        check_order(f"{self}", "gap", self.gap, "episode_length - 2", self.episode_length - 2)

    def start(self, stream: random.Stream) -> tuple[jax.Array, tuple[jax.Array, ...]]:
        positive = random.bernoulli(stream)
        cue = jnp.where(positive, np.float32(1), np.float32(-1))
        ones = jnp.ones((*stream.shape, self.obs_dim - 1), jnp.float32)
        return jnp.concatenate([cue[:, None], ones], axis=-1), (cue,)

    def next_observation(self, stream: random.Stream) -> jax.Array:
        return jnp.zeros((*stream.shape, self.obs_dim), jnp.float32)

    def reward(self, state: State, action: jax.Array) -> jax.Array:
        (cue,) = state.memory
        reward = 1 - 0.5 * jnp.abs(2 * _number(action) - 1 - cue)
        return jnp.where(state.step + 1 > self.gap, reward, 0.0)

    def best_action(self, state: State) -> tuple[jax.Array, jax.Array] | None:
        return (state.memory[0] > 0).astype(jnp.int32), state.step >= self.gap

    def observation_spec(self) -> specs.Bounded:
        return specs.Bounded((self.obs_dim,), np.float32, -1, 1, "observation")


def _action_spec(kind: str) -> specs.Bounded:
    if kind == "discrete":
        return specs.discrete(2, name="action")
    return specs.Bounded((1,), np.float32, 0.0, 1.0, "action")


def _number(action: jax.Array) -> jax.Array:
    """Casts a discrete action ``[B]`` or a continuous one ``[B, 1]`` to float32 ``[B]``."""
    return action.reshape(action.shape[0]).astype(jnp.float32)
