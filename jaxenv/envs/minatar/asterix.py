"""Collect gold and avoid the enemies that run across the board.

Reference: ``minatar`` 1.0.15, game ``asterix`` (tests/envs/minatar/test_asterix.py).
Paper: Young and Tian (2019), arXiv:1903.03176.

Observation   bool[10, 10, 4]   channels player, enemy, trail (the cell behind an enemy or gold), gold
Action        int32             0 does nothing, 1 left, 2 up, 3 right, 4 down; minimal_actions=False adds 5, no effect
Reward        1 for each gold collected
Starts        with the player in row 5, column 5, on an otherwise empty board
Terminates    when the player and an enemy are in the same cell
Time limit    none
Ramping       every 102 steps enemies and gold enter one step sooner (every 10 at first, every step at last); every
              second time they also run one step sooner (a cell every 5 steps at first, every step at last)

An enemy (with probability 2/3) or gold enters at the left or the right end of a random free row. Rows 1 to 8 contain at
most one of them each; if no row is free, nothing enters. The player cannot leave these rows either.
"""

from collections.abc import Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv.canvas import GOLD, RED, Canvas
from jaxenv.core import toward
from jaxenv.envs.minatar import _sprites
from jaxenv.envs.minatar._bitboard import EMPTY, ROWS, Bitboard, stack_channels
from jaxenv.envs.minatar.minatar import DOWN, LEFT, RIGHT, SIZE, UP, MinAtar
from jaxenv.random import Stream
from jaxenv.tree import Tree

_RAMP_INTERVAL = np.int32(100)
_LAST_LEVEL = np.int32(9)


@tree.struct
class State:
    """The board. Timers count steps down to 0."""

    player_row: jax.Array  # int32[B], 1 to 8
    player_column: jax.Array  # int32[B]
    enemies: Bitboard
    gold: Bitboard
    right: Bitboard  # cells of the enemies and gold that run to the right
    spawn_timer: jax.Array  # int32[B], steps until the next enemy or gold enters
    move_timer: jax.Array  # int32[B], steps until enemies and gold move
    ramp_timer: jax.Array  # int32[B], steps until the level rises
    level: jax.Array  # int32[B], 0 to 9


@tree.struct
class Draws:
    """Random choices for what enters next."""

    from_left: jax.Array  # bool[B]
    is_gold: jax.Array  # bool[B]
    row_fraction: jax.Array  # uint32[B] below 2**27; row_fraction * num_free // 2**27 is an index into the free rows


