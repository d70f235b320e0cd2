"""Come closer to 21 than the dealer, by taking cards one after the other or leaving it at those one has.

Reference: Gymnasium ``Blackjack-v1`` (tests/envs/toy_text/test_blackjack.py).
Source: Sutton and Barto (2018), "Reinforcement Learning: An Introduction", example 5.1.

Observation   (int32, int32, int32)   the player's sum, 4 to 31; the dealer's open card, 1 (ace) to 10; whether the
                                      player has an ace that counts 11, 0 or 1
Action        int32        0 sticks, 1 hits (takes a card)
Reward        at the end 1 for the higher sum, 0 for the same, -1 for the lower; -1 for a bust, at once, and a bust of
              the dealer counts as the lower. With natural 1.5 for winning with an ace and a ten at once; with sab those
              win over all but the same in the dealer's hand
Starts        with two cards each, one of the dealer's open
Terminates    on sticking, or with a sum above 21 (bust)
Time limit    none

The deck is infinite: 13 ranks, each as likely, jack, queen and king count 10. An ace counts 11 as long as that makes no
bust. When the player sticks, the dealer takes cards up to a sum of 17 or more.
"""

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.random import Stream
from jaxenv.task import Task, Transition

_RANKS = np.uint32(13)
# The most that a dealer takes to two cards: two aces, four more, a six (the aces now count 1: 12) and five aces make
# 17. Every other way there is shorter.
DEALER_CARDS = 10
_CARDS_PER_WORD = 4


@tree.struct
class Hand:
    """Cards in hand: ``total``, aces counted as 1, int32 ``[B]``; ``ace``, whether there is one, bool ``[B]``."""

    total: jax.Array
    ace: jax.Array

    @property
    def usable_ace(self) -> jax.Array:
        """Whether an ace counts 11."""
        return self.ace & (self.total <= 11)

    @property
    def value(self) -> jax.Array:
        """The sum that counts."""
        return self.total + jnp.where(self.usable_ace, np.int32(10), np.int32(0))

    @property
    def score(self) -> jax.Array:
        """The sum that counts, 0 for a bust."""
        return jnp.where(self.value <= 21, self.value, np.int32(0))

    def with_card(self, card: jax.Array, taken: jax.Array) -> "Hand":
        """The hand with one card more in the lanes of ``taken``."""
        return Hand(self.total + jnp.where(taken, card, np.int32(0)), self.ace | (taken & (card == 1)))


@tree.struct
class State:
    """``natural``: whether the player holds an ace and a ten and nothing else, bool ``[B]``; cards int32 ``[B]``."""

    player: Hand
    natural: jax.Array
    open_card: jax.Array
    hidden_card: jax.Array


class Blackjack(Task):
    """Blackjack; see the module.

    Attributes:
        natural: whether a win with the first two cards an ace and a ten pays 1.5.
        sab: whether such a hand wins at once unless the dealer has one too, as in Sutton and Barto; ``natural`` then
            counts nothing.
    """

    natural: bool = tree.static(default=False)
    sab: bool = tree.static(default=False)

    def initial(self, stream):
        return self.dealt(*self.cards(stream, 4))

    def transition(self, state, action, stream):
        # One player takes a card or the dealer takes some: the same cards serve both.
        return self.advance(state, action, self.cards(stream, DEALER_CARDS))

    def cards(self, stream: Stream, count: int) -> list[jax.Array]:
        """``count`` cards from the infinite deck, 1 to 10: int32 ``[B]`` each."""
        cards = []
        for word in random.separate_bits(stream, -(-count // _CARDS_PER_WORD)):
            # The word is a fraction of 2**32, its digits to the base 13 are ranks. All 13**4 rows of four are as
            # likely, up to one part in 150,000.
            for _ in range(_CARDS_PER_WORD):
                rank = random.high_product(word, jnp.full_like(word, _RANKS))
                cards.append(jnp.minimum(rank.astype(jnp.int32) + 1, 10))
                word = word * _RANKS
        return cards[:count]

    def dealt(self, open_card: jax.Array, hidden_card: jax.Array, first: jax.Array, second: jax.Array) -> State:
        """The state after dealing: the dealer's two cards, then the player's."""
        player = _hand(first, second)
        return State(player, _is_natural(first, second), open_card, hidden_card)

    def advance(self, state: State, action: jax.Array, cards: list[jax.Array]) -> Transition:
        """One step, given the cards that would be taken one after the other."""
        hits = action == 1
        player = state.player.with_card(cards[0], hits)
        dealer = _hand(state.open_card, state.hidden_card)
        for card in cards:
            dealer = dealer.with_card(card, dealer.value < 17)

        bust = player.value > 21
        result = jnp.sign(player.score - dealer.score).astype(jnp.float32)
        if self.sab:
            wins = state.natural & ~_is_natural(state.open_card, state.hidden_card)
            result = jnp.where(wins, np.float32(1), result)
        elif self.natural:
            result = jnp.where(state.natural & (result == 1), np.float32(1.5), result)
        reward = jnp.where(hits, jnp.where(bust, np.float32(-1), np.float32(0)), result)
        state = State(player, state.natural & ~hits, state.open_card, state.hidden_card)
        return Transition(state, reward, terminated=~hits | bust)

    def observe(self, state):
        return state.player.value, state.open_card, state.player.usable_ace.astype(jnp.int32)

    def observation_spec(self):
        names = ("player_sum", "dealer_card", "usable_ace")
        return tuple(specs.discrete(n, name=name) for n, name in zip((32, 11, 2), names, strict=True))

    def action_spec(self):
        return specs.discrete(2, name="action")


def _hand(first: jax.Array, second: jax.Array) -> Hand:
    return Hand(first + second, (first == 1) | (second == 1))


def _is_natural(first: jax.Array, second: jax.Array) -> jax.Array:
    """Whether two cards are an ace and a ten."""
    return (jnp.minimum(first, second) == 1) & (jnp.maximum(first, second) == 10)
