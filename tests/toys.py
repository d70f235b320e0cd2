"""Toy wrappers, environments and ids for tests of the registry, ``make`` and stacks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import specs
from jaxenv.core import registry
from jaxenv.core.task import Task
from jaxenv.core.timestep import Transition
from jaxenv.core.wrapper import Wrapper, layers
from jaxenv.testing import Chain, Counting
from jaxenv.wrappers import BatchWrapper, LaneWrapper, RewardWrapper


class Repeat(Wrapper):
    """Steps three times."""

    owns = frozenset({"reward"})
    place = "several_steps"

    def proceed(self, state, action):
        for _ in range(3):
            state, timestep = self.env.proceed(state, action)
        return state, timestep


class Endless(Wrapper):
    """Stands in for a wrapper that removes episode ends."""

    place = "hides_ends"


class Remember(LaneWrapper):
    """Counts the rows of an episode."""

    def init(self, timestep, stream):
        return jnp.zeros_like(timestep.step_type)

    def after(self, own, timestep, stream):
        return own + 1, timestep


class Mean(BatchWrapper):
    """Subtracts the mean of all rewards so far from the observation's first element."""

    owns = frozenset({"observation"})

    def init(self, timestep):
        return {"total": jnp.float32(0), "rows": jnp.float32(0)}

    def after(self, shared, lanes, timestep, learn):
        rows = np.float32(timestep.step_type.shape[0])
        seen = {"total": shared["total"] + jnp.sum(timestep.reward), "rows": shared["rows"] + rows}
        return seen, lanes, timestep


class Double(RewardWrapper):
    def reward(self, reward):
        return 2 * reward


class RewardAndObservation(RewardWrapper):
    owns = frozenset({"reward", "observation"})

    def reward(self, reward):
        return reward


class Scatter(Task):
    """Starts at a random position and moves at random, to show what a fixed start determines."""

    def initial(self, stream):
        return jaxenv.random.uniform(stream)

    def transition(self, state, action, stream):
        return Transition(state + jaxenv.random.uniform(stream), state, jnp.zeros(stream.shape, bool))

    def observe(self, state):
        return state

    def observation_spec(self):
        return specs.Array((), np.float32)

    def action_spec(self):
        return specs.discrete(2)


def counting(lengths=(3,), **kwargs):
    """Makes a Counting environment; a factory function instead of a class."""
    return Counting(np.array(lengths), **kwargs)


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    """Registers ids for the duration of a test."""
    monkeypatch.setattr(registry, "_registry", dict(registry._registry))
    jaxenv.register("Chain-v0", Chain, max_episode_steps=7, kwargs={"length": 4})
    jaxenv.register("Counting-v0", counting, max_episode_steps=50)
    jaxenv.register("Scatter-v0", Scatter, max_episode_steps=2)


def names(env):
    """Returns the class names of the layers of a stack, outermost first."""
    return [type(layer).__name__ for layer in layers(env)]


def find(env, cls):
    return next((layer for layer in layers(env) if isinstance(layer, cls)), None)


def stepped(env, num_steps, key=None, action=None):
    """Steps with one action; returns observations ``[T + 1, B]``, and the last state and TimeStep."""

    @jax.jit
    def run(env, key):
        def one(carry, _):
            state, timestep = env.step(carry[0], given)
            return (state, timestep), timestep.observation

        state, first = env.reset(key)
        given = specs.zeros(env.action_spec(), first.step_type.shape) if action is None else action
        last, rest = jax.lax.scan(one, (state, first), length=num_steps)
        return jnp.concatenate([first.observation[None], rest]), last

    return run(env, jax.random.key(0) if key is None else key)
