"""Remember bits that are shown at first until, much later, one of them is asked for.

Reference: bsuite 0.3.6 ``memory_len`` and ``memory_size`` (tests/envs/bsuite/test_memory_chain.py).
Paper: Osband et al. (2020), "Behaviour Suite for Reinforcement Learning", arXiv:1908.03568.

Observation   float32[1, 2 + num_bits]   time left, from 1 to 0; the number of the bit that is asked for, 0 until then;
                                         the bits as -1 and 1, 0 later
Action        int32                      0 or 1, the bit that was asked for; only the last action counts
Reward        1 for the right bit, -1 for the wrong one, 0 before
Starts        bits and question uniform
Terminates    with step memory_length + 1
Time limit    none
env_info      total_perfect: int32, right answers; total_regret: float32, 2 for every wrong one; both over all episodes
              of the lane

As in the original the observation lags by one step: that of the reset is shown once more after the first step, the
question stands in the one after step memory_length, and the last one, with time 0, comes with the reward.
"""

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv._checks import is_concrete
from jaxenv.envs.bsuite import coins
from jaxenv.task import Task, Transition


@tree.struct
class Params:
    """A number, or ``[B]`` for one per lane."""

    memory_length: int = tree.leaf(default=5, dtype=np.int32)  # steps from the bits to the question


@tree.struct
class State:
    """The last two are kept across episodes."""

    time: jax.Array  # int32[B], steps so far
    bits: jax.Array  # bool[B, num_bits]
    query: jax.Array  # int32[B], the bit that will be asked for
    right: jax.Array  # int32[B], right answers so far
    wrong: jax.Array  # int32[B]


class MemoryChain(Task):
    """Memory chain; see the module."""

    params: Params = Params()
    num_bits: int = tree.static(default=1)
    finite_observation = True

    def check(self):
        if self.num_bits < 1:
            raise ValueError(f"{self}: num_bits must be at least 1, got {self.num_bits}")
        if is_concrete(self.params.memory_length) and np.any(np.asarray(self.params.memory_length) < 1):
            raise ValueError(f"{self}: memory_length must be at least 1, got {self.params.memory_length}")

    def initial(self, stream):
        first, *words = random.separate_bits(stream, 1 + coins.num_words(self.num_bits))
        query = random.high_product(first, jnp.uint32(self.num_bits)).astype(jnp.int32)
        lanes = jnp.zeros_like(query)
        return State(lanes, coins.flips(words, self.num_bits), query, lanes, lanes)

    def carry(self, old, new):
        return tree.rebuild(new, right=old.right, wrong=old.wrong)

    def transition(self, state, action, stream):
        answered = state.time == self.params.memory_length
        right = answered & ((action == 1) == _asked(state))
        wrong = answered & ~right
        state = tree.rebuild(
            state,
            time=state.time + 1,
            right=state.right + right.astype(jnp.int32),
            wrong=state.wrong + wrong.astype(jnp.int32),
        )
        return Transition(state, right.astype(jnp.float32) - wrong.astype(jnp.float32), terminated=answered)

    def observe(self, state):
        length = self.params.memory_length
        shown = jnp.maximum(state.time - 1, 0)
        time_left = (length - shown).astype(jnp.float32) / jnp.asarray(length, jnp.float32)
        query = jnp.where(shown == length - 1, state.query, 0).astype(jnp.float32)
        bits = jnp.where((shown == 0)[:, None], 2 * state.bits.astype(jnp.float32) - 1, np.float32(0))
        return jnp.concatenate([time_left[:, None], query[:, None], bits], axis=-1)[:, None]

    def state_info(self, state):
        return {"total_perfect": state.right, "total_regret": np.float32(2) * state.wrong.astype(jnp.float32)}

    def observation_spec(self):
        bits = [1] * self.num_bits
        low, high = [[0, 0, *(-b for b in bits)]], [[1, self.num_bits - 1, *bits]]
        return specs.Bounded((1, 2 + self.num_bits), np.float32, low, high, "observation")

    def action_spec(self):
        return specs.discrete(2, name="action")


def _asked(state: State) -> jax.Array:
    chosen = state.query[:, None] == np.arange(state.bits.shape[-1], dtype=np.int32)[None]
    return jnp.any(chosen & state.bits, axis=-1)
