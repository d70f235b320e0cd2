"""A shuffled deck of cards, dealt one at a time, and its picture.

The order of a shuffled deck is revealed by dealing, so a state counts the dealt cards of each kind, and each step draws
the next card from the rest. That has the distribution of a shuffle, without sorting at every start.
"""

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.canvas import INK, RED, WHITE, Canvas
from jaxenv.envs import _cards
from jaxenv.envs._drawing import timeline
from jaxenv.envs.popgym._partly_observed import PartlyObserved

SIZE, SUITS, RANKS = 52, 4, 13
SUIT_NAMES = ("spades", "diamonds", "clubs", "hearts")


class DeckTask(PartlyObserved):
    """Base class of the tasks with cards."""

    num_decks: int = tree.static(default=1, low=1, doc="number of decks of 52 cards, shuffled into one")

    @property
    def num_cards(self) -> int:
        """Number of cards of the deck."""
        return SIZE * self.num_decks

    def action_spec(self) -> specs.Bounded:
        return specs.discrete(len(self.action_names), name="action")


def deal(stream: random.Stream, dealt: jax.Array, of_each: int) -> jax.Array:
    """Draws the kind of the next card, int32 ``[B]``, from a deck of which ``dealt [B, kinds]`` are gone."""
    return random.categorical(stream, weights=(of_each - dealt).astype(jnp.float32))


def counted(dealt: jax.Array, card: jax.Array) -> jax.Array:
    """Counts one more card, int32 ``[B]``, among the dealt ones, int32 ``[B, kinds]``."""
    return dealt + marks(card, dealt.shape[1]).astype(jnp.int32)


def marks(index: jax.Array, count: int) -> jax.Array:
    """Returns where the index is: bool ``[B, count]`` for int32 ``[B]``."""
    return index[:, None] == np.arange(count, dtype=np.int32)[None]


def chosen(values: jax.Array, index: jax.Array) -> jax.Array:
    """Returns ``values[lane, index[lane]]`` of each lane: ``[B]`` for ``[B, n]``."""
    return jnp.take_along_axis(values, index[:, None], axis=1)[:, 0]


def right_or_wrong(right: jax.Array, reward: float) -> jax.Array:
    """Returns ``reward`` where an answer is right and its negative elsewhere: float32 ``[B]``."""
    return jnp.where(right, np.float32(reward), np.float32(-reward))


# --- the picture -----------------------------------------------------------------------------------------------------


def two_suits(
    canvas: Canvas, label: str, left: jax.Array, right: jax.Array, passed: jax.Array, asked: jax.Array | float = 1.0
) -> Canvas:
    """Paints two suits, int32 ``[B]``, the left one where it is ``asked``, and the fraction that has ``passed``."""
    canvas = _cards.table(canvas).text(label, 2.7, 8.4, 0.6, WHITE, align=0.5)
    canvas = suit_card(canvas.text("LAST", 7.3, 8.4, 0.6, WHITE, align=0.5), left, 2.7, 5.8, asked)
    return timeline(suit_card(canvas, right, 7.3, 5.8), 1.2, 8.8, 2.0, passed)


def suit_card(canvas: Canvas, suit: jax.Array, x: float, y: float, alpha: jax.Array | float = 1.0) -> Canvas:
    """Paints a card with a suit, int32 ``[B]``."""
    canvas = _cards.card(canvas, x, y, alpha=alpha)
    for number, paint in enumerate((_spade, _diamond, _club, _heart)):
        shown = jnp.where(suit == number, jnp.asarray(alpha, jnp.float32), np.float32(0))
        canvas = paint(canvas, x, y, shown)
    return canvas


def rank_card(canvas: Canvas, rank: jax.Array, x: float, y: float) -> Canvas:
    """Paints a card with a rank, int32 ``[B]`` from 0, an ace, to 12, a king."""
    canvas = _cards.card(canvas, x, y)
    for number, text in enumerate(RANK_NAMES):
        canvas = canvas.text(text, x, y - 0.65, 1.3, INK, align=0.5, alpha=(rank == number).astype(jnp.float32))
    return canvas


RANK_NAMES = ("A", "2", "3", "4", "5", "6", "7", "8", "9", "10", "J", "Q", "K")


def _diamond(canvas: Canvas, x: float, y: float, alpha: jax.Array) -> Canvas:
    return canvas.polygon([(x, y + 0.8), (x + 0.6, y), (x, y - 0.8), (x - 0.6, y)], RED, alpha=alpha)


def _heart(canvas: Canvas, x: float, y: float, alpha: jax.Array) -> Canvas:
    canvas = canvas.disc(x - 0.33, y + 0.25, 0.37, RED, alpha).disc(x + 0.33, y + 0.25, 0.37, RED, alpha)
    return canvas.polygon([(x - 0.68, y + 0.12), (x, y - 0.75), (x + 0.68, y + 0.12)], RED, alpha=alpha)


def _spade(canvas: Canvas, x: float, y: float, alpha: jax.Array) -> Canvas:
    canvas = canvas.disc(x - 0.33, y - 0.15, 0.37, INK, alpha).disc(x + 0.33, y - 0.15, 0.37, INK, alpha)
    canvas = canvas.polygon([(x - 0.68, y - 0.02), (x, y + 0.8), (x + 0.68, y - 0.02)], INK, alpha=alpha)
    return canvas.box(x, y - 0.5, 0.2, 0.6, INK, alpha=alpha)


def _club(canvas: Canvas, x: float, y: float, alpha: jax.Array) -> Canvas:
    for left, up in ((-0.36, -0.1), (0.36, -0.1), (0.0, 0.42)):
        canvas = canvas.disc(x + left, y + up, 0.36, INK, alpha)
    return canvas.box(x, y - 0.45, 0.2, 0.7, INK, alpha=alpha)
