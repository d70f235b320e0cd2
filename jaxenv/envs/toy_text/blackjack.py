"""Get closer to 21 than the dealer without exceeding it, by taking cards one at a time.

Reference: Gymnasium ``Blackjack-v1`` (tests/envs/toy_text/test_blackjack.py).
Source: Sutton and Barto (2018), "Reinforcement Learning: An Introduction", example 5.1.

Observation   (int32, int32, int32)   the player's sum, 4 to 31; the dealer's open card, 1 (ace) to 10; 1 if the player
                                      holds an ace counted as 11, else 0
Action        int32        0 sticks, 1 hits (takes a card)
Reward        on sticking 1 for the higher sum, 0 for equal sums, -1 for the lower; -1 for going bust. With natural,
              winning with an initial ace and ten pays 1.5; with sab, it beats every hand but an ace and a ten
Starts        with two cards each, one of the dealer's open
Terminates    on sticking, or with a sum above 21 (bust)
Time limit    none

The deck is infinite: 13 equally likely ranks, where jack, queen and king count 10. An ace counts 11 unless that exceeds
21. When the player sticks, the dealer takes cards up to a sum of 17 or more; a bust dealer has the lower sum.
"""

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.canvas import Canvas
from jaxenv.core import Task, Transition
from jaxenv.envs import _cards

_RANKS = np.uint32(13)
# The longest sequence of a dealer: two aces, then four aces, a six (now aces count 1: 12) and five aces.
DEALER_CARDS = 10
_CARDS_PER_WORD = 4


@tree.struct
class Hand:
    """The cards of the player or the dealer."""

    total: jax.Array  # int32[B], aces counted as 1
    ace: jax.Array  # bool[B], whether there is an ace

    @property
    def usable_ace(self) -> jax.Array:
        """Whether an ace counts 11: bool ``[B]``."""
        return self.ace & (self.total <= 11)

    @property
    def value(self) -> jax.Array:
        """The sum with a usable ace as 11: int32 ``[B]``."""
        return self.total + jnp.where(self.usable_ace, np.int32(10), np.int32(0))

    @property
    def score(self) -> jax.Array:
        """The value, or 0 for a bust: int32 ``[B]``."""
        return jnp.where(self.value <= 21, self.value, np.int32(0))

    def with_card(self, card: jax.Array, taken: jax.Array) -> "Hand":
        """Adds ``card`` to the hand in the lanes where ``taken`` is true."""
        return Hand(self.total + jnp.where(taken, card, np.int32(0)), self.ace | (taken & (card == 1)))


@tree.struct
class State:
    """The player's hand and the dealer's two cards."""

    player: Hand
    natural: jax.Array  # bool[B], whether the player holds just an ace and a ten
    open_card: jax.Array  # int32[B]
    hidden_card: jax.Array  # int32[B]


class Blackjack(Task):
    """Blackjack; the module docstring is the specification."""

    natural: bool = tree.static(default=False, doc="whether winning with an initial ace and ten pays 1.5")
    sab: bool = tree.static(
        default=False,
        doc="whether an initial ace and ten wins unless the dealer has one too, as in Sutton and "
        "Barto; overrides ``natural``",
    )
    action_names = ("stick", "hit")

    def initial(self, stream: random.Stream) -> State:
        return self.deal(*self.draw_cards(stream, 4))

    def transition(self, state: State, action: jax.Array, stream: random.Stream) -> Transition:
        # Either the player or the dealer takes cards in a step, so one set of cards serves both.
        return self.advance(state, action, self.draw_cards(stream, DEALER_CARDS))

    def draw_cards(self, stream: random.Stream, count: int) -> list[jax.Array]:
        """Draws ``count`` cards from the infinite deck, 1 to 10: int32 ``[B]`` each."""
        cards = []
        for word in random.separate_bits(stream, -(-count // _CARDS_PER_WORD)):
            # The base-13 digits of word / 2**32 are the ranks. All sequences are equally likely to 7e-6.
            for _ in range(_CARDS_PER_WORD):
                rank = random.high_product(word, jnp.full_like(word, _RANKS))
                cards.append(jnp.minimum(rank.astype(jnp.int32) + 1, 10))
                word = word * _RANKS
        return cards[:count]

    def deal(self, open_card: jax.Array, hidden_card: jax.Array, first: jax.Array, second: jax.Array) -> State:
        """Returns the state after dealing the dealer's two cards and the player's first two."""
        player = _hand(first, second)
        return State(player, _is_natural(first, second), open_card, hidden_card)

    def advance(self, state: State, action: jax.Array, cards: list[jax.Array]) -> Transition:
        """Takes one step, given the cards in the order in which they are dealt."""
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

    def observe(self, state: State) -> tuple[jax.Array, jax.Array, jax.Array]:
        return state.player.value, state.open_card, state.player.usable_ace.astype(jnp.int32)

    def observation_spec(self) -> tuple[specs.Bounded, ...]:
        names = ("player_sum", "dealer_card", "usable_ace")
        return tuple(specs.discrete(n, name=name) for n, name in zip((32, 11, 2), names, strict=True))

    def action_spec(self) -> specs.Bounded:
        return specs.discrete(2, name="action")

    def draw(self, state: State, canvas: Canvas) -> Canvas:
        canvas = _cards.open_card(_cards.table(canvas), state.open_card, 2.9, 7.75)
        canvas = _cards.closed_card(canvas, 5.9, 7.75)
        canvas = _cards.hand(_cards.scale(canvas, state.player.value), state.player.value, 4.4, 4.2)
        canvas = _cards.label(canvas, "A=11", 8.35, 4.8, state.player.usable_ace)
        return _cards.label(canvas, "NATURAL", 8.35, 3.8, state.natural)


def _hand(first: jax.Array, second: jax.Array) -> Hand:
    return Hand(first + second, (first == 1) | (second == 1))


def _is_natural(first: jax.Array, second: jax.Array) -> jax.Array:
    return (jnp.minimum(first, second) == 1) & (jnp.maximum(first, second) == 10)
