"""Pick up gold and keep clear of the enemies that run across the board.

Reference: ``minatar`` 1.0.15, game ``asterix`` (tests/envs/minatar/test_asterix.py).
Paper: Young and Tian (2019), arXiv:1903.03176.

Observation   bool[10, 10, 4]   channels player, enemy, trail (the cell behind an enemy or gold), gold
Action        int32             0 nothing, 1 left, 2 up, 3 right, 4 down; with minimal_actions=False 5 fires: nothing
Reward        1 for every gold
Starts        with the player in row 5, column 5, and nothing else
Terminates    when the player and an enemy are in one cell
Time limit    none
Ramping       every 102 steps things come one step sooner (every 10 at first, every step at last); every second time
              they also run one step sooner (a cell every 5 steps at first, every step at last)

An enemy or gold (one third of them) enters at the left or the right end of a free row, each free row as likely. Rows 1
to 8 hold one each, the player cannot leave them either; where none is free, nothing comes.
"""

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv._actions import toward
from jaxenv.envs.minatar import cells
from jaxenv.envs.minatar.cells import Cells
from jaxenv.envs.minatar.game import DOWN, LEFT, RIGHT, SIZE, UP, MinAtar

_RAMP_INTERVAL = np.int32(100)
_LAST_LEVEL = np.int32(9)


@tree.struct
class State:
    """Timers count steps; a set of cells is three words, see `Cells`."""

    player_row: jax.Array  # int32[B], 1 to 8
    player_column: jax.Array  # int32[B]
    enemies: Cells
    gold: Cells
    right: Cells  # which enemies and gold run to the right
    spawn_timer: jax.Array  # int32[B], until the next enemy or gold
    move_timer: jax.Array  # int32[B], until they run on
    ramp_timer: jax.Array  # int32[B], until the level rises
    level: jax.Array  # int32[B], 0 to 9


@tree.struct
class Draws:
    """What one spawn takes: from the left (bool ``[B]``), gold (bool ``[B]``), and the free row as a fraction.

    ``place`` is uint32 ``[B]`` below ``2**27``; times the number of free rows over ``2**27`` it counts free rows.
    """

    from_left: jax.Array
    is_gold: jax.Array
    place: jax.Array


class Asterix(MinAtar):
    """Asterix; see the module."""

    channels = ("player", "enemy", "trail", "gold")
    minimal = "nlurd"
    step_words = 1

    def start(self, stream):
        lanes = jnp.zeros(stream.shape, jnp.int32)
        return State(
            player_row=lanes + 5,
            player_column=lanes + 5,
            enemies=cells.none(stream.shape),
            gold=cells.none(stream.shape),
            right=cells.none(stream.shape),
            spawn_timer=_spawn_interval(lanes),
            move_timer=_move_interval(lanes),
            ramp_timer=lanes + _RAMP_INTERVAL,
            level=lanes,
        )

    def draws(self, words):
        # One word: its first bit, then the digits of the rest in base 3 and in base "number of free rows".
        (word,) = words
        thirds = (word & np.uint32(2**27 - 1)) * np.uint32(3)
        return Draws(
            from_left=word >= np.uint32(2**31),
            is_gold=thirds < 2**27,
            place=thirds & np.uint32(2**27 - 1),
        )

    def advance(self, game, action, draws):
        spawns = game.spawn_timer == 0
        enemies, gold, right = _spawn(game, draws, spawns)

        row = jnp.clip(game.player_row + toward(action, DOWN, UP), 1, 8)
        column = jnp.clip(game.player_column + toward(action, RIGHT, LEFT), 0, SIZE - 1)
        player = cells.cell(row, column)

        # What is met where it stands, then what runs into the player.
        met, gold = gold & player, gold - player
        moves = game.move_timer == 0
        enemies_then, gold_then, right = (tree.where(moves, x.moved(right), x) for x in (enemies, gold, right))
        reward = (met | (gold_then & player)).any()
        terminated = ((enemies | enemies_then) & player).any()
        gold_then = gold_then - player

        may_rise = (game.level < _LAST_LEVEL) & self.difficulty_ramping
        rises = may_rise & (game.ramp_timer < 0)
        after = State(
            player_row=row,
            player_column=column,
            enemies=enemies_then,
            gold=gold_then,
            right=right & (enemies_then | gold_then),
            spawn_timer=jnp.where(spawns, _spawn_interval(game.level), game.spawn_timer) - 1,
            move_timer=jnp.where(moves, _move_interval(game.level), game.move_timer) - 1,
            ramp_timer=jnp.where(rises, _RAMP_INTERVAL, game.ramp_timer - may_rise.astype(jnp.int32)),
            level=game.level + rises.astype(jnp.int32),
        )
        return after, reward, terminated

    def show(self, game):
        player = cells.cell(game.player_row, game.player_column)
        running = game.enemies | game.gold
        behind = running.moved(running - game.right)
        return cells.board((player, game.enemies, behind, game.gold))


def _spawn_interval(level: jax.Array) -> jax.Array:
    return jnp.maximum(10 - level, 1)


def _move_interval(level: jax.Array) -> jax.Array:
    return jnp.maximum(5 - level // 2, 1)


def _spawn(game: State, draws: Draws, spawns: jax.Array) -> tuple[Cells, Cells, Cells]:
    """Enemies, gold and which of them run to the right, with what comes into a free row at this step."""
    taken = game.enemies | game.gold
    free = [~(taken & row).any() for row in cells.ROWS[1:]]
    num_free = sum(x.astype(jnp.uint32) for x in free)
    chosen = (draws.place * num_free) >> np.uint32(27)
    row, passed = jnp.zeros_like(game.level), jnp.zeros_like(chosen)
    for number, is_free in enumerate(free, start=1):
        row = jnp.where(is_free & (passed == chosen), np.int32(number), row)
        passed = passed + is_free.astype(jnp.uint32)
    entry = cells.cell(row, jnp.where(draws.from_left, np.int32(0), np.int32(SIZE - 1)))
    entry = entry.where(spawns & (num_free > 0))
    return (
        game.enemies | entry.where(~draws.is_gold),
        game.gold | entry.where(draws.is_gold),
        game.right | entry.where(draws.from_left),
    )
