"""Name the suit of the card that was dealt some steps ago.

Reference: POPGym 1.0.7 ``RepeatPrevious`` (tests/envs/popgym/test_parity.py).
Paper: Morad et al. (2023), "POPGym: Benchmarking Partially Observable Reinforcement Learning", arXiv:2303.01859.

Observation   int32        the suit of the last card: 0 spades, 1 diamonds, 2 clubs, 3 hearts; with observability="full"
                           (int32[k], float32[4]), the suits of the last k cards, the oldest one first, 0 before the
                           first card, and the fraction of each suit left in the deck
Action        int32        the suit of the k-th last card; k = 1 is the observed one
Reward        1 / (52 * num_decks - k) for the right suit, the negative for a wrong one; 0 before k cards were dealt
Starts        with the first card of a shuffled deck
Terminates    with the last card, after 52 * num_decks - 1 steps
Time limit    none
"""

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.canvas import Canvas
from jaxenv.core import Range, Transition
from jaxenv.envs.popgym import _deck
from jaxenv.tree import Tree


@tree.struct
class State:
    """The last cards, and the number of dealt cards of each suit."""

    cards: jax.Array  # int32[B, k], the oldest one first; 0 before the first card
    dealt: jax.Array  # int32[B, 4]


class RepeatPrevious(_deck.DeckTask):
    """Repeat previous; the module docstring is the specification."""

    k: int = tree.static(default=4, low=1, doc="which of the last cards to name; 1 is the observed one")
    action_names = _deck.SUIT_NAMES

    def check(self) -> None:
        super().check()
        Range(high=self.num_cards - 1).check(f"{self}", "k", self.k)

    def initial(self, stream: random.Stream) -> State:
        card = random.integers(stream, (), 0, _deck.SUITS)
        cards = jnp.pad(card[:, None], ((0, 0), (self.k - 1, 0)))
        return State(cards, _deck.marks(card, _deck.SUITS).astype(jnp.int32))

    def transition(self, state: State, action: jax.Array, stream: random.Stream) -> Transition:
        return self.advance(state, action, _deck.deal(stream, state.dealt, _deck.RANKS * self.num_decks))

    def advance(self, state: State, action: jax.Array, card: jax.Array) -> Transition:
        """Takes one step, given the suit of the next card."""
        reward = _deck.right_or_wrong(action == state.cards[:, 0], 1 / (self.num_cards - self.k))
        reward = jnp.where(jnp.sum(state.dealt, axis=-1) >= self.k, reward, np.float32(0))
        dealt = _deck.counted(state.dealt, card)
        cards = jnp.concatenate([state.cards[:, 1:], card[:, None]], axis=1)
        return Transition(State(cards, dealt), reward, jnp.sum(dealt, axis=-1) == self.num_cards)

    def observe(self, state: State) -> Tree:
        of_each = np.float32(_deck.RANKS * self.num_decks)
        return (state.cards, 1 - state.dealt.astype(jnp.float32) / of_each) if self.is_full else state.cards[:, -1]

    def observation_spec(self) -> Tree:
        if not self.is_full:
            return specs.discrete(_deck.SUITS, name="suit")
        cards = specs.Bounded((self.k,), np.int32, 0, _deck.SUITS - 1, "suits")
        return cards, specs.Bounded((_deck.SUITS,), np.float32, 0, 1, "remaining")

    def draw(self, state: State, canvas: Canvas) -> Canvas:
        """Paints the card to name, once there is one, and the last card."""
        number = jnp.sum(state.dealt, axis=-1)
        asked, passed = (number >= self.k).astype(jnp.float32), number.astype(jnp.float32) / np.float32(self.num_cards)
        return _deck.two_suits(canvas, f"{self.k} AGO", state.cards[:, 0], state.cards[:, -1], passed, asked)
