"""Shoot waves of aliens from a cannon before they land.

Reference: ``minatar`` 1.0.15, game ``space_invaders`` (tests/envs/minatar/test_space_invaders.py).
Paper: Young and Tian (2019), arXiv:1903.03176.

Observation   bool[10, 10, 6]   channels cannon, alien, alien_left and alien_right (the aliens once more, in the channel
                                of the direction in which they march), friendly_bullet, enemy_bullet
Action        int32             0 nothing, 1 left, 2 right, 3 fire (at most every fifth step); with
                                minimal_actions=False 0 to 5: n l u r d f
Reward        1 for every alien shot
Starts        with the cannon in column 5 and 24 aliens in rows 0 to 3, about to march left
Terminates    when a bullet or an alien meets the cannon, or the aliens would march down from the bottom row
Time limit    none
Ramping       the fewer aliens, the faster they march; each wave marches faster than the one before, to a limit, which
              difficulty_ramping=False takes away
"""

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv._actions import toward
from jaxenv.envs.minatar.game import FIRE, LEFT, RIGHT, SIZE, MinAtar

_COOLDOWN = np.int32(5)  # steps from one shot of the cannon to the next
_ALIEN_COOLDOWN = np.int32(10)
_SLOWEST, _FASTEST = np.int32(12), np.int32(6)  # steps from one move of a full wave to the next
_BOTTOM = SIZE - 1
_ONE, _NONE = np.uint32(1), np.uint32(0)
_LAST_COLUMN = np.uint32(1 << (SIZE - 1))
_WAVE = np.array([0b0011111100] * 4 + [0] * 6, np.uint32)


@tree.struct
class State:
    """Timers are int32 ``[B]``; the maps of the board are uint32 ``[B, 10]``, bit x of a row for column x."""

    column: jax.Array  # int32[B], of the cannon
    cooldown: jax.Array  # steps until the cannon may fire
    aliens: jax.Array
    right: jax.Array  # bool[B], whether the aliens march right
    interval: jax.Array  # int32[B], steps between two moves of a full wave
    move_timer: jax.Array  # steps until the aliens move
    shot_timer: jax.Array  # steps until an alien shoots
    friendly: jax.Array  # bullets
    enemy: jax.Array


class SpaceInvaders(MinAtar):
    """Space Invaders; see the module."""

    channels = ("cannon", "alien", "alien_left", "alien_right", "friendly_bullet", "enemy_bullet")
    minimal = "nlrf"

    def start(self, stream):
        lanes = jnp.zeros(stream.shape, jnp.int32)
        board = jnp.zeros((*stream.shape, SIZE), jnp.uint32)
        return State(
            column=lanes + 5,
            cooldown=lanes,
            aliens=board + _WAVE[None],
            right=lanes != 0,
            interval=lanes + _SLOWEST,
            move_timer=lanes + _SLOWEST,
            shot_timer=lanes + _ALIEN_COOLDOWN,
            friendly=board,
            enemy=board,
        )

    def advance(self, game, action, draws):
        fires = (action == FIRE) & (game.cooldown == 0)
        column = jnp.clip(game.column + toward(action, RIGHT, LEFT), 0, _BOTTOM)
        cannon = _bit(column)
        none = jnp.zeros_like(cannon)
        # A shot leaves the cannon's row within its step, so that no friendly bullet is ever seen there.
        shot = jnp.where(fires, cannon, _NONE)
        friendly = jnp.concatenate([game.friendly[:, 1:_BOTTOM], shot[:, None], none[:, None]], axis=-1)
        enemy = jnp.concatenate([none[:, None], game.enemy[:, :_BOTTOM]], axis=-1)

        moves = game.move_timer == 0
        aliens, right, lands = _march(game.aliens, game.right, moves)
        meets = (enemy | game.aliens | aliens)[:, _BOTTOM] & cannon
        count = jnp.sum(jax.lax.population_count(aliens), axis=-1).astype(jnp.int32)

        shoots = game.shot_timer == 0
        enemy = enemy | jnp.where(shoots[:, None], _shooter(aliens, column), _NONE)
        killed = aliens & friendly
        kills = jnp.sum(jax.lax.population_count(killed), axis=-1).astype(jnp.int32)
        cleared = kills == count
        faster = cleared & (game.interval > _FASTEST) & self.difficulty_ramping
        after = State(
            column=column,
            cooldown=jnp.maximum(jnp.where(fires, _COOLDOWN, game.cooldown) - 1, 0),
            aliens=jnp.where(cleared[:, None], _WAVE[None], aliens ^ killed),
            right=right,
            interval=game.interval - faster.astype(jnp.int32),
            move_timer=jnp.where(moves, jnp.minimum(count, game.interval), game.move_timer) - 1,
            shot_timer=jnp.where(shoots, _ALIEN_COOLDOWN, game.shot_timer) - 1,
            friendly=friendly ^ killed,
            enemy=enemy,
        )
        return after, kills, lands | (meets != 0)

    def show(self, game):
        # All that a row shows is one word, and each element of the board asks for its bits in it.
        bottom = np.arange(SIZE) == _BOTTOM
        ours = game.friendly | jnp.where(bottom[None], _bit(game.column)[:, None], _NONE)
        direction = jnp.where(game.right, _MARCHING_RIGHT, _MARCHING_LEFT)[:, None]
        word = game.aliens | (ours << np.uint32(SIZE)) | (game.enemy << np.uint32(2 * SIZE)) | direction
        return ((word[:, :, None] & _SHOWN[None]) == _SHOWN[None]).reshape(-1, SIZE, SIZE, len(self.channels))


