"""What the five games of MinAtar share: six actions, sticky ones among them, and a board of 10 by 10 cells.

Reference: the package ``minatar`` 1.0.15 (tests/envs/minatar/reference.py).
Paper: Young and Tian (2019), "MinAtar: an Atari-inspired testbed for thorough and reproducible reinforcement learning
experiments", arXiv:1903.03176. Sticky actions: Machado et al. (2018), doi:10.1613/jair.5699, section 5.2.

A game says what one step does as a pure function of its state, the action and what was drawn (`MinAtar.advance`), and
how random words become draws (`MinAtar.draws`). All words of a step, that of the sticky action first, come from one
place, so that they cost as few blocks of the generator as can be.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv._checks import is_concrete
from jaxenv.random import Stream
from jaxenv.task import Task, Transition
from jaxenv.tree import Tree

SIZE = 10  # cells along either side of the board
LETTERS = "nlurdf"  # nothing, left, up, right, down, fire: the numbers that `advance` takes are places in here
NOTHING, LEFT, UP, RIGHT, DOWN, FIRE = (np.int32(i) for i in range(6))


@tree.struct
class GameState:
    """``game``: the game's own state. ``last_action``: int32 ``[B]``, place in ``LETTERS`` of what was done last."""

    game: Tree
    last_action: jax.Array


class MinAtar(Task):
    """One game of MinAtar.

    With probability ``sticky_action_prob`` the action executed last is executed again instead of the agent's. It is
    "nothing" at first and outlives an episode, as in the original: the first action of the next episode may repeat the
    last one of this.

    Attributes:
        sticky_action_prob: a number in [0, 1], or one per lane.
        difficulty_ramping: whether the game becomes harder with time, where it can.
        minimal_actions: whether the actions are those that do something in this game, else all six of ``LETTERS``.
        dtype: of the observation, ``"bool"`` or ``"float32"``.
    """

    sticky_action_prob: Any = tree.leaf(default=0.1)
    difficulty_ramping: bool = tree.static(default=True)
    minimal_actions: bool = tree.static(default=True)
    dtype: str = tree.static(default="bool")

    # Names of the channels of the observation; letters of the actions that do something, in the original's order.
    channels: ClassVar[tuple[str, ...]]
    minimal: ClassVar[str]
    # How many random words a step takes besides that of the sticky action.
    step_words: ClassVar[int] = 0

    # --- what a game writes ------------------------------------------------------------------------------------------

    def start(self, stream: Stream) -> Tree:
        """The game's state at the start of an episode, every leaf ``[B, ...]``."""
        raise NotImplementedError(f"{type(self).__name__}.start")

    def draws(self, words: Sequence[jax.Array]) -> Tree:
        """Raw choices of one step from ``step_words`` random words, each ``uint32[B]``; made whether needed or not."""
        return ()

    def advance(self, game: Tree, action: jax.Array, draws: Tree) -> tuple[Tree, jax.Array, jax.Array]:
        """One step by an action of ``LETTERS`` (int32 ``[B]``): the state, the reward and whether the game is over."""
        raise NotImplementedError(f"{type(self).__name__}.advance")

    def show(self, game: Tree) -> jax.Array:
        """The board: bool ``[B, 10, 10, len(channels)]``, rows from the top, columns from the left."""
        raise NotImplementedError(f"{type(self).__name__}.show")

    # --- the environment ---------------------------------------------------------------------------------------------

    @property
    def actions(self) -> str:
        """The letters of the actions, in the order of their numbers."""
        return self.minimal if self.minimal_actions else LETTERS

    def check(self):
        if is_concrete(self.sticky_action_prob):
            p = np.asarray(self.sticky_action_prob)
            if np.any((p < 0) | (p > 1)):
                raise ValueError(f"{self}: sticky_action_prob must lie in [0, 1], got {self.sticky_action_prob}")
        if self.dtype not in ("bool", "float32"):
            raise ValueError(f"{self}: dtype must be 'bool' or 'float32', got {self.dtype!r}")

    def initial(self, stream):
        return GameState(self.start(stream), jnp.zeros(stream.shape, jnp.int32))

    def carry(self, old, new):
        return tree.rebuild(new, last_action=old.last_action)

    def transition(self, state, action, stream):
        first, *words = random.separate_bits(stream, 1 + self.step_words)
        sticks = random.unit(first) < self.sticky_action_prob
        action = jnp.where(sticks, state.last_action, _place(self.actions, action))
        game, reward, terminated = self.advance(state.game, action, self.draws(words))
        return Transition(GameState(game, action), reward.astype(jnp.float32), terminated)

    def observe(self, state):
        return self.show(state.game)

    def observation_spec(self):
        shape = (SIZE, SIZE, len(self.channels))
        if self.dtype == "float32":
            return specs.Bounded(shape, np.float32, 0, 1, "observation")
        return specs.Bounded(shape, np.bool_, False, True, "observation")

    def action_spec(self):
        return specs.discrete(len(self.actions), name="action")


# --- boards ----------------------------------------------------------------------------------------------------------

# A plane is one channel of the board, flat, bool [B, 100]. Each is made by itself, in one long loop, and the channels
# are stacked in front of the cells and moved behind them by name only: compilers then choose their own layout. Where
# the state holds rows of cells, one word for all that a row shows is quicker.


def one_cell(cell: jax.Array) -> jax.Array:
    """The plane with one cell lit: ``cell`` is 10 * row + column, int32 ``[B]``; outside the board none is."""
    return cell[:, None] == np.arange(SIZE * SIZE, dtype=np.int32)[None]


def board(planes: Sequence[jax.Array]) -> jax.Array:
    """The board whose channels are ``planes``: bool ``[B, 10, 10, len(planes)]``."""
    return jnp.moveaxis(jnp.stack(planes, axis=1).reshape(-1, len(planes), SIZE, SIZE), 1, -1)


def _place(letters: str, action: jax.Array) -> jax.Array:
    """Place in ``LETTERS`` of action number ``action``: the table fits one word, three bits an entry."""
    if letters == LETTERS:
        return action
    table = sum(LETTERS.index(letter) << (3 * i) for i, letter in enumerate(letters))
    return (np.int32(table) >> (3 * action)) & 7
