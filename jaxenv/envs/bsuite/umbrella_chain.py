"""Decide once whether to take an umbrella, and receive the outcome at the end of a long chain of random rewards.

Reference: bsuite 0.3.6 ``umbrella_length`` and ``umbrella_distract`` (tests/envs/bsuite/test_umbrella_chain.py).
Paper: Osband et al. (2020), "Behaviour Suite for Reinforcement Learning", arXiv:1908.03568.

Observation   float32[1, 3 + n_distractor]   whether an umbrella is needed, whether one is held, remaining time from 1
                                             to 0, and n_distractor fair coins, redrawn in every step
Action        int32                          1 takes the umbrella, 0 does not; only the first action matters
Reward        1 or -1 by a fair coin; in the last step 1 if held and needed agree, else -1
Starts        needed and held by fair coins
Terminates    with step chain_length
Time limit    none
env_info      total_regret: float32, 2 for every wrong choice, accumulated over the episodes of a lane
"""

import math

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.canvas import BLUE, GOLD, GREY, INK, ORANGE, PURPLE, SILVER, Canvas, turn
from jaxenv.core import Task, Transition
from jaxenv.envs._drawing import person
from jaxenv.envs.bsuite._chains import draw_steps_left, flips, num_words


@tree.struct
class Params:
    """A scalar, or ``[B]`` for one value per lane."""

    chain_length: int = tree.leaf(default=10, unit="steps", low=1)


@tree.struct
class State:
    """The task of an episode, the coins of the last step, and a counter."""

    time: jax.Array  # int32[B], steps taken
    needed: jax.Array  # bool[B]
    held: jax.Array  # bool[B]
    coins: tuple[jax.Array, ...]  # uint32[B] words of 32 coins: two for the task, then the distractors
    failures: jax.Array  # int32[B], wrong choices in all episodes


class UmbrellaChain(Task):
    """Umbrella chain; the module docstring is the specification."""

    params: Params = Params()
    n_distractor: int = tree.static(default=0, low=0, doc="number of coins in the observation without information")
    finite_observation = True
    action_names = ("leave", "take")

    def initial(self, stream: random.Stream) -> State:
        words = self._words(stream)
        both = flips(words[:1], 2)
        lanes = jnp.zeros(stream.shape, jnp.int32)
        return State(lanes, needed=both[:, 0], held=both[:, 1], coins=words, failures=lanes)

    def carry(self, old: State, new: State) -> State:
        return tree.rebuild(new, failures=old.failures)

    def transition(self, state: State, action: jax.Array, stream: random.Stream) -> Transition:
        return self.advance(state, action, self._words(stream))

    def advance(self, state: State, action: jax.Array, words: tuple[jax.Array, ...]) -> Transition:
        """Takes one step, given its coins: the first one determines the reward, the second is unused."""
        held = jnp.where(state.time == 0, action == 1, state.held)
        time = state.time + 1
        ended = time == self.params.chain_length
        failed = held != state.needed
        good = jnp.where(ended, ~failed, flips(words[:1], 1)[:, 0])
        state = State(time, state.needed, held, words, state.failures + (ended & failed).astype(jnp.int32))
        return Transition(state, 2 * good.astype(jnp.float32) - 1, terminated=ended)

    def observe(self, state: State) -> jax.Array:
        length = self.params.chain_length
        time_left = (length - state.time).astype(jnp.float32) / jnp.asarray(length, jnp.float32)
        head = jnp.stack([state.needed.astype(jnp.float32), state.held.astype(jnp.float32), time_left], axis=-1)
        distractors = self._distractors(state).astype(jnp.float32)
        return jnp.concatenate([head, distractors], axis=-1)[:, None]

    def state_info(self, state: State) -> dict[str, jax.Array]:
        return {"total_regret": np.float32(2) * state.failures.astype(jnp.float32)}

    def observation_spec(self) -> specs.Bounded:
        return specs.Bounded((1, 3 + self.n_distractor), np.float32, 0, 1, "observation")

    def action_spec(self) -> specs.Bounded:
        return specs.discrete(2, name="action")

    def _words(self, stream: random.Stream) -> tuple[jax.Array, ...]:
        return random.separate_bits(stream, num_words(2 + self.n_distractor))

    def _distractors(self, state: State) -> jax.Array:
        return flips(state.coins, 2 + self.n_distractor)[:, 2:]

    def draw(self, state: State, canvas: Canvas) -> Canvas:
        """Paints the weather, a person with or without an umbrella, and on the right the coins of the observation."""
        canvas = canvas.view((0, 10), (0, 10))
        canvas = _rain(canvas, state.held).where(state.needed, _sun(canvas))
        canvas = canvas.box(5, _GROUND - 0.1, 8.8, 0.16, INK, corner=0.08)
        canvas = person(canvas, ORANGE, 5.0, _GROUND + 0.9, 2.2)
        rim = [turn(_CANOPY_RADIUS, 0.0, angle) for angle in np.linspace(0, math.pi, 17).tolist()]
        umbrella = canvas.line(5.6, _GROUND + 0.7, 5.6, _CANOPY_Y + 2.4, 0.16, INK)
        umbrella = umbrella.polygon([(_CANOPY_X + x, _CANOPY_Y + y) for x, y in rim], PURPLE)
        canvas = umbrella.where(state.held, canvas)
        heads = self._distractors(state)
        for number in range(self.n_distractor):
            column, row = divmod(number, 20)
            x, y = 9.7 - 0.4 * column, 9.7 - 0.4 * row
            canvas = canvas.disc(x, y, 0.15, SILVER).disc(x, y, 0.15, INK, heads[:, number])
        return draw_steps_left(canvas, state.time, self.params.chain_length)


# --- the picture -----------------------------------------------------------------------------------------------------

_GROUND = 2.1
_CANOPY_X, _CANOPY_Y, _CANOPY_RADIUS = 5.3, 4.5, 2.2


def _sun(canvas: Canvas) -> Canvas:
    canvas = canvas.disc(2.3, 8.2, 0.9, GOLD)
    for angle in (np.arange(8) * math.pi / 4).tolist():
        (x, y), (to_x, to_y) = turn(1.2, 0.0, angle), turn(1.55, 0.0, angle)
        canvas = canvas.line(2.3 + x, 8.2 + y, 2.3 + to_x, 8.2 + to_y, 0.18, GOLD)
    return canvas


def _rain(canvas: Canvas, held: jax.Array) -> Canvas:
    """Paints a cloud and drops, except below an umbrella that is ``held``."""
    for number in range(9):
        x = 1.1 + 0.9 * number
        beyond = _CANOPY_RADIUS**2 - (x - _CANOPY_X) ** 2
        top = _CANOPY_Y + math.sqrt(beyond) if beyond > 0 else 0.0
        for y in (6.5, 5.1, 3.7) if number % 2 else (7.2, 5.8, 4.4, 3.0):
            shown = ~held if y - 0.6 < top else 1.0
            canvas = canvas.line(x + 0.08, y, x - 0.08, y - 0.6, 0.16, BLUE, alpha=shown)
    for x, y, radius in ((3.2, 8.2, 0.9), (4.6, 8.7, 1.1), (6.1, 8.6, 1.0), (7.2, 8.1, 0.8)):
        canvas = canvas.disc(x, y, radius, GREY)
    return canvas.box(5.2, 7.8, 5.2, 1.1, GREY, corner=0.5)