# Bits of a row's word: aliens, cannon or friendly bullets (they never share a row), enemy bullets, direction.
_MARCHING_LEFT, _MARCHING_RIGHT = np.uint32(1 << 30), np.uint32(1 << 31)


def _shown() -> np.ndarray:
    """What the word of a row must have for each of the row's elements to be lit, uint32 ``[10, 60]``."""
    alien = np.uint32(1) << np.arange(SIZE, dtype=np.uint32)
    ours, enemy = alien << np.uint32(SIZE), alien << np.uint32(2 * SIZE)
    # Nothing marches both ways.
    never = np.full(SIZE, _MARCHING_LEFT | _MARCHING_RIGHT)
    above = np.stack([never, alien, alien | _MARCHING_LEFT, alien | _MARCHING_RIGHT, ours, enemy], axis=-1)
    bottom = np.stack([ours, *above.T[1:4], never, enemy], axis=-1)
    return np.stack([above] * _BOTTOM + [bottom]).reshape(SIZE, -1)


_SHOWN = _shown()


def _bit(column: jax.Array) -> jax.Array:
    return _ONE << column.astype(jnp.uint32)


def _march(aliens: jax.Array, right: jax.Array, moves: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Aliens and direction after a move sideways, or down and round at an edge; and where they had no row left."""
    edge = jnp.where(right, _LAST_COLUMN, _ONE)
    turns = moves & jnp.any((aliens & edge[:, None]) != 0, axis=-1)
    sideways = jnp.where(right[:, None], aliens << _ONE, aliens >> _ONE)
    # As in the original, aliens that leave the bottom row come in at the top, where the last row of an episode shows
    # them.
    down = jnp.roll(aliens, 1, axis=-1)
    moved = jnp.where(turns[:, None], down, jnp.where(moves[:, None], sideways, aliens))
    return moved, right ^ turns, turns & (aliens[:, _BOTTOM] != 0)


def _shooter(aliens: jax.Array, column: jax.Array) -> jax.Array:
    """The lowest alien in the column nearest to the cannon, the left one of two equally near: a map ``[B, 10]``."""
    columns = jax.lax.reduce(aliens, _NONE, jax.lax.bitwise_or, (1,))
    place = column.astype(jnp.uint32)
    # The highest of the bits up to the cannon's, and the lowest of those from it on.
    left = columns & ((np.uint32(2) << place) - _ONE)
    right = columns >> place
    to_left = jnp.where(left != 0, column - (31 - jax.lax.clz(left).astype(jnp.int32)), np.int32(SIZE))
    to_right = jnp.where(right != 0, 31 - jax.lax.clz(right & (~right + _ONE)).astype(jnp.int32), np.int32(SIZE))
    bit = _bit(jnp.where(to_left <= to_right, column - to_left, column + to_right))[:, None]
    row = np.arange(SIZE, dtype=np.int32)[None]
    lowest = jnp.max(jnp.where((aliens & bit) != 0, row, np.int32(-1)), axis=-1, keepdims=True)
    return jnp.where(row == lowest, bit, _NONE)
