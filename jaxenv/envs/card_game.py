"""Draw cards to get as close to 21 as possible without exceeding it.

Reference: the card game of the TF-Agents tutorial "Environments" (tests/envs/test_card_game.py) with one correction:
there a sum of 21 or more does not mark the episode as ended, and draws return LAST repeatedly. Here FIRST follows LAST.

Observation   int32[1]     sum of the cards, 0 to 30
Action        int32        0 draws a card, uniform from 1 to 10; 1 stops
Reward        in the last step sum - 21, or -21 if the sum exceeds 21; 0 before
Starts        without cards
Terminates    on stopping, or with a sum of 21 or more
Time limit    none; an episode has at most 21 draws
"""

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.canvas import Canvas
from jaxenv.core import Task, Transition
from jaxenv.envs import _cards


@tree.struct
class State:
    """The sum of the cards."""

    total: jax.Array  # int32[B]


class CardGame(Task):
    """The card game; the module docstring is the specification."""

    # On CPU `cond` keeps XLA from repeating the draw in every fusion; see docs/evidence/benchmarks.md.
    reset_strategy = {"cpu": "cond", "default": "select"}
    action_names = ("draw", "stop")

    def initial(self, stream: random.Stream) -> State:
        return State(jnp.zeros(stream.shape, jnp.int32))

    def transition(self, state: State, action: jax.Array, stream: random.Stream) -> Transition:
        card = random.integers(stream, (), 1, 11)
        stops = action == 1
        total = state.total + jnp.where(stops, np.int32(0), card)
        ended = stops | (total >= 21)
        score = jnp.where(total <= 21, total - 21, np.int32(-21)).astype(jnp.float32)
        return Transition(State(total), reward=jnp.where(ended, score, np.float32(0)), terminated=ended)

    def observe(self, state: State) -> jax.Array:
        return state.total[:, None]

    def observation_spec(self) -> specs.Bounded:
        return specs.Bounded((1,), np.int32, 0, 30, "observation")

    def action_spec(self) -> specs.Bounded:
        return specs.discrete(2, name="action")

    def draw(self, state: State, canvas: Canvas) -> Canvas:
        canvas = _cards.table(canvas)
        for offset in (-0.12, 0.0, 0.12):
            canvas = _cards.closed_card(canvas, 2.6 + offset, 6 + offset)
        return _cards.hand(_cards.scale(canvas, state.total), state.total, 6.6, 6)
