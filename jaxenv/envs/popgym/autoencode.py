"""Watch a deck being dealt, then name its suits in reverse order.

Reference: POPGym 1.0.7 ``Autoencode`` (tests/envs/popgym/test_parity.py).
Paper: Morad et al. (2023), "POPGym: Benchmarking Partially Observable Reinforcement Learning", arXiv:2303.01859.

Observation   (int32, int32)   1 while the agent watches, 0 once it has to answer; the suit of the dealt card, 0 from
                               the first answer on; with observability="full" (int32[52 * num_decks], int32,
                               float32[1]), the suits of the deck, which is dealt from its end, the mode as above, and
                               the fraction of the deck that is dealt and not yet answered
Action        int32            the suit: 0 spades, 1 diamonds, 2 clubs, 3 hearts
Reward        1 / (52 * num_decks) for a right answer, the negative for a wrong one; 0 while watching
Starts        with the first card of a shuffled deck
Terminates    with the last answer, after 2 * 52 * num_decks - 1 steps
Time limit    none

The observation of the last card already asks for it: its mode is 0.
"""

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.canvas import GOLD, WHITE, Canvas
from jaxenv.core import Transition
from jaxenv.envs import _cards
from jaxenv.envs._drawing import timeline
from jaxenv.envs.popgym import _deck
from jaxenv.tree import Tree


@tree.struct
class State:
    """The deck and the time."""

    deck: jax.Array  # int32[B, 52 * num_decks], suits, dealt from the end
    time: jax.Array  # int32[B], steps taken


class Autoencode(_deck.DeckTask):
    """Autoencode; the module docstring is the specification."""

    reset_strategy = {"cpu": "cond", "default": "select"}
    action_names = _deck.SUIT_NAMES

    @property
    def last(self) -> int:
        """The step after which the whole deck is dealt."""
        return self.num_cards - 1

    def initial(self, stream: random.Stream) -> State:
        deck = random.permutation(stream, self.num_cards) % _deck.SUITS
        return State(deck, jnp.zeros(stream.shape, jnp.int32))

    def transition(self, state: State, action: jax.Array, stream: random.Stream) -> Transition:
        reward = _deck.right_or_wrong(action == self._card(state), 1 / self.num_cards)
        reward = jnp.where(state.time >= self.last, reward, np.float32(0))
        return Transition(State(state.deck, state.time + 1), reward, state.time == 2 * self.last)

    def _card(self, state: State) -> jax.Array:
        """Returns the suit dealt last, or the one to name: the deck is read to its front, and back again."""
        return _deck.chosen(state.deck, jnp.minimum(jnp.abs(self.last - state.time), self.last))

    def observe(self, state: State) -> Tree:
        watching = (state.time < self.last).astype(jnp.int32)
        if not self.is_full:
            return watching, jnp.where(state.time > self.last, np.int32(0), self._card(state))
        held = self.num_cards - jnp.abs(self.last - state.time)
        return state.deck, watching, (held.astype(jnp.float32) / np.float32(self.num_cards))[:, None]

    def observation_spec(self) -> Tree:
        mode, suit = specs.discrete(2, name="watching"), specs.discrete(_deck.SUITS, name="suit")
        if not self.is_full:
            return mode, suit
        deck = specs.Bounded((self.num_cards,), np.int32, 0, _deck.SUITS - 1, "deck")
        return deck, mode, specs.Bounded((1,), np.float32, 0, 1, "held")

    def draw(self, state: State, canvas: Canvas) -> Canvas:
        """Paints the dealt card, or the one to name."""
        canvas, watching = _deck.suit_card(_cards.table(canvas), self._card(state), 5, 5.8), state.time < self.last
        canvas = canvas.text("WATCH", 5, 8.4, 0.7, WHITE, align=0.5, alpha=watching)
        canvas = canvas.text("WHICH SUIT?", 5, 8.4, 0.7, GOLD, align=0.5, alpha=~watching)
        return timeline(canvas, 1.2, 8.8, 2.0, state.time.astype(jnp.float32) / np.float32(2 * self.last + 1))
