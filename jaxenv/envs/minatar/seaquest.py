"""Steer a submarine, shoot fish and enemy submarines, rescue divers, and surface before the oxygen runs out.

Reference: ``minatar`` 1.0.15, game ``seaquest`` (tests/envs/minatar/test_seaquest.py).
Paper: Young and Tian (2019), arXiv:1903.03176.

Observation   bool[10, 10, 10]  channels front and back of the submarine, shot, trail (the cell behind a fish, enemy
                                submarine or diver), torpedo, fish, enemy submarine, oxygen and divers aboard (bars in
                                row 9), diver
Action        int32             0 does nothing, 1 left, 2 up, 3 right, 4 down, 5 fires (at most every fifth step)
Reward        1 for every fish or submarine shot; on surfacing with six divers, 1 for every 20 steps of oxygen left
Starts        at the surface, row 0, column 5, facing left, with oxygen for 200 steps; the water is empty
Terminates    when the submarine meets an enemy, a fish or a torpedo, surfaces without divers, or runs out of oxygen
Time limit    none
Ramping       each time the submarine surfaces, enemies enter one step sooner (every 20 at first, every step at last);
              every second time they also move one step sooner (every 6 steps at first, every 3 at last)

Enemies enter in rows 1 to 8 from either end, except in a row where another enemy heads the other way. One third of them
are submarines, which launch a torpedo every 11 steps. A diver enters every 30 steps and moves every 6. Six divers fit
aboard. Surfacing refills the oxygen and drops off one diver; with six aboard it drops off all of them.

A quirk of the original is kept: surfacing with six divers drops off one more than it pays for and leaves -1 aboard. The
next diver makes the count 0. With -1 aboard the submarine may surface again, which leaves -2; with 0 it may not.

All objects are sets of cells, one bit per cell: `_bitboard.py` shows the layout of a set, `_seaquest_enemies.py` the
layout of the enemies' timers. A row with a fish in column 1 that heads right, a torpedo in column 7 that heads left,
and the submarine's shot in column 4 that flies left is spread over the sets of `State` as follows:

    column               0 1 2 3 4 5 6 7 8 9
    shots_left           0 0 0 0 1 0 0 0 0 0
    torpedoes_left       0 0 0 0 0 0 0 1 0 0
    fish                 0 1 0 0 0 0 0 0 0 0
    right                0 1 0 0 0 0 0 0 0 0
    enemies              the fish once more, with its move timer
    shots_right, torpedoes_right, submarines: all 0
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv.canvas import INK, RED, SKY, Canvas
from jaxenv.core import toward
from jaxenv.envs.minatar import _seaquest_enemies
from jaxenv.envs.minatar._bitboard import EMPTY, Bitboard, stack_channels
from jaxenv.envs.minatar._seaquest_enemies import ByTimer, Enemies, Motion
from jaxenv.envs.minatar._seaquest_sprites import BACKDROP, PAIRS, shot
from jaxenv.envs.minatar._sprites import Sprite
from jaxenv.envs.minatar.minatar import DOWN, FIRE, LEFT, RIGHT, SIZE, UP, MinAtar
from jaxenv.random import Stream
from jaxenv.tree import Tree

_OXYGEN = np.int32(200)  # steps
_OXYGEN_PER_CELL = np.int32(20)
_SHOT_INTERVAL = np.int32(5)
_DIVER_INTERVAL = np.int32(30)
_DIVER_MOVE_INTERVAL = np.int32(6)
_MAX_ABOARD = np.int32(6)
_LAST_LEVEL = np.int32(19)


@tree.struct
class Diver:
    """A diver in the water: row and column int32 ``[B]``, heading bool ``[B]``. Row 0 means that there is no diver."""

    row: jax.Array
    column: jax.Array
    right: jax.Array

    def cell(self, behind: bool = False) -> Bitboard:
        """Returns the diver's cell, or the cell behind it; the empty set where there is no diver."""
        back = jnp.where(self.right, np.int32(-1), np.int32(1)) if behind else 0
        return Bitboard.cell(self.row, self.column + back).where(self.row > 0)


@tree.struct
class State:
    """The board. Numbers are int32 ``[B]``, flags bool ``[B]``, and timers count steps down to 0."""

    row: jax.Array  # of the submarine; 0 is the surface
    column: jax.Array
    facing_right: jax.Array
    surfaced: jax.Array  # whether the submarine has stayed at the surface since it last surfaced
    oxygen: jax.Array
    aboard: jax.Array  # number of divers aboard
    shot_timer: jax.Array
    enemy_timer: jax.Array
    diver_timer: jax.Array
    level: jax.Array  # 0 to 19
    shots_right: Bitboard  # shots are fired at least five steps apart, so two never share a cell
    shots_left: Bitboard
    torpedoes_right: Bitboard  # torpedoes in one cell behave like a single one
    torpedoes_left: Bitboard
    enemies: ByTimer
    fish: Bitboard  # cells with at least one fish
    submarines: Bitboard  # cells with at least one enemy submarine
    right: Bitboard  # cells of the enemies that head right
    divers: tuple[Diver, Diver]  # the newer first; at most two, since a diver leaves the board after 60 steps


