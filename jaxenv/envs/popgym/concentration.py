"""Turn over two cards at a time and find the pairs of a face-down deck.

Reference: POPGym 1.0.7 ``Concentration`` (tests/envs/popgym/test_parity.py).
Paper: Morad et al. (2023), "POPGym: Benchmarking Partially Observable Reinforcement Learning", arXiv:2303.01859.

Observation   int32[N]     the values of the found cards and of the cards of the last turn; the number of values (2
                           colours or 13 ranks) for other cards. With observability="full" (int32[N], int32[N], int32,
                           int32), all values, 1 for a found card, the positions of the first and the second card of the
                           turn, or the number of values. N = 52 * num_decks
Action        int32        the position of the card to turn over; a policy needs its last action too
Reward        2 / N for a pair; -1 / N for the second card of another turn; -1 / (2 * N) per card of the turn if it
              turns a found card, which ends the turn; otherwise 0
Starts        with a shuffled deck, face down
Terminates    when all pairs are found
Time limit    2 * N

Turning the same card twice is not a pair.
"""

import math
from functools import partial
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.canvas import BLUE, GOLD, INK, NIGHT, RED, WHITE, Canvas, Colour, mix
from jaxenv.core import Transition, check_choice
from jaxenv.envs.popgym import _deck
from jaxenv.tree import Tree

_VALUES = {"colors": 2, "ranks": _deck.RANKS}


@tree.struct
class State:
    """The deck, the found cards and the last turn."""

    deck: jax.Array  # int32[B, N], the value at each position
    found: jax.Array  # bool[B, N]
    first: jax.Array  # int32[B], the position of the first card of the last turn, -1 before the first turn
    second: jax.Array  # int32[B], the position of the second card, -1 without one
    turning: jax.Array  # bool[B], whether the turn needs a second card


class Concentration(_deck.DeckTask):
    """Concentration; the module docstring is the specification."""

    reset_strategy = {"cpu": "cond", "default": "select"}
    deck_type: Literal["colors", "ranks"] = tree.static(default="ranks", doc="what two cards of a pair share")

    def check(self) -> None:
        super().check()
        check_choice(f"{self}", "deck_type", self.deck_type, tuple(_VALUES))

    @property
    def values(self) -> int:
        """Number of values of cards, which stands for a card that is face down."""
        return _VALUES[self.deck_type]

    @property
    def time_limit(self) -> int:
        return 2 * self.num_cards

    def initial(self, stream: random.Stream) -> State:
        deck = random.permutation(stream, self.num_cards) % self.values
        none = jnp.full(stream.shape, -1, jnp.int32)
        return State(deck, jnp.zeros_like(deck, bool), none, none, jnp.zeros(stream.shape, bool))

    def transition(self, state: State, action: jax.Array, stream: random.Stream) -> Transition:
        first = jnp.where(state.turning, state.first, action)
        wasted = _deck.chosen(state.found, action)
        pair = _deck.chosen(state.deck, first) == _deck.chosen(state.deck, action)
        pair = pair & state.turning & (first != action) & ~wasted
        found = state.found | (pair[:, None] & (self._at(first) | self._at(action)))
        cost = np.float32(-1 / self.time_limit)
        lost = jnp.where(state.turning, 2 * cost, jnp.where(wasted, cost, np.float32(0)))
        reward = jnp.where(pair, np.float32(2 / self.num_cards), lost)
        second = jnp.where(state.turning, action, np.int32(-1))
        after = State(state.deck, found, first, second, ~state.turning & ~wasted)
        return Transition(after, reward, pair & jnp.all(found, axis=1))

    def _at(self, position: jax.Array) -> jax.Array:
        return _deck.marks(position, self.num_cards)

    def observe(self, state: State) -> Tree:
        if not self.is_full:
            shown = state.found | self._at(state.first) | self._at(state.second)
            return jnp.where(shown, state.deck, np.int32(self.values))
        first, second = (jnp.where(i < 0, np.int32(self.values), i) for i in (state.first, state.second))
        return state.deck, state.found.astype(jnp.int32), first, second

    def observation_spec(self) -> Tree:
        if not self.is_full:
            return specs.Bounded((self.num_cards,), np.int32, 0, self.values, "cards")
        deck = specs.Bounded((self.num_cards,), np.int32, 0, self.values - 1, "deck")
        positions = [specs.discrete(self.num_cards, name=name) for name in ("first", "second")]
        return (deck, specs.Bounded((self.num_cards,), np.int32, 0, 1, "found"), *positions)

    def action_spec(self) -> specs.Bounded:
        return specs.discrete(self.num_cards, name="action")

    def draw(self, state: State, canvas: Canvas) -> Canvas:
        """Paints the cards: gold if found, white in the last turn, else blue."""
        turned = self._at(state.first) | self._at(state.second)
        kinds = 1 + state.deck + jnp.where(state.found, np.int32(self.values), np.int32(0))
        kinds = jnp.where(state.found | turned, kinds, np.int32(0))
        columns = math.isqrt(self.num_cards - 1) + 1
        rows = -(-self.num_cards // columns)
        nothing = np.int32(1 + 2 * self.values)
        kinds = jnp.pad(kinds, ((0, 0), (0, columns * rows - self.num_cards)), constant_values=nothing)
        shown = [partial(_card, mark=mark, paper=paper) for paper in (WHITE, GOLD) for mark in _MARKS[self.deck_type]]
        return canvas.fill(NIGHT).tiles(kinds.reshape(-1, rows, columns), [_closed, *shown, None])


# --- the picture -----------------------------------------------------------------------------------------------------


def _closed(canvas: Canvas) -> Canvas:
    return canvas.box(0.5, 0.5, 0.7, 0.92, mix(NIGHT, BLUE, 0.7), corner=0.1)


def _card(canvas: Canvas, mark: str | Colour, paper: Colour) -> Canvas:
    canvas = canvas.box(0.5, 0.5, 0.7, 0.92, paper, corner=0.1)
    if isinstance(mark, str):
        return canvas.text(mark, 0.5, 0.3, 0.4, INK, align=0.5)
    return canvas.box(0.5, 0.5, 0.36, 0.36, mark, np.pi / 4)


_MARKS: dict[str, tuple[str | Colour, ...]] = {"colors": (INK, RED), "ranks": _deck.RANK_NAMES}
