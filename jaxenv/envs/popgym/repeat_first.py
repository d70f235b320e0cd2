"""Remember the suit of the first card while a deck is dealt, and name it at every step.

Reference: POPGym 1.0.7 ``RepeatFirst`` (tests/envs/popgym/test_parity.py).
Paper: Morad et al. (2023), "POPGym: Benchmarking Partially Observable Reinforcement Learning", arXiv:2303.01859.

Observation   int32        the suit of the last card: 0 spades, 1 diamonds, 2 clubs, 3 hearts; with observability="full"
                           (int32, float32[4]), the first suit and the fraction of each suit left in the deck
Action        int32        the suit of the first card
Reward        1 / (52 * num_decks - 1) for the right suit, the negative for a wrong one
Starts        with the first card of a shuffled deck
Terminates    with the last card, after 52 * num_decks - 1 steps
Time limit    none
"""

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.canvas import Canvas
from jaxenv.core import Transition
from jaxenv.envs.popgym import _deck
from jaxenv.tree import Tree


@tree.struct
class State:
    """The first card, the last one, and the number of dealt cards of each suit."""

    first: jax.Array  # int32[B]
    card: jax.Array  # int32[B]
    dealt: jax.Array  # int32[B, 4]


class RepeatFirst(_deck.DeckTask):
    """Repeat first; the module docstring is the specification."""

    action_names = _deck.SUIT_NAMES

    def initial(self, stream: random.Stream) -> State:
        card = random.integers(stream, (), 0, _deck.SUITS)
        return State(card, card, _deck.marks(card, _deck.SUITS).astype(jnp.int32))

    def transition(self, state: State, action: jax.Array, stream: random.Stream) -> Transition:
        return self.advance(state, action, _deck.deal(stream, state.dealt, _deck.RANKS * self.num_decks))

    def advance(self, state: State, action: jax.Array, card: jax.Array) -> Transition:
        """Takes one step, given the suit of the next card."""
        reward = _deck.right_or_wrong(action == state.first, 1 / (self.num_cards - 1))
        dealt = _deck.counted(state.dealt, card)
        return Transition(State(state.first, card, dealt), reward, jnp.sum(dealt, axis=-1) == self.num_cards)

    def observe(self, state: State) -> Tree:
        of_each = np.float32(_deck.RANKS * self.num_decks)
        return (state.first, 1 - state.dealt.astype(jnp.float32) / of_each) if self.is_full else state.card

    def observation_spec(self) -> Tree:
        suit = specs.discrete(_deck.SUITS, name="suit")
        return (suit, specs.Bounded((_deck.SUITS,), np.float32, 0, 1, "remaining")) if self.is_full else suit

    def draw(self, state: State, canvas: Canvas) -> Canvas:
        passed = jnp.sum(state.dealt, axis=-1).astype(jnp.float32) / np.float32(self.num_cards)
        return _deck.two_suits(canvas, "FIRST", state.first, state.card, passed)
