"""Walk to the right end of an array while ignoring noise that one of the actions changes.

Reference: ALF's ``NoisyArray`` (tests/envs/probes/test_noisy_array.py).

Observation   float32[num_positions + num_noise_bits]   the position, one-hot, then the noise bits, 0 or 1
Action        int32     0 moves left, 1 fires, which redraws all noise bits, 2 moves right
Reward        1 on reaching the right end, 0 otherwise
Starts        at the left end, with random noise
Terminates    at the right end
Time limit    none

The left end is a wall. An agent that is rewarded for unpredictable observations keeps firing.
"""

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.task import Task, Transition

LEFT, FIRE, RIGHT = (np.int32(i) for i in range(3))


@tree.struct
class State:
    """The position and the noise."""

    position: jax.Array  # int32[B]
    noise: jax.Array  # uint32[B, num_words], 32 noise bits per word


class NoisyArray(Task):
    """A walk with irrelevant noise; see the module docstring."""

    num_positions: int = tree.static(default=11, low=2)
    num_noise_bits: int = tree.static(default=100, low=1)

    def initial(self, stream):
        return State(jnp.zeros(stream.shape, jnp.int32), self._noise(stream))

    def transition(self, state, action, stream):
        position = jnp.maximum(state.position + action - FIRE, 0)
        # A step past the end of an episode wraps around to the left end.
        position = jnp.where(position == self.num_positions, np.int32(0), position)
        noise = jnp.where((action == FIRE)[:, None], self._noise(stream), state.noise)
        arrived = position == self.num_positions - 1
        return Transition(State(position, noise), arrived.astype(jnp.float32), terminated=arrived)

    def observe(self, state):
        position = state.position[:, None] == np.arange(self.num_positions, dtype=np.int32)[None]
        bits = (state.noise[:, :, None] >> np.arange(32, dtype=np.uint32)[None, None]) & np.uint32(1)
        noise = bits.reshape(bits.shape[0], 32 * bits.shape[1])[:, : self.num_noise_bits]
        return jnp.concatenate([position.astype(jnp.float32), noise.astype(jnp.float32)], axis=-1)

    def observation_spec(self):
        return specs.Bounded((self.num_positions + self.num_noise_bits,), np.float32, 0, 1, "observation")

    def action_spec(self):
        return specs.discrete(3, name="action")

    def _noise(self, stream: random.Stream) -> jax.Array:
        return random.bits(stream, (-(-self.num_noise_bits // 32),))
