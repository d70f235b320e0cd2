"""An environment in gymnax's form, as a template: `jaxenv certify corridor:Corridor --api gymnax` checks it."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from gymnax.environments import environment, spaces


class Params(NamedTuple):
    """The numbers that a user may change."""

    max_steps_in_episode: int = 40


class State(NamedTuple):
    """Where the agent is, and after how many steps."""

    cell: jax.Array
    time: jax.Array


class Corridor(environment.Environment):
    """Walk along nine cells to the last one; one step in ten slips."""

    default_params = Params()

    def action_space(self, params):
        return spaces.Discrete(2)

    def observation_space(self, params):
        return spaces.Box(0, 8, (1,), jnp.int32)

    def reset_env(self, key, params):
        state = State(jax.random.randint(key, (), 0, 4), jnp.int32(0))
        return state.cell[None], state

    def step_env(self, key, state, action, params):
        move = jnp.where(jax.random.bernoulli(key, 0.1), 0, 2 * action - 1)
        state = State(jnp.clip(state.cell + move, 0, 8), state.time + 1)
        terminated = state.cell == 8
        return state.cell[None], state, jnp.float32(terminated), terminated, {}
