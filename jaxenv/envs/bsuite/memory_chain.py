"""Remember bits shown in the first observation until the query for one of them, many steps later.

Reference: bsuite 0.3.6 ``memory_len`` and ``memory_size`` (tests/envs/bsuite/test_memory_chain.py).
Paper: Osband et al. (2020), "Behaviour Suite for Reinforcement Learning", arXiv:1908.03568.

Observation   float32[1, 2 + num_bits]   remaining time, from 1 to 0; the index of the queried bit, 0 before the query;
                                         the bits as -1 and 1, later 0
Action        int32                      0 or 1, the queried bit; only the last action matters
Reward        1 for the right bit, -1 for the wrong one, 0 before
Starts        bits and query uniform
Terminates    with step memory_length + 1
Time limit    none
env_info      total_perfect: int32, right answers; total_regret: float32, 2 for every wrong one; both over all episodes

As in bsuite the observation lags by one step: the first one is repeated after the first step, the query appears after
step memory_length, and the last observation, with time 0, accompanies the reward.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.canvas import GREY, INK, ORANGE, PAPER, TEAL, WHITE, Canvas
from jaxenv.core import Task, Transition
from jaxenv.envs.bsuite._chains import draw_steps_left, flips, num_words


@tree.struct
class Params:
    """A scalar, or ``[B]`` for one value per lane."""

    memory_length: int = tree.leaf(default=5, unit="steps", low=1, doc="from the bits to the query")


@tree.struct
class State:
    """The task of an episode, and two counters."""

    time: jax.Array  # int32[B], steps taken
    bits: jax.Array  # bool[B, num_bits]
    query: jax.Array  # int32[B], the index of the queried bit
    right: jax.Array  # int32[B], right answers in all episodes
    wrong: jax.Array  # int32[B], wrong answers in all episodes


class MemoryChain(Task):
    """Memory chain; the module docstring is the specification."""

    params: Params = Params()
    num_bits: int = tree.static(default=1, low=1, doc="number of bits to remember")
    finite_observation = True
    action_names = ("bit 0", "bit 1")

    def initial(self, stream: random.Stream) -> State:
        first, *words = random.separate_bits(stream, 1 + num_words(self.num_bits))
        query = random.high_product(first, jnp.uint32(self.num_bits)).astype(jnp.int32)
        lanes = jnp.zeros_like(query)
        return State(lanes, flips(words, self.num_bits), query, lanes, lanes)

    def carry(self, old: State, new: State) -> State:
        return tree.rebuild(new, right=old.right, wrong=old.wrong)

    def transition(self, state: State, action: jax.Array, stream: random.Stream) -> Transition:
        answered = state.time == self.params.memory_length
        queried = state.query[:, None] == np.arange(state.bits.shape[-1], dtype=np.int32)[None]
        right = answered & ((action == 1) == jnp.any(queried & state.bits, axis=-1))
        wrong = answered & ~right
        state = tree.rebuild(
            state,
            time=state.time + 1,
            right=state.right + right.astype(jnp.int32),
            wrong=state.wrong + wrong.astype(jnp.int32),
        )
        return Transition(state, right.astype(jnp.float32) - wrong.astype(jnp.float32), terminated=answered)

    def observe(self, state: State) -> jax.Array:
        length = self.params.memory_length
        shown = jnp.maximum(state.time - 1, 0)
        time_left = (length - shown).astype(jnp.float32) / jnp.asarray(length, jnp.float32)
        query = jnp.where(shown == length - 1, state.query, 0).astype(jnp.float32)
        bits = jnp.where((shown == 0)[:, None], 2 * state.bits.astype(jnp.float32) - 1, np.float32(0))
        return jnp.concatenate([time_left[:, None], query[:, None], bits], axis=-1)[:, None]

    def state_info(self, state: State) -> dict[str, jax.Array]:
        return {"total_perfect": state.right, "total_regret": np.float32(2) * state.wrong.astype(jnp.float32)}

    def observation_spec(self) -> specs.Bounded:
        bits = [1] * self.num_bits
        low, high = [[0, 0, *(-b for b in bits)]], [[1, self.num_bits - 1, *bits]]
        return specs.Bounded((1, 2 + self.num_bits), np.float32, low, high, "observation")

    def action_spec(self) -> specs.Bounded:
        return specs.discrete(2, name="action")

    def draw(self, state: State, canvas: Canvas) -> Canvas:
        """Paints the bits, pale while the agent does not see them, with a frame around the queried one."""
        time, length = state.time, self.params.memory_length
        canvas = canvas.view((0, 10), (0, 10))
        # As in the observation, which lags by one step.
        seen, asked, over = time <= 1, jnp.maximum(time, 1) == length, time > length
        count = self.num_bits
        columns = math.ceil(math.sqrt(2 * count)) if count > 4 else count
        rows = -(-count // columns)
        side = min(8.8 / columns, 5.0 / rows, 3.4)
        bright = jnp.where(seen, np.float32(1), np.float32(0.3))
        known = jnp.where(asked | over, np.float32(1), np.float32(0.3))
        for number in range(count):
            row, column = divmod(number, columns)
            x = 5 + side * (column - (columns - 1) / 2)
            y = 6.7 - side * (row - (rows - 1) / 2)
            bit, queried = state.bits[:, number].astype(jnp.float32), (state.query == number).astype(jnp.float32)
            canvas = canvas.box(x, y, 0.98 * side, 0.98 * side, ORANGE, corner=0.2 * side, alpha=queried * known)
            canvas = canvas.box(x, y, 0.78 * side, 0.78 * side, PAPER, corner=0.12 * side)
            canvas = canvas.box(x, y, 0.74 * side, 0.74 * side, INK, corner=0.12 * side, alpha=bright * (1 - bit))
            canvas = canvas.box(x, y, 0.74 * side, 0.74 * side, TEAL, corner=0.12 * side, alpha=bright * bit)
            canvas = canvas.number(bit.astype(jnp.int32), x, y - 0.2 * side, 0.4 * side, WHITE, digits=1, align=0.5)
        for text, colour, shown in (
            ("SHOWN", TEAL, seen & ~asked),
            ("HIDDEN", GREY, ~(seen | asked | over)),
            ("WHICH BIT?", ORANGE, asked),
            ("ANSWERED", INK, over),
        ):
            canvas = canvas.text(text, 5, 2.5, 0.8, colour, align=0.5, alpha=shown)
        return draw_steps_left(canvas, time, length + 1)
