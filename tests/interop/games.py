"""Small games for tests of the exports of agents."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import specs, tree
from jaxenv.canvas import WHITE
from jaxenv.core import Task, Transition
from tests import games


@tree.struct
class Walk:
    position: jax.Array  # int32[B, 2]
    alive: jax.Array  # bool[B, 2]


class Walkers(Task):
    """Two agents act at once: 0 stays, 1 goes on, 2 leaves. Each gets its position; the second starts at 1.

    The third step forward is not legal. The game ends when both have left.
    """

    agent_names = ("walker_0", "walker_1")

    def initial(self, stream):
        zero = jnp.zeros(stream.shape, jnp.int32)
        return Walk(jnp.stack([zero, zero + 1], axis=1), jnp.ones((*stream.shape, 2), bool))

    def transition(self, state, action, stream):
        acts = jnp.where(state.alive, action, 0)
        position = state.position + (acts == 1).astype(jnp.int32)
        left = acts == 2
        alive = state.alive & ~left
        reward = jnp.where(state.alive, position, 0).astype(jnp.float32)
        return Transition(Walk(position, alive), reward, ~jnp.any(alive, axis=1), {"agent_terminated": left})

    def observe(self, state):
        return jax.nn.one_hot(state.position, 4, dtype=jnp.float32)

    def state_info(self, state):
        legal = jnp.stack([jnp.ones_like(state.alive), state.position < 2, jnp.ones_like(state.alive)], axis=2)
        return {"agent_alive": state.alive, "action_mask": legal | ~state.alive[:, :, None]}

    def observation_spec(self):
        return specs.Bounded((2, 4), np.float32, 0, 1)

    def action_spec(self):
        return specs.Bounded((2,), np.int32, 0, 2)

    def draw(self, state, canvas):
        return canvas.disc(0.2 + 0.2 * state.position[:, 0].astype(jnp.float32), 0.5, 0.1, WHITE)


class Nim(games.Nim):
    """Nim with seven sticks, whose number is observed as a vector."""

    sticks: int = tree.static(default=7)

    def observe(self, state):
        return jax.nn.one_hot(state["left"], 8, dtype=jnp.float32)

    def observation_spec(self):
        return specs.Bounded((8,), np.float32, 0, 1)