@tree.struct
class Draws:
    """Random choices for the next enemy and the next diver: rows int32 ``[B]``, 1 to 8; flags bool ``[B]``."""

    enemy_from_left: jax.Array
    enemy_row: jax.Array
    is_submarine: jax.Array
    diver_from_left: jax.Array
    diver_row: jax.Array


class Seaquest(MinAtar):
    """Seaquest; see the module docstring."""

    channels = ("front", "back", "shot", "trail", "torpedo", "fish", "submarine", "oxygen", "aboard", "diver")
    minimal = "nlurdf"
    step_words = 1
    elementwise = True

    def start(self, stream: Stream) -> State:
        zero, no = jnp.zeros(stream.shape, jnp.int32), jnp.zeros(stream.shape, bool)
        empty, diver = EMPTY.full(stream.shape), Diver(zero, zero, no)
        return State(
            row=zero,
            column=zero + 5,
            facing_right=no,
            surfaced=~no,
            oxygen=zero + _OXYGEN,
            aboard=zero,
            shot_timer=zero,
            enemy_timer=_enemy_interval(zero),
            diver_timer=zero + _DIVER_INTERVAL,
            level=zero,
            shots_right=empty,
            shots_left=empty,
            torpedoes_right=empty,
            torpedoes_left=empty,
            enemies=(Enemies(empty, (empty,) * 4),) * 3,
            fish=empty,
            submarines=empty,
            right=empty,
            divers=(diver, diver),
        )

    def draws(self, words: Sequence[jax.Array]) -> Draws:
        # One word: a side and a row each for enemy and diver (8 bits), and the kind of enemy from the other 24 bits.
        (word,) = words
        return Draws(
            enemy_from_left=(word >> np.uint32(31)) != 0,
            enemy_row=((word >> np.uint32(28)) & np.uint32(7)).astype(jnp.int32) + 1,
            is_submarine=(word & np.uint32(2**24 - 1)) * np.uint32(3) < 2**24,
            diver_from_left=((word >> np.uint32(27)) & np.uint32(1)) != 0,
            diver_row=((word >> np.uint32(24)) & np.uint32(7)).astype(jnp.int32) + 1,
        )

    def advance(self, game: State, action: jax.Array, draws: Draws) -> tuple[Tree, jax.Array, jax.Array]:
        interval = jnp.maximum(5 - game.level // 2, 2)
        game, entry = _choose_spawn(game, draws)
        game = _spawn_diver(game, draws)
        game = _act(game, action)
        game = tree.rebuild(game, shots_right=game.shots_right.to_right(), shots_left=game.shots_left.to_left())
        game = _swim(game)
        player = Bitboard.cell(game.row, game.column)
        game = _enter(game, entry, draws, interval)
        shots = game.shots_right | game.shots_left
        game, flying = _hit(game, shots)
        motion = _seaquest_enemies.move(game.enemies, game.right)
        launched = _launch(game, motion)
        torpedoes = launched.torpedoes_right.to_right(), launched.torpedoes_left.to_left()
        game = tree.rebuild(launched, torpedoes_right=torpedoes[0], torpedoes_left=torpedoes[1])
        # Meeting an enemy or a torpedo before or after its move ends the game.
        met = Bitboard.union(motion.cells(), launched.torpedoes_right, launched.torpedoes_left, *torpedoes) & player
        arriving, flying = _seaquest_enemies.run_into_shots(motion.arriving, flying)
        shots_right, shots_left = game.shots_right & flying, game.shots_left & flying
        game = tree.rebuild(game, shots_right=shots_right, shots_left=shots_left, right=motion.headings(game.right))
        game = _regroup(game, motion.waiting, arriving, interval)
        hits = shots.count() - flying.count()
        timers = "shot_timer", "enemy_timer", "diver_timer"
        game = tree.rebuild(game, **{name: jnp.maximum(getattr(game, name) - 1, 0) for name in timers})
        return self._surface(game, hits, met.any())

    def _surface(self, game: State, hits: jax.Array, met: jax.Array) -> tuple[State, jax.Array, jax.Array]:
        """Uses oxygen under water; refills it, drops off divers and raises the level on surfacing.

        Returns the state, the reward (int32 ``[B]``) and whether the game is over.
        """
        under = game.row > 0
        comes_up = ~under & ~game.surfaced
        surfaces = comes_up & (game.aboard != 0)
        full = game.aboard == _MAX_ABOARD
        pay = jnp.where(surfaces & full, game.oxygen // _OXYGEN_PER_CELL, 0)
        rises = surfaces & (game.level < _LAST_LEVEL) & self.difficulty_ramping
        over = met | (game.oxygen <= 0) | (comes_up & (game.aboard == 0))
        game = tree.rebuild(
            game,
            surfaced=~under & (game.surfaced | surfaces),
            oxygen=jnp.where(surfaces, _OXYGEN, game.oxygen - under.astype(jnp.int32)),
            aboard=jnp.where(surfaces, jnp.where(full, 0, game.aboard) - 1, game.aboard),
            level=game.level + rises.astype(jnp.int32),
        )
        return game, hits + pay, over

    def board(self, game: State) -> jax.Array:
        enemies, (newer, older) = game.fish | game.submarines, game.divers
        behind_enemies = game.right.to_left() | (enemies - game.right).to_right()
        oxygen = (jnp.maximum(game.oxygen, 0) // _OXYGEN_PER_CELL).astype(jnp.uint32)
        aboard = jnp.clip(game.aboard, 0, _MAX_ABOARD).astype(jnp.uint32)
        last_column = np.uint32(1 << (SIZE - 1))
        return stack_channels(
            Bitboard.cell(game.row, game.column),
            Bitboard.cell(game.row, game.column + jnp.where(game.facing_right, np.int32(-1), np.int32(1))),
            game.shots_right | game.shots_left,
            Bitboard.union(behind_enemies, newer.cell(behind=True), older.cell(behind=True)),
            game.torpedoes_right | game.torpedoes_left,
            game.fish,
            game.submarines,
            (np.uint32(1) << oxygen) - np.uint32(1),  # grows to the right from column 0
            last_column - (last_column >> aboard),  # grows to the left from column 8
            newer.cell() | older.cell(),
        )

    # --- the picture -------------------------------------------------------------------------------------------------

    def scene(self, game: State) -> tuple[jax.Array, Sequence[Sprite]]:
        back = game.column + jnp.where(game.facing_right, np.int32(-1), np.int32(1))
        parts = [Bitboard.cell(game.row, column) for column in (game.column, back)]
        submarine = [part.where(side) for part in parts for side in (game.facing_right, ~game.facing_right)]
        swimmers = [side for kind in (game.fish, game.submarines) for side in (kind & game.right, kind - game.right)]
        for side in (True, False):
            swimmers.append(Bitboard.union(*(diver.cell().where(diver.right == side) for diver in game.divers)))
        wakes = [Bitboard.union(*swimmers[::2]).to_left(), Bitboard.union(*swimmers[1::2]).to_right()]
        cells = (*submarine, game.torpedoes_right, game.torpedoes_left, *swimmers, *wakes)
        return stack_channels(game.shots_right | game.shots_left, *cells), (shot, *PAIRS)

    def backdrop(self, game: State, canvas: Canvas) -> Canvas:
        """Paints the water, and below it the oxygen and the divers aboard."""
        seats = np.int32(9) + (game.aboard[:, None] > np.arange(6, dtype=np.int32)[None]).astype(jnp.int32)
        lowest = jnp.pad(seats, ((0, 0), (SIZE - 6, 0)), constant_values=11)[:, None]
        rows = jnp.broadcast_to(np.arange(SIZE - 1, dtype=np.int32)[None, :, None], (len(seats), SIZE - 1, SIZE))
        canvas = canvas.tiles(jnp.concatenate([rows, lowest], axis=1), BACKDROP).view_cells(SIZE, SIZE)
        oxygen = game.oxygen / _OXYGEN
        length = 3.5 * jnp.clip(oxygen, 0, 1)
        canvas = canvas.box(2.0, 0.5, 3.7, 0.5, INK, corner=0.2)
        # The gauge turns red when it is nearly empty.
        colour = jnp.where(oxygen[:, None] < 0.25, RED[None], SKY[None])
        return canvas.box(0.25 + length / 2, 0.5, length, 0.3, colour, corner=jnp.minimum(length / 2, 0.12))


def _enemy_interval(level: jax.Array) -> jax.Array:
    return jnp.maximum(20 - level, 1)


# --- phases of a step, in their order --------------------------------------------------------------------------------


def _choose_spawn(game: State, draws: Draws) -> tuple[State, Bitboard]:
    """Returns where an enemy enters: when the enemy timer is up, unless one in its row heads the other way."""
    spawns = game.enemy_timer == 0
    others = game.fish | game.submarines
    opposing = tree.where(draws.enemy_from_left, others - game.right, game.right)
    blocked = (opposing & Bitboard.whole_row(draws.enemy_row)).any()
    column = jnp.where(draws.enemy_from_left, np.int32(0), np.int32(SIZE - 1))
    cell = Bitboard.cell(draws.enemy_row, column).where(~blocked).where(spawns)
    timer = jnp.where(spawns, _enemy_interval(game.level), game.enemy_timer)
    return tree.rebuild(game, enemy_timer=timer), cell


def _spawn_diver(game: State, draws: Draws) -> State:
    """Adds a diver when the diver timer is up."""
    spawns = game.diver_timer == 0
    column = jnp.where(draws.diver_from_left, np.int32(0), np.int32(SIZE - 1))
    new = Diver(draws.diver_row, column, draws.diver_from_left)
    newer, older = game.divers
    divers = tree.where(spawns, new, newer), tree.where(spawns, newer, older)
    return tree.rebuild(game, diver_timer=jnp.where(spawns, _DIVER_INTERVAL, game.diver_timer), divers=divers)


def _act(game: State, action: jax.Array) -> State:
    """Fires a shot from the submarine's cell if the shot timer is up, or moves and turns the submarine."""
    fires = (action == FIRE) & (game.shot_timer == 0)
    fired = Bitboard.cell(game.row, game.column).where(fires)
    return tree.rebuild(
        game,
        shot_timer=jnp.where(fires, _SHOT_INTERVAL, game.shot_timer),
        shots_right=game.shots_right | fired.where(game.facing_right),
        shots_left=game.shots_left | fired.where(~game.facing_right),
        row=jnp.clip(game.row + toward(action, DOWN, UP), 0, SIZE - 2),
        column=jnp.clip(game.column + toward(action, RIGHT, LEFT), 0, SIZE - 1),
        facing_right=(game.facing_right | (action == RIGHT)) & (action != LEFT),
    )


def _swim(game: State) -> State:
    """Moves the divers every sixth step and takes those aboard that meet the submarine, while there is room.

    A diver meets the submarine in the cell that it leaves or in the cell that it enters.
    """
    # Divers enter every 30 steps and move every 6, so all of them move at the same steps and need no move timers.
    moves = game.diver_timer % _DIVER_MOVE_INTERVAL == 1
    aboard, divers = game.aboard, []
    for diver in game.divers:  # in the original's order: the newer diver takes the last place
        ahead = diver.column + jnp.where(diver.right, np.int32(1), np.int32(-1))
        column = jnp.where(moves, ahead, diver.column)
        meets = (diver.row > 0) & (diver.row == game.row) & ((diver.column == game.column) | (column == game.column))
        boards = meets & (aboard < _MAX_ABOARD)
        aboard = aboard + boards.astype(jnp.int32)
        stays = (diver.row > 0) & ~boards & (column >= 0) & (column < SIZE)
        divers.append(Diver(jnp.where(stays, diver.row, 0), jnp.where(stays, column, 0), diver.right & stays))
    newer, older = divers
    return tree.rebuild(game, aboard=aboard, divers=(newer, older))


def _enter(game: State, cell: Bitboard, draws: Draws, interval: jax.Array) -> State:
    """Adds the new enemy; its move timer starts at the move interval."""
    new = _seaquest_enemies.spawned(cell, draws.is_submarine)
    return tree.rebuild(
        game,
        enemies=_seaquest_enemies.add(game.enemies, new, interval),
        fish=game.fish | cell.where(~draws.is_submarine),
        submarines=game.submarines | cell.where(draws.is_submarine),
        right=game.right | cell.where(draws.enemy_from_left),
    )


def _hit(game: State, shots: Bitboard) -> tuple[State, Bitboard]:
    """Removes one enemy from each cell with a shot; also returns the shots that hit nothing.

    ``fish`` and ``submarines`` still have the cells of the removed enemies; `_regroup` derives both sets again.
    """
    enemies = _seaquest_enemies.remove_hit(game.enemies, game.fish, shots)
    return tree.rebuild(game, enemies=enemies), shots - game.fish - game.submarines


def _launch(game: State, motion: Motion) -> State:
    """Adds the launched torpedoes in the cells in which the submarines are after their move.

    A submarine that leaves the board or runs into a shot at this step has still launched.
    """
    moved, resting, right = motion.launching, motion.launching_waiting, game.right
    to_right = game.torpedoes_right | (resting & right) | (moved & right).to_right()
    to_left = game.torpedoes_left | (resting - right) | (moved - right).to_left()
    return tree.rebuild(game, torpedoes_right=to_right, torpedoes_left=to_left)


def _regroup(game: State, waiting: ByTimer, arriving: Enemies, interval: jax.Array) -> State:
    """Restarts the move timer of the enemies that moved, and derives the cells of fish and submarines."""
    enemies = _seaquest_enemies.add(waiting, arriving, interval)
    fish = Bitboard.union(*(group.fish() for group in enemies))
    submarines = Bitboard.union(*(group.submarines() for group in enemies))
    right = game.right & (fish | submarines)
    return tree.rebuild(game, enemies=enemies, fish=fish, submarines=submarines, right=right)
