"""Guess whether the next card of a deck is higher or lower than the last one; counting the dealt cards helps.

Reference: POPGym 1.0.7 ``HigherLower`` (tests/envs/popgym/test_parity.py).
Paper: Morad et al. (2023), "POPGym: Benchmarking Partially Observable Reinforcement Learning", arXiv:2303.01859.

Observation   int32        the rank of the last card, 0 (ace) to 12 (king); with observability="full" float32[13], the
                           fraction of each rank that was dealt
Action        int32        0 guesses higher, 1 lower
Reward        1 / (52 * num_decks) for a right guess, the negative for a wrong one, 0 for equal ranks
Starts        with the first card of a shuffled deck
Terminates    with the last card, after 52 * num_decks - 1 steps
Time limit    none

As in POPGym the full observation does not name the last card: the change since the observation before it does.
"""

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.canvas import GOLD, WHITE, Canvas
from jaxenv.core import Transition
from jaxenv.envs import _cards
from jaxenv.envs.popgym import _deck


@tree.struct
class State:
    """The last card, and the number of dealt cards of each rank."""

    rank: jax.Array  # int32[B]
    dealt: jax.Array  # int32[B, 13]


class HigherLower(_deck.DeckTask):
    """Higher or lower; the module docstring is the specification."""

    action_names = ("higher", "lower")

    def initial(self, stream: random.Stream) -> State:
        rank = random.integers(stream, (), 0, _deck.RANKS)
        return State(rank, _deck.marks(rank, _deck.RANKS).astype(jnp.int32))

    def transition(self, state: State, action: jax.Array, stream: random.Stream) -> Transition:
        return self.advance(state, action, _deck.deal(stream, state.dealt, _deck.SUITS * self.num_decks))

    def advance(self, state: State, action: jax.Array, rank: jax.Array) -> Transition:
        """Takes one step, given the rank of the next card."""
        reward = _deck.right_or_wrong((rank > state.rank) == (action == 0), 1 / self.num_cards)
        dealt = _deck.counted(state.dealt, rank)
        over = jnp.sum(dealt, axis=-1) == self.num_cards
        return Transition(State(rank, dealt), jnp.where(rank == state.rank, np.float32(0), reward), over)

    def observe(self, state: State) -> jax.Array:
        of_each = np.float32(_deck.SUITS * self.num_decks)
        return state.dealt.astype(jnp.float32) / of_each if self.is_full else state.rank

    def observation_spec(self) -> specs.Bounded:
        if self.is_full:
            return specs.Bounded((_deck.RANKS,), np.float32, 0, 1, "dealt")
        return specs.discrete(_deck.RANKS, name="rank")

    def draw(self, state: State, canvas: Canvas) -> Canvas:
        """Paints the last card, and bars for the cards of each rank that remain."""
        canvas = _deck.rank_card(_cards.table(canvas), state.rank, 5, 7)
        for rank, name in enumerate(_deck.RANK_NAMES):
            x, left = 1.1 + 0.65 * rank, _deck.SUITS * self.num_decks - state.dealt[:, rank]
            height = left.astype(jnp.float32) * np.float32(2.7 / (_deck.SUITS * self.num_decks))
            canvas = canvas.box(x, 1.7 + height / 2, 0.45, height, GOLD, alpha=left > 0)
            canvas = canvas.text(name, x, 1.0, 0.4, WHITE, align=0.5)
        return canvas