class Asterix(MinAtar):
    """Asterix; see the module docstring."""

    channels = ("player", "enemy", "trail", "gold")
    minimal = "nlurd"
    step_words = 1
    elementwise = True

    def start(self, stream: Stream) -> State:
        lanes = jnp.zeros(stream.shape, jnp.int32)
        return State(
            player_row=lanes + 5,
            player_column=lanes + 5,
            enemies=EMPTY.full(stream.shape),
            gold=EMPTY.full(stream.shape),
            right=EMPTY.full(stream.shape),
            spawn_timer=_spawn_interval(lanes),
            move_timer=_move_interval(lanes),
            ramp_timer=lanes + _RAMP_INTERVAL,
            level=lanes,
        )

    def draws(self, words: Sequence[jax.Array]) -> Draws:
        # One word: the highest bit is the side. The low 27 bits are a fraction; times 3, its integer part chooses the
        # kind, and the fractional part that remains chooses the row.
        (word,) = words
        thirds = (word & np.uint32(2**27 - 1)) * np.uint32(3)
        fraction = thirds & np.uint32(2**27 - 1)
        return Draws(from_left=word >= np.uint32(2**31), is_gold=thirds < 2**27, row_fraction=fraction)

    def advance(self, game: State, action: jax.Array, draws: Draws) -> tuple[Tree, jax.Array, jax.Array]:
        game = _spawn(game, draws)
        row = jnp.clip(game.player_row + toward(action, DOWN, UP), 1, 8)
        column = jnp.clip(game.player_column + toward(action, RIGHT, LEFT), 0, SIZE - 1)
        game = tree.rebuild(game, player_row=row, player_column=column)
        game, reward, terminated = _move_entities(game)
        return self._ramp(game), reward, terminated

    def _ramp(self, game: State) -> State:
        """Raises the level when the ramp timer is up."""
        may_rise = (game.level < _LAST_LEVEL) & self.difficulty_ramping
        rises = may_rise & (game.ramp_timer < 0)
        ramp_timer = jnp.where(rises, _RAMP_INTERVAL, game.ramp_timer - may_rise.astype(jnp.int32))
        return tree.rebuild(game, ramp_timer=ramp_timer, level=game.level + rises.astype(jnp.int32))

    def board(self, game: State) -> jax.Array:
        player = Bitboard.cell(game.player_row, game.player_column)
        entities = game.enemies | game.gold
        behind = entities.moved(entities - game.right)
        return stack_channels(player, game.enemies, behind, game.gold)

    # --- the picture -------------------------------------------------------------------------------------------------

    def scene(self, game: State) -> tuple[jax.Array, Sequence[_sprites.Sprite]]:
        player, right = Bitboard.cell(game.player_row, game.player_column), game.right
        things = [x for kind in (game.enemies, game.gold) for x in (kind & right, kind - right)]
        trails = [x.moved(x - right) for x in things]
        streaks = [partial(_sprites.streaks, colour=colour) for colour in (RED, GOLD)]
        sprites = _sprites.both_ways(_sprites.legionary, _sprites.coin, *streaks)
        return stack_channels(player, *things, *trails), (_sprites.hero, *sprites)

    def backdrop(self, game: State, canvas: Canvas) -> Canvas:
        return canvas.tiles(_sprites.INNER_ROWS, [None, _sprites.floor])


def _spawn_interval(level: jax.Array) -> jax.Array:
    return jnp.maximum(10 - level, 1)


def _move_interval(level: jax.Array) -> jax.Array:
    return jnp.maximum(5 - level // 2, 1)


def _spawn(game: State, draws: Draws) -> State:
    """Lets an enemy or gold enter a free row when the spawn timer is up."""
    spawns = game.spawn_timer == 0
    taken = game.enemies | game.gold
    free = [~(taken & row).any() for row in ROWS[1:]]
    num_free = sum(x.astype(jnp.uint32) for x in free)
    chosen = (draws.row_fraction * num_free) >> np.uint32(27)
    row, num_passed = jnp.zeros_like(game.level), jnp.zeros_like(chosen)
    for number, is_free in enumerate(free, start=1):
        row = jnp.where(is_free & (num_passed == chosen), np.int32(number), row)
        num_passed = num_passed + is_free.astype(jnp.uint32)
    entry = Bitboard.cell(row, jnp.where(draws.from_left, np.int32(0), np.int32(SIZE - 1)))
    entry = entry.where(spawns & (num_free > 0))
    return tree.rebuild(
        game,
        enemies=game.enemies | entry.where(~draws.is_gold),
        gold=game.gold | entry.where(draws.is_gold),
        right=game.right | entry.where(draws.from_left),
        spawn_timer=jnp.where(spawns, _spawn_interval(game.level), game.spawn_timer) - 1,
    )


def _move_entities(game: State) -> tuple[State, jax.Array, jax.Array]:
    """Moves enemies and gold when the move timer is up; also returns whether the player met gold and an enemy."""
    player = Bitboard.cell(game.player_row, game.player_column)
    moves = game.move_timer == 0
    collected, gold = game.gold & player, game.gold - player
    enemies, gold, right = (tree.where(moves, x.moved(game.right), x) for x in (game.enemies, gold, game.right))
    reward = (collected | (gold & player)).any()
    met = ((game.enemies | enemies) & player).any()
    gold = gold - player
    right, timer = right & (enemies | gold), jnp.where(moves, _move_interval(game.level), game.move_timer) - 1
    return tree.rebuild(game, enemies=enemies, gold=gold, right=right, move_timer=timer), reward, met
