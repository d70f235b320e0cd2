"""Shoot waves of aliens from a cannon before they land.

Reference: ``minatar`` 1.0.15, game ``space_invaders`` (tests/envs/minatar/test_space_invaders.py).
Paper: Young and Tian (2019), arXiv:1903.03176.

Observation   bool[10, 10, 6]   channels cannon, alien, alien_left and alien_right (the aliens again, in the channel of
                                the direction in which they march), friendly_bullet, enemy_bullet
Action        int32             0 does nothing, 1 left, 2 right, 3 fires (at most every fifth step); with
                                minimal_actions=False 0 to 5: nothing, left, up, right, down, fire
Reward        1 for each alien shot
Starts        with the cannon in column 5 and 24 aliens in rows 0 to 3 that march left
Terminates    when a bullet or an alien hits the cannon, or when the aliens would march down from the bottom row
Time limit    none
Ramping       each wave marches faster than the one before, up to a limit; difficulty_ramping=False keeps the speed of
              the first wave; within a wave the aliens march faster the fewer they are
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv.core import toward
from jaxenv.envs.minatar import _sprites
from jaxenv.envs.minatar._bitboard import bit, unpack_rows
from jaxenv.envs.minatar.minatar import FIRE, LEFT, RIGHT, SIZE, MinAtar
from jaxenv.random import Stream
from jaxenv.tree import Tree

_COOLDOWN = np.int32(5)  # steps between two shots of the cannon
_ALIEN_COOLDOWN = np.int32(10)  # steps between two shots of the aliens
_SLOWEST, _FASTEST = np.int32(12), np.int32(6)  # steps between two moves of a full wave
_BOTTOM = SIZE - 1
_ONE, _NONE = np.uint32(1), np.uint32(0)
_LAST_COLUMN = np.uint32(1 << (SIZE - 1))
_WAVE = np.array([0b0011111100] * 4 + [0] * 6, np.uint32)  # columns 2 to 7 of rows 0 to 3


@tree.struct
class State:
    """The board. Maps are uint32 ``[B, 10]``: one word per row, bit x for column x. Timers are int32 ``[B]``."""

    column: jax.Array  # int32[B], of the cannon
    cooldown: jax.Array  # steps until the cannon may fire
    aliens: jax.Array  # map
    right: jax.Array  # bool[B], whether the aliens march right
    interval: jax.Array  # int32[B], steps between two moves of a full wave
    move_timer: jax.Array  # steps until the aliens move
    shot_timer: jax.Array  # steps until an alien shoots
    friendly: jax.Array  # map of the cannon's bullets
    enemy: jax.Array  # map of the aliens' bullets


class SpaceInvaders(MinAtar):
    """Space Invaders; see the module docstring."""

    channels = ("cannon", "alien", "alien_left", "alien_right", "friendly_bullet", "enemy_bullet")
    minimal = "nlrf"

    def start(self, stream: Stream) -> State:
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

    def advance(self, game: State, action: jax.Array, draws: Tree) -> tuple[Tree, jax.Array, jax.Array]:
        before = game.aliens
        game, shot = _act(game, action)
        game = _fly_bullets(game, shot)
        game, num_aliens, landed = _march(game)
        dangers = (game.enemy | before | game.aliens)[:, _BOTTOM]
        hit = (dangers & bit(game.column)) != 0
        game = _shoot(game)
        game, kills = self._kill(game, num_aliens)
        return game, kills, landed | hit

    def _kill(self, game: State, num_aliens: jax.Array) -> tuple[State, jax.Array]:
        """Removes and counts aliens hit by friendly bullets; a cleared wave is followed by a full, faster one."""
        killed = game.aliens & game.friendly
        kills = _count(killed)
        cleared = kills == num_aliens
        faster = cleared & (game.interval > _FASTEST) & self.difficulty_ramping
        aliens = jnp.where(cleared[:, None], _WAVE[None], game.aliens ^ killed)
        interval = game.interval - faster.astype(jnp.int32)
        return tree.rebuild(game, aliens=aliens, interval=interval, friendly=game.friendly ^ killed), kills

    def board(self, game: State) -> jax.Array:
        # All channels of a row are packed into one word; each element of the board tests its bits in that word.
        bottom = np.arange(SIZE) == _BOTTOM
        friendly = game.friendly | jnp.where(bottom[None], bit(game.column)[:, None], _NONE)
        direction = jnp.where(game.right, _MARCHING_RIGHT, _MARCHING_LEFT)[:, None]
        word = game.aliens | (friendly << np.uint32(SIZE)) | (game.enemy << np.uint32(2 * SIZE)) | direction
        return unpack_rows(word, _REQUIRED)

    # --- the picture -------------------------------------------------------------------------------------------------

    def scene(self, game: State) -> tuple[jax.Array, Sequence[_sprites.Sprite]]:
        cells = self.board(game)[..., np.array([0, 3, 2, 4, 5])]
        return cells, (_sprites.cannon, *_sprites.both_ways(_sprites.alien), _sprites.bolt, _sprites.bomb)


# Bits of a row's word: 0 to 9 aliens, 10 to 19 friendly bullets or, in the bottom row, the cannon (they never share a
# row), 20 to 29 enemy bullets, 30 and 31 the direction of the aliens.
_MARCHING_LEFT, _MARCHING_RIGHT = np.uint32(1 << 30), np.uint32(1 << 31)
# The bits that a row's word must have for each element of the row to be set, uint32 [10, 60].
_ALIEN = np.uint32(1) << np.arange(SIZE, dtype=np.uint32)
_FRIENDLY, _ENEMY = _ALIEN << np.uint32(SIZE), _ALIEN << np.uint32(2 * SIZE)
_NEVER = np.full(SIZE, _MARCHING_LEFT | _MARCHING_RIGHT)  # no word has both directions
_MARCHING = _ALIEN, _ALIEN | _MARCHING_LEFT, _ALIEN | _MARCHING_RIGHT
_ABOVE, _LOWEST = [_NEVER, *_MARCHING, _FRIENDLY, _ENEMY], [_FRIENDLY, *_MARCHING, _NEVER, _ENEMY]
_REQUIRED = np.stack([np.stack(row, axis=-1) for row in [_ABOVE] * _BOTTOM + [_LOWEST]]).reshape(SIZE, -1)


def _count(cells: jax.Array) -> jax.Array:
    return jnp.sum(jax.lax.population_count(cells), axis=-1).astype(jnp.int32)


# --- phases of a step, in their order --------------------------------------------------------------------------------


def _act(game: State, action: jax.Array) -> tuple[State, jax.Array]:
    """Fires from the cannon if its cooldown is over, or moves it; also returns the bit of the new bullet's column."""
    fires = (action == FIRE) & (game.cooldown == 0)
    column = jnp.clip(game.column + toward(action, RIGHT, LEFT), 0, _BOTTOM)
    cooldown = jnp.maximum(jnp.where(fires, _COOLDOWN, game.cooldown) - 1, 0)
    return tree.rebuild(game, column=column, cooldown=cooldown), jnp.where(fires, bit(column), _NONE)


