"""Sound environments, from which the broken ones derive."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.core.environment import Environment
from jaxenv.core.task import Task
from jaxenv.core.timestep import Transition
from jaxenv.core.wrapper import Wrapper
from jaxenv.wrappers import AutoReset, TimeLimit


@tree.struct
class Params:
    """``stride``: the length of a step; ``spread``: the largest distance of the start from 0."""

    stride: float = 0.3
    spread: float = 0.5


@tree.struct
class Place:
    """``x``: float32 ``[B]``."""

    x: jax.Array


class Walk(Task):
    """Steps left or right from a random place near 0 and terminates beyond -1 and 1."""

    params: Params = Params()

    def initial(self, stream):
        return Place(random.uniform(stream, (), -self.params.spread, self.params.spread))

    def transition(self, state, action, stream):
        x = jnp.clip(state.x + self.params.stride * (2 * action - 1).astype(jnp.float32), -4, 4)
        return Transition(Place(x), reward=x, terminated=jnp.abs(x) > 1)

    def observe(self, state):
        return state.x[:, None]

    def observation_spec(self):
        return specs.Bounded((1,), np.float32, -4, 4, "observation")

    def action_spec(self):
        return specs.discrete(2, name="action")

    def state_info(self, state):
        return {"action_mask": jnp.ones((*state.x.shape, 2), bool)}

    def initial_bounds(self):
        return (-self.params.spread,), (self.params.spread,)


class Glide(Walk):
    """A walk with a continuous action from -1 to 1."""

    def transition(self, state, action, stream):
        x = jnp.clip(state.x + self.params.stride * action[:, 0], -4, 4)
        return Transition(Place(x), reward=x, terminated=jnp.abs(x) > 1)

    def action_spec(self):
        return specs.Bounded((1,), np.float32, -1, 1, "action")

    def state_info(self, state):
        return {}


class DictWalk(Walk):
    """A walk whose state is a dict."""

    def initial(self, stream):
        return {"x": super().initial(stream).x}

    def initial_bounds(self):
        return None

    def transition(self, state, action, stream):
        out = super().transition(Place(state["x"]), action, stream)
        return dataclasses.replace(out, state={"x": out.state.x})

    def observe(self, state):
        return state["x"][:, None]

    def state_info(self, state):
        return {}


class Paying(Walk):
    """A walk that adds ``extra(x, action)`` to the reward."""

    def transition(self, state, action, stream):
        out = super().transition(state, action, stream)
        return dataclasses.replace(out, reward=out.reward + self.extra(out.state.x, action))


class Stepped(Wrapper):
    """A wrapper that applies ``change`` to every row of ``step``."""

    owns = frozenset({"reward", "observation", "discount", "env_info"})

    def proceed(self, state, action):
        state, timestep = self.env.proceed(state, action)
        return state, self.change(timestep)

    def observation_spec(self):
        return self.env.observation_spec()


def walk() -> Environment:
    return Walk()


def glide() -> Environment:
    return Glide()


def limited() -> Environment:
    return TimeLimit(Walk(), 20)


def restarted() -> Environment:
    return AutoReset(TimeLimit(Walk(), 20))
