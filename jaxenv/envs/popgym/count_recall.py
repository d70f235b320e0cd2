"""Count the dealt cards of each kind, and say how often the queried kind was dealt.

Reference: POPGym 1.0.7 ``CountRecall`` (tests/envs/popgym/test_parity.py).
Paper: Morad et al. (2023), "POPGym: Benchmarking Partially Observable Reinforcement Learning", arXiv:2303.01859.

Observation   (int32, int32)   the kinds of the dealt and of the queried card; with observability="full"
                               (float32[kinds], float32[kinds], int32, int32), the fractions of each kind dealt and
                               queried come first
Action        int32            how many cards of the queried kind were dealt, the last one included
Reward        1 / (52 * num_decks - 1) for the right number, the negative for a wrong one
Starts        with the first card of each of two shuffled decks, one of which is dealt and one gives the queries
Terminates    with the last card, after 52 * num_decks - 1 steps
Time limit    none

A kind is a colour (0 black, 1 red), a suit or a rank.
"""

from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.canvas import GOLD, WHITE, Canvas
from jaxenv.core import Transition, check_choice
from jaxenv.envs import _cards
from jaxenv.envs._drawing import timeline
from jaxenv.envs.popgym import _deck
from jaxenv.random import Stream
from jaxenv.tree import Tree

_KINDS = {"colors": 2, "suits": _deck.SUITS, "ranks": _deck.RANKS}


@tree.struct
class State:
    """The last card and query, and how many there were of each kind."""

    card: jax.Array  # int32[B]
    query: jax.Array  # int32[B]
    dealt: jax.Array  # int32[B, kinds]
    queried: jax.Array  # int32[B, kinds]


class CountRecall(_deck.DeckTask):
    """Count recall; the module docstring is the specification."""

    deck_type: Literal["colors", "suits", "ranks"] = tree.static(default="colors", doc="what is counted")

    def check(self) -> None:
        super().check()
        check_choice(f"{self}", "deck_type", self.deck_type, tuple(_KINDS))

    @property
    def kinds(self) -> int:
        """Number of kinds of cards."""
        return _KINDS[self.deck_type]

    @property
    def of_each(self) -> int:
        """Number of cards of a kind in the deck."""
        return self.num_cards // self.kinds

    def initial(self, stream: Stream) -> State:
        none = jnp.zeros((*stream.shape, self.kinds), jnp.int32)
        card, query = self._deal(stream, none, none)
        return State(card, query, _deck.counted(none, card), _deck.counted(none, query))

    def transition(self, state: State, action: jax.Array, stream: Stream) -> Transition:
        return self.advance(state, action, *self._deal(stream, state.dealt, state.queried))

    def advance(self, state: State, action: jax.Array, card: jax.Array, query: jax.Array) -> Transition:
        """Takes one step, given the kinds of the next card and of the next query."""
        count = _deck.chosen(state.dealt, state.query)
        reward = _deck.right_or_wrong(action == count, 1 / (self.num_cards - 1))
        state = State(card, query, _deck.counted(state.dealt, card), _deck.counted(state.queried, query))
        return Transition(state, reward, jnp.sum(state.dealt, axis=-1) == self.num_cards)

    def _deal(self, stream: Stream, dealt: jax.Array, queried: jax.Array) -> tuple[jax.Array, jax.Array]:
        query = _deck.deal(random.fold_in(stream, "query"), queried, self.of_each)
        return _deck.deal(stream, dealt, self.of_each), query

    def observe(self, state: State) -> Tree:
        counts = (state.dealt.astype(jnp.float32), state.queried.astype(jnp.float32)) if self.is_full else ()
        return (*(count / np.float32(self.of_each) for count in counts), state.card, state.query)

    def observation_spec(self) -> Tree:
        fractions = [specs.Bounded((self.kinds,), np.float32, 0, 1, name) for name in ("dealt", "queried")]
        kinds = [specs.discrete(self.kinds, name=name) for name in ("card", "query")]
        return (*fractions, *kinds) if self.is_full else tuple(kinds)

    def action_spec(self) -> specs.Bounded:
        return specs.discrete(self.of_each + 1, name="action")

    def draw(self, state: State, canvas: Canvas) -> Canvas:
        """Paints the last card, the query, and the number to say."""
        paint = _deck.rank_card if self.deck_type == "ranks" else _deck.suit_card
        canvas = _cards.table(canvas).text("DEALT", 2.7, 8.4, 0.6, WHITE, align=0.5)
        canvas = canvas.text("COUNT?", 7.3, 8.4, 0.6, GOLD, align=0.5)
        canvas = paint(paint(canvas, state.card, 2.7, 5.8), state.query, 7.3, 5.8)
        canvas = canvas.number(_deck.chosen(state.dealt, state.query), 7.3, 2.6, 0.8, WHITE, digits=2, align=0.5)
        passed = jnp.sum(state.dealt, axis=-1).astype(jnp.float32) / np.float32(self.num_cards)
        return timeline(canvas, 1.2, 8.8, 1.6, passed)
