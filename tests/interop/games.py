"""Small games for tests of the exports of agents."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import specs, tree
from jaxenv.canvas import WHITE
from jaxenv.core import Task, Transition


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
        position = state.position + (acts == 1)
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
        return canvas.disc(0.2 + 0.2 * state.position[:, 0], 0.5, 0.1, WHITE)


@tree.struct
class Heap:
    sticks: jax.Array  # int32[B]
    player: jax.Array  # int32[B]


class Nim(Task):
    """Two players in turns take 1 to 3 of 7 sticks, action 0 to 2; who takes the last one wins."""

    agent_names = ("first", "second")
    turns = True

    def initial(self, stream):
        return Heap(jnp.full(stream.shape, 7, jnp.int32), jnp.zeros(stream.shape, jnp.int32))

    def transition(self, state, action, stream):
        sticks = state.sticks - action - 1
        won = (sticks == 0).astype(jnp.float32) - (sticks < 0)
        result = jnp.where(state.player == 0, won, -won)
        heap = Heap(jnp.maximum(sticks, 0), 1 - state.player)
        return Transition(heap, jnp.stack([result, -result], axis=1), sticks <= 0)

    def observe(self, state):
        return jax.nn.one_hot(state.sticks, 8, dtype=jnp.float32)

    def state_info(self, state):
        legal = jnp.arange(3) < state.sticks[:, None]
        return {"player": state.player, "action_mask": legal | (state.sticks == 0)[:, None]}

    def observation_spec(self):
        return specs.Bounded((8,), np.float32, 0, 1)

    def action_spec(self):
        return specs.discrete(3)

    def reward_spec(self):
        return specs.Bounded((2,), np.float32, -1, 1)
