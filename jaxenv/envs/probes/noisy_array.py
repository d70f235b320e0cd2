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

import math

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.canvas import GREEN, GREY, NIGHT, ORANGE, WHITE, Canvas, Colour, mix
from jaxenv.core import Task, Transition

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
    action_names = ("left", "fire", "right")

    def initial(self, stream: random.Stream) -> State:
        return State(jnp.zeros(stream.shape, jnp.int32), self._noise(stream))

    def transition(self, state: State, action: jax.Array, stream: random.Stream) -> Transition:
        position = jnp.maximum(state.position + action - FIRE, 0)
        # A step past the end of an episode wraps around to the left end.
        position = jnp.where(position == self.num_positions, np.int32(0), position)
        noise = jnp.where((action == FIRE)[:, None], self._noise(stream), state.noise)
        arrived = position == self.num_positions - 1
        return Transition(State(position, noise), arrived.astype(jnp.float32), terminated=arrived)

    def observe(self, state: State) -> jax.Array:
        position = state.position[:, None] == np.arange(self.num_positions, dtype=np.int32)[None]
        return jnp.concatenate([position.astype(jnp.float32), self._bits(state).astype(jnp.float32)], axis=-1)

    def observation_spec(self) -> specs.Bounded:
        return specs.Bounded((self.num_positions + self.num_noise_bits,), np.float32, 0, 1, "observation")

    def action_spec(self) -> specs.Bounded:
        return specs.discrete(3, name="action")

    def _bits(self, state: State) -> jax.Array:
        """Returns the noise bits, uint32 ``[B, num_noise_bits]``."""
        bits = (state.noise[:, :, None] >> np.arange(32, dtype=np.uint32)[None, None]) & np.uint32(1)
        return bits.reshape(bits.shape[0], 32 * bits.shape[1])[:, : self.num_noise_bits]

    def _noise(self, stream: random.Stream) -> jax.Array:
        return random.bits(stream, (-(-self.num_noise_bits // 32),))

    def draw(self, state: State, canvas: Canvas) -> Canvas:
        """Paints the array with the agent and its goal in the first row, and the noise bits below."""
        n, columns = self.num_positions, max(self.num_positions, math.ceil(math.sqrt(self.num_noise_bits)))
        place = np.arange(columns, dtype=np.int32)[None]
        goal = np.where(place == n - 1, np.int32(2), np.where(place < n - 1, np.int32(1), np.int32(0)))
        array = goal + jnp.where(place == state.position[:, None], np.int32(2), np.int32(0))
        rows = -(-self.num_noise_bits // columns)
        noise = jnp.pad(5 + self._bits(state).astype(jnp.int32), ((0, 0), (0, rows * columns - self.num_noise_bits)))
        noise = noise.reshape(-1, rows, columns)
        kinds = jnp.concatenate([array[:, None], jnp.zeros_like(array)[:, None], noise], axis=1)
        return canvas.fill(NIGHT).tiles(kinds, _PAINTERS)


# --- the picture -----------------------------------------------------------------------------------------------------


def _place(canvas: Canvas, colour: Colour = mix(NIGHT, WHITE, 0.12)) -> Canvas:
    return canvas.box(0.5, 0.5, 0.92, 0.92, colour, corner=0.1)


_PAINTERS = (
    *(None, _place, lambda canvas: _place(canvas, GREEN)),
    lambda canvas: _place(canvas).disc(0.5, 0.5, 0.34, ORANGE),
    lambda canvas: _place(canvas, GREEN).disc(0.5, 0.5, 0.34, ORANGE),
    lambda canvas: canvas.disc(0.5, 0.5, 0.12, mix(NIGHT, GREY, 0.5)),  # a noise bit of 0, and one of 1
    lambda canvas: canvas.disc(0.5, 0.5, 0.32, GREY),
)