def _fly_bullets(game: State, shot: jax.Array) -> State:
    """Moves friendly bullets, the new one included, one row up and enemy bullets one row down.

    The new bullet leaves the bottom row at once, so that row never holds a friendly bullet.
    """
    none = jnp.zeros_like(shot)[:, None]
    friendly = jnp.concatenate([game.friendly[:, 1:_BOTTOM], shot[:, None], none], axis=-1)
    return tree.rebuild(game, friendly=friendly, enemy=jnp.concatenate([none, game.enemy[:, :_BOTTOM]], axis=-1))


def _march(game: State) -> tuple[State, jax.Array, jax.Array]:
    """Moves the aliens when the move timer is up: sideways, or down with a change of direction at an edge.

    Also returns the number of aliens (int32 ``[B]``), and whether they marched down from the bottom row.
    """
    moves = game.move_timer == 0
    edge = jnp.where(game.right, _LAST_COLUMN, _ONE)
    turns = moves & jnp.any((game.aliens & edge[:, None]) != 0, axis=-1)
    sideways = jnp.where(game.right[:, None], game.aliens << _ONE, game.aliens >> _ONE)
    # As in the original, aliens that leave the bottom row wrap around to the top, in the last observation.
    down = jnp.roll(game.aliens, 1, axis=-1)
    aliens = jnp.where(turns[:, None], down, jnp.where(moves[:, None], sideways, game.aliens))
    num_aliens = _count(aliens)
    landed = turns & (game.aliens[:, _BOTTOM] != 0)
    move_timer = jnp.where(moves, jnp.minimum(num_aliens, game.interval), game.move_timer) - 1
    game = tree.rebuild(game, aliens=aliens, right=game.right ^ turns, move_timer=move_timer)
    return game, num_aliens, landed


def _shoot(game: State) -> State:
    """Lets one alien shoot when the shot timer is up; the bullet starts in the alien's cell."""
    shoots = game.shot_timer == 0
    enemy = game.enemy | jnp.where(shoots[:, None], _shooter(game.aliens, game.column), _NONE)
    return tree.rebuild(game, enemy=enemy, shot_timer=jnp.where(shoots, _ALIEN_COOLDOWN, game.shot_timer) - 1)


def _shooter(aliens: jax.Array, column: jax.Array) -> jax.Array:
    """Returns the alien that shoots, as a map: the lowest in the column nearest to the cannon, the left one of two."""
    occupied = jax.lax.reduce(aliens, _NONE, jax.lax.bitwise_or, (1,))
    shift = column.astype(jnp.uint32)
    # The highest occupied column up to the cannon's, and the lowest from it on.
    left = occupied & ((np.uint32(2) << shift) - _ONE)
    right = occupied >> shift
    to_left = jnp.where(left != 0, column - (31 - jax.lax.clz(left).astype(jnp.int32)), np.int32(SIZE))
    to_right = jnp.where(right != 0, 31 - jax.lax.clz(right & (~right + _ONE)).astype(jnp.int32), np.int32(SIZE))
    nearest = bit(jnp.where(to_left <= to_right, column - to_left, column + to_right))[:, None]
    row = np.arange(SIZE, dtype=np.int32)[None]
    lowest = jnp.max(jnp.where((aliens & nearest) != 0, row, np.int32(-1)), axis=-1, keepdims=True)
    return jnp.where(row == lowest, nearest, _NONE)
