"""Base class of the five MinAtar games: six actions, sticky actions, and a board of 10 by 10 cells.

Reference: the package ``minatar`` 1.0.15 (tests/envs/minatar/reference.py).
Paper: Young and Tian (2019), "MinAtar: an Atari-inspired testbed for thorough and reproducible reinforcement learning
experiments", arXiv:1903.03176. Sticky actions: Machado et al. (2018), doi:10.1613/jair.5699, section 5.2.

A game implements one step as a pure function of its state, the action and the random choices (`MinAtar.advance`), and
decodes random words into those choices (`MinAtar.draws`). All random words of a step, the one for the sticky action
first, are generated together, which takes the fewest blocks of the generator.
"""

import abc
from collections.abc import Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.canvas import NIGHT, Canvas
from jaxenv.core import Task, Transition, check_choice, in_one_kernel
from jaxenv.envs.minatar import _sprites
from jaxenv.random import Stream
from jaxenv.tree import Tree

SIZE = 10  # cells along either side of the board
_WORDS = {"n": "nothing", "l": "left", "u": "up", "r": "right", "d": "down", "f": "fire"}
LETTERS = "".join(_WORDS)  # `MinAtar.advance` takes indices into this string
NOTHING, LEFT, UP, RIGHT, DOWN, FIRE = (np.int32(i) for i in range(6))


@tree.struct
class GameState:
    """The state of a game, and the last action for sticky actions."""

    game: Tree  # the game's own state
    last_action: jax.Array  # int32[B], index into LETTERS of the action executed last


class MinAtar(Task):
    """Base class of the five games.

    With probability ``sticky_action_prob`` the environment executes the last executed action again instead of the
    agent's. The last action is "nothing" at first. It outlives the episode, as in the original: the first action of
    an episode may repeat the last one of the episode before.
    """

    sticky_action_prob: Any = tree.leaf(default=0.1, low=0, high=1, doc="a number in [0, 1], or one per lane")
    difficulty_ramping: bool = tree.static(default=True, doc="whether a game with levels becomes harder over time")
    minimal_actions: bool = tree.static(
        default=True, doc="whether there are only the actions with an effect in this game, or all six of ``LETTERS``"
    )
    dtype: str = tree.static(default="bool", doc='dtype of the observation, ``"bool"`` or ``"float32"``')

    channels: ClassVar[tuple[str, ...]]  # names of the observation's channels
    minimal: ClassVar[str]  # letters of the actions with an effect, in the original's order
    step_words: ClassVar[int] = 0  # random words per step, without the one for the sticky action
    # Whether `draws` and `advance` consist of elementwise operations on leaves [B], so that one kernel computes a step.
    elementwise: ClassVar[bool] = False

    # --- implemented by each game ------------------------------------------------------------------------------------

    @abc.abstractmethod
    def start(self, stream: Stream) -> Tree:
        """Returns the game's state at the start of an episode, every leaf ``[B, ...]``."""

    def draws(self, words: Sequence[jax.Array]) -> Tree:
        """Decodes ``step_words`` random words, each uint32 ``[B]``, into the choices of one step, used or not."""
        return ()

    @abc.abstractmethod
    def advance(self, game: Tree, action: jax.Array, draws: Tree) -> tuple[Tree, jax.Array, jax.Array]:
        """Advances the game by one step: returns it, the reward ``[B]`` and whether the game is over, bool ``[B]``.

        ``action`` is an index into ``LETTERS``, int32 ``[B]``; ``draws`` are the random choices.
        """

    @abc.abstractmethod
    def board(self, game: Tree) -> jax.Array:
        """Returns the board, bool ``[B, 10, 10, len(channels)]``, rows from the top, columns from the left."""

    # --- the task ----------------------------------------------------------------------------------------------------

    @property
    def actions(self) -> str:
        """Letters of the actions, indexed by action number."""
        return self.minimal if self.minimal_actions else LETTERS

    @property
    def action_names(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(_WORDS[letter] for letter in self.actions)

    def check(self) -> None:
        check_choice(str(self), "dtype", self.dtype, ("bool", "float32"))

    def initial(self, stream: Stream) -> GameState:
        return GameState(self.start(stream), jnp.zeros(stream.shape, jnp.int32))

    def carry(self, old: Tree, new: Tree) -> Tree:
        return tree.rebuild(new, last_action=old.last_action)

    def transition(self, state: GameState, action: jax.Array, stream: Stream) -> Transition:
        played = type(self)._played
        if self.elementwise:
            return Transition(*in_one_kernel(played, self, state, action, stream))
        return Transition(*played(self, state, action, stream))

    def _played(self, state: GameState, action: jax.Array, stream: Stream) -> tuple[GameState, jax.Array, jax.Array]:
        """Returns the next state, the reward and whether the game is over."""
        first, *words = random.separate_bits(stream, 1 + self.step_words)
        sticks = random.unit(first) < self.sticky_action_prob
        action = jnp.where(sticks, state.last_action, _letter_index(self.actions, action))
        game, reward, terminated = self.advance(state.game, action, self.draws(words))
        return GameState(game, action), reward.astype(jnp.float32), terminated

    def observe(self, state: GameState) -> jax.Array:
        return self.board(state.game)

    def observation_spec(self) -> specs.Bounded:
        shape = (SIZE, SIZE, len(self.channels))
        if self.dtype == "float32":
            return specs.Bounded(shape, np.float32, 0, 1, "observation")
        return specs.Bounded(shape, np.bool_, False, True, "observation")

    def action_spec(self) -> specs.Bounded:
        return specs.discrete(len(self.actions), name="action")

    # --- the picture -------------------------------------------------------------------------------------------------

    @abc.abstractmethod
    def scene(self, game: Tree) -> tuple[jax.Array, Sequence[_sprites.Sprite]]:
        """Returns the cells of K sprites, bool ``[B, 10, 10, K]``, and the sprites, the foremost first."""

    def backdrop(self, game: Tree, canvas: Canvas) -> Canvas:
        """Paints the background of the sprites; by default a floor of cells."""
        return canvas.tiles(np.zeros((1, SIZE, SIZE), np.int32), [_sprites.floor])

    def draw(self, state: GameState, canvas: Canvas) -> Canvas:
        cells, sprites = self.scene(state.game)
        most = cells.shape[-1]
        first = jnp.max(jnp.where(cells, np.arange(most, 0, -1, dtype=np.int32)[None, None, None], 0), axis=-1)
        kinds = jnp.where(first > 0, most + 1 - first, 0)  # one reduction, unlike `any` and `argmax`
        return self.backdrop(state.game, canvas.fill(NIGHT)).tiles(kinds, [None, *sprites])


def _letter_index(letters: str, action: jax.Array) -> jax.Array:
    """Maps action numbers to indices into ``LETTERS``; the table fits in one word, three bits per entry."""
    if letters == LETTERS:
        return action
    table = sum(LETTERS.index(letter) << (3 * i) for i, letter in enumerate(letters))
    return (np.int32(table) >> (3 * action)) & 7
