"""A toy environment: a corridor with a reward at its end."""

import jax.numpy as jnp

from jaxenv import specs, tree
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
