"""Four tasks with known values and policies, to see whether a learner learns at all.

Reference: ALF's ``suite_unittest`` (tests/envs/probes/test_learning_tests.py).

Observation   float32[obs_dim]     see each; PolicyUnittest shows one number
Action        int32 0 or 1; with action_type="continuous" float32[1] in [0, 1]; MixedPolicyUnittest takes a pair of both
Reward        of every step of an episode:
              ValueUnittest          1, whatever is done; the observation is all ones
              PolicyUnittest         1 - |action - observation|; the observation is a new coin, 0 or 1, at every step
              MixedPolicyUnittest    1 if the discrete action says whether the continuous one exceeds 0.5, else 0; the
                                     observation is standard normal noise
              RNNPolicyUnittest      0 in the first gap steps, then 1 if the action says whether the first observation
                                     was positive, 1 - |difference| for continuous ones; that observation is -1 or 1
                                     (and ones in further entries), all later ones are 0
Starts        as the observations say
Terminates    with row episode_length of the episode, the first included: after episode_length - 1 steps
Time limit    none: episodes end by themselves, as the original's do, without a value to go on from

The original's ValueUnittestEnv gives its 1 on the first row of an episode too, where nothing has been done yet.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv._checks import is_concrete
from jaxenv.random import Stream
from jaxenv.task import Task, Transition


@tree.struct
class State:
    """``step``: int32 ``[B]``. ``shown``: float32 ``[B, obs_dim]``, the observation. ``memory``: the task's own."""

    step: jax.Array
    shown: jax.Array
    memory: tuple[jax.Array, ...] = ()


class Unittest(Task):
    """Episodes of one length.

    Attributes:
        episode_length: rows of an episode from FIRST to LAST, at least 2; a number, or one per lane.
        obs_dim: length of the observation.
        action_type: ``"discrete"`` or ``"continuous"``.
    """

    episode_length: Any = tree.leaf(default=13, dtype=np.int32)
    obs_dim: int = tree.static(default=1)
    action_type: str = tree.static(default="discrete")

    def check(self):
        if is_concrete(self.episode_length) and np.any(np.asarray(self.episode_length) < 2):
            raise ValueError(f"{self}: episode_length must be at least 2, got {self.episode_length}")
        if self.obs_dim < 1:
            raise ValueError(f"{self}: obs_dim must be at least 1, got {self.obs_dim}")
        if self.action_type not in ("discrete", "continuous"):
            raise ValueError(f"{self}: action_type must be 'discrete' or 'continuous', got {self.action_type!r}")

    # --- what a task writes ------------------------------------------------------------------------------------------

    def start(self, stream: Stream) -> tuple[jax.Array, tuple[jax.Array, ...]]:
        """The first observation of an episode, and what the task keeps of it."""
        return self.show(stream), ()

    def show(self, stream: Stream) -> jax.Array:
        """A later observation, float32 ``[B, obs_dim]``."""
        raise NotImplementedError(f"{type(self).__name__}.show")

    def judge(self, state: State, action: Any) -> jax.Array:
        """The reward of an action, float32 ``[B]``."""
        raise NotImplementedError(f"{type(self).__name__}.judge")

    # --- the environment ---------------------------------------------------------------------------------------------

    def initial(self, stream):
        return State(jnp.zeros(stream.shape, jnp.int32), *self.start(stream))

    def transition(self, state, action, stream):
        reward = self.judge(state, action)
        state = State(state.step + 1, self.show(stream), state.memory)
        return Transition(state, reward, terminated=state.step >= self.episode_length - 1)

    def observe(self, state):
        return state.shown

    def observation_spec(self) -> specs.Array:
        return specs.Array((self.obs_dim,), np.float32, "observation")

    def action_spec(self):
        return _action_spec(self.action_type)


class ValueUnittest(Unittest):
    """Reward 1 for every step: the value of a row is the discounted number of steps to come."""

    def show(self, stream):
        return jnp.ones((*stream.shape, self.obs_dim), jnp.float32)

    def judge(self, state, action):
        return jnp.ones(state.step.shape, jnp.float32)


class PolicyUnittest(Unittest):
    """The right action is the number shown; with ``reward_dim`` above 1 the reward is repeated so many times."""

    reward_dim: int = tree.static(default=1)

    def check(self):
        super().check()
        if self.obs_dim != 1:
            raise ValueError(f"{self}: obs_dim must be 1, got {self.obs_dim}")
        if self.reward_dim < 1:
            raise ValueError(f"{self}: reward_dim must be at least 1, got {self.reward_dim}")

    def show(self, stream):
        return random.bernoulli(stream, (1,)).astype(jnp.float32)

    def judge(self, state, action):
        reward = 1 - jnp.abs(state.shown[:, 0] - _number(action))
        return reward if self.reward_dim == 1 else jnp.repeat(reward[:, None], self.reward_dim, axis=1)

    def observation_spec(self):
        return specs.Bounded((1,), np.float32, 0, 1, "observation")


class MixedPolicyUnittest(Unittest):
    """Two actions that must agree."""

    def check(self):
        super().check()
        if self.action_type != "discrete":
            raise ValueError(f"{self}: action_type does not apply, got {self.action_type!r}")

    def show(self, stream):
        return random.normal(stream, (self.obs_dim,))

    def judge(self, state, action):
        discrete, continuous = action
        return (discrete == (continuous[:, 0] > 0.5).astype(jnp.int32)).astype(jnp.float32)

    def action_spec(self):
        return _action_spec("discrete"), _action_spec("continuous")


class RNNPolicyUnittest(Unittest):
    """The right action, asked for after ``gap`` steps (a number, or one per lane), was shown on the first row."""

    gap: Any = tree.leaf(default=3, dtype=np.int32)

    def check(self):
        super().check()
        if is_concrete(self.gap) and is_concrete(self.episode_length):
            gap, most = np.asarray(self.gap), np.asarray(self.episode_length) - 2
            if np.any((gap < 0) | (gap > most)):
                raise ValueError(f"{self}: gap must be at least 0 and at most episode_length - 2, got {self.gap}")

    def start(self, stream):
        positive = random.bernoulli(stream)
        cue = jnp.where(positive, np.float32(1), np.float32(-1))
        ones = jnp.ones((*stream.shape, self.obs_dim - 1), jnp.float32)
        return jnp.concatenate([cue[:, None], ones], axis=-1), (cue,)

    def show(self, stream):
        return jnp.zeros((*stream.shape, self.obs_dim), jnp.float32)

    def judge(self, state, action):
        (cue,) = state.memory
        reward = 1 - 0.5 * jnp.abs(2 * _number(action) - 1 - cue)
        return jnp.where(state.step + 1 > self.gap, reward, 0.0)

    def observation_spec(self):
        return specs.Bounded((self.obs_dim,), np.float32, -1, 1, "observation")


def _action_spec(kind: str) -> specs.Bounded:
    if kind == "discrete":
        return specs.discrete(2, name="action")
    return specs.Bounded((1,), np.float32, 0.0, 1.0, "action")


def _number(action: jax.Array) -> jax.Array:
    """A discrete action ``[B]`` or a continuous one ``[B, 1]`` as float32 ``[B]``."""
    return action.reshape(action.shape[0]).astype(jnp.float32)
