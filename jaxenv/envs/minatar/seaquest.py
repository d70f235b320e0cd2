"""Steer a submarine, shoot fish and other submarines, bring divers up, and mind the oxygen.

Reference: ``minatar`` 1.0.15, game ``seaquest`` (tests/envs/minatar/test_seaquest.py).
Paper: Young and Tian (2019), arXiv:1903.03176.

Observation   bool[10, 10, 10]  channels front and back of the submarine, shot, trail (the cell behind a fish, enemy
                                submarine or diver), torpedo, fish, enemy submarine, oxygen and divers aboard (bars in
                                row 9), diver
Action        int32             0 nothing, 1 left, 2 up, 3 right, 4 down, 5 fires (at most every fifth step)
Reward        1 for every fish or submarine shot; on surfacing with six divers 1 for each 20 steps of oxygen left
Starts        at the surface, row 0, column 5, facing left, with oxygen for 200 steps and nothing else
Terminates    when a fish, an enemy submarine or a torpedo is met, on surfacing without divers, or without oxygen
Time limit    none
Ramping       whenever the submarine surfaces, enemies come one step sooner (every 20 at first, every step at last);
              every second time they also move one step sooner (a cell every 6 steps at first, every 3 at last)

Enemies come in rows 1 to 8 from either end, never against those in the same row, a third of them submarines, which
launch a torpedo every 11 steps. A diver comes every 30 steps and moves every 6. Six fit aboard. Surfacing refills
the oxygen and costs one diver, with six of them aboard all.

A quirk of the original is kept: six divers pay, and still one more is taken, so that -1 are aboard. One that is taken
aboard makes it 0. Until then surfacing costs another, and does not end the game, which it does with 0.
"""

from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv._actions import toward
from jaxenv.envs.minatar import cells
from jaxenv.envs.minatar.cells import Cells
from jaxenv.envs.minatar.enemies import ByTimer, Enemies, counted_down, joined_by, shot
from jaxenv.envs.minatar.game import DOWN, FIRE, LEFT, RIGHT, SIZE, UP, MinAtar

T = TypeVar("T")

_OXYGEN = np.int32(200)
_OXYGEN_PER_CELL = np.int32(20)
_SHOT_INTERVAL = np.int32(5)
_DIVER_INTERVAL = np.int32(30)
_DIVER_MOVE_INTERVAL = np.int32(6)
_CREW = np.int32(6)
_LAST_LEVEL = np.int32(19)


@tree.struct
class Diver:
    """A diver in the water: place int32 ``[B]``, whether it swims to the right, bool ``[B]``. Row 0 is no diver."""

    row: jax.Array
    column: jax.Array
    right: jax.Array


@tree.struct
class State:
    """The water. Numbers are int32 ``[B]``, flags bool ``[B]``, timers count steps, a set of cells is three words."""

    row: jax.Array  # of the submarine, 0 is the surface
    column: jax.Array
    facing_right: jax.Array
    surfaced: jax.Array  # whether it has been at the surface since it last came up
    oxygen: jax.Array
    aboard: jax.Array  # divers
    shot_timer: jax.Array
    enemy_timer: jax.Array
    diver_timer: jax.Array
    level: jax.Array  # 0 to 19
    shots_right: Cells  # five steps apart and as fast as the submarine, so never two in one cell
    shots_left: Cells
    torpedoes_right: Cells  # here two in one cell are as one: they do the same
    torpedoes_left: Cells
    enemies: ByTimer
    fish: Cells  # where any of the enemies is a fish
    submarines: Cells  # where any of them is a submarine
    right: Cells  # where they head right, as all do in one row, or none
    divers: tuple[Diver, Diver]  # the newer first: there are never more, they leave after 60 steps


@tree.struct
class Draws:
    """What the next enemy and the next diver are: rows int32 ``[B]``, 1 to 8, flags bool ``[B]``."""

    enemy_from_left: jax.Array
    enemy_row: jax.Array
    is_submarine: jax.Array
    diver_from_left: jax.Array
    diver_row: jax.Array


class Seaquest(MinAtar):
    """Seaquest; see the module."""

    channels = ("front", "back", "shot", "trail", "torpedo", "fish", "submarine", "oxygen", "aboard", "diver")
    minimal = "nlurdf"
    step_words = 1

    def start(self, stream):
        zero, no, none = jnp.zeros(stream.shape, jnp.int32), jnp.zeros(stream.shape, bool), cells.none(stream.shape)
        enemies, diver = Enemies(none, (none,) * 4), Diver(zero, zero, no)
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
            shots_right=none,
            shots_left=none,
            torpedoes_right=none,
            torpedoes_left=none,
            enemies=(enemies,) * 3,
            fish=none,
            submarines=none,
            right=none,
            divers=(diver, diver),
        )

    def draws(self, words):
        # One word: a side and a row for each, and the kind of the enemy from the 24 bits that are left.
        (word,) = words
        return Draws(
            enemy_from_left=(word >> np.uint32(31)) != 0,
            enemy_row=((word >> np.uint32(28)) & np.uint32(7)).astype(jnp.int32) + 1,
            is_submarine=(word & np.uint32(2**24 - 1)) * np.uint32(3) < 2**24,
            diver_from_left=((word >> np.uint32(27)) & np.uint32(1)) != 0,
            diver_row=((word >> np.uint32(24)) & np.uint32(7)).astype(jnp.int32) + 1,
        )

    def advance(self, game, action, draws):
        interval = _move_interval(game.level)
        enemy_comes, diver_comes = game.enemy_timer == 0, game.diver_timer == 0
        enemy_timer = jnp.where(enemy_comes, _enemy_interval(game.level), game.enemy_timer)
        diver_timer = jnp.where(diver_comes, _DIVER_INTERVAL, game.diver_timer)
        entry = _entry(game, draws).where(enemy_comes)
        divers = _diver_in(game.divers, draws, diver_comes)

        # The submarine shoots or moves.
        fires = (action == FIRE) & (game.shot_timer == 0)
        fired = cells.cell(game.row, game.column).where(fires)
        shot_timer = jnp.where(fires, _SHOT_INTERVAL, game.shot_timer)
        shots_right = (game.shots_right | fired.where(game.facing_right)).to_right()
        shots_left = (game.shots_left | fired.where(~game.facing_right)).to_left()
        row = jnp.clip(game.row + toward(action, DOWN, UP), 0, SIZE - 2)
        column = jnp.clip(game.column + toward(action, RIGHT, LEFT), 0, SIZE - 1)
        facing_right = (game.facing_right | (action == RIGHT)) & (action != LEFT)
        divers, aboard = _swim(divers, row, column, game.aboard, diver_timer % _DIVER_MOVE_INTERVAL == 1)

        # Then the shots hit, and enemies and their torpedoes move.
        new = _Moves(entry, cells.cell(row, column), shots_right, shots_left, draws.is_submarine, draws.enemy_from_left)
        new = _computed_once(new)
        game, hits, met = _water(game, new, interval)

        under = row > 0
        comes_up = ~under & ~game.surfaced
        surfaces = comes_up & (aboard != 0)
        full = aboard == _CREW
        pay = jnp.where(surfaces & full, game.oxygen // _OXYGEN_PER_CELL, 0)
        rises = surfaces & (game.level < _LAST_LEVEL) & self.difficulty_ramping
        lost = met | (game.oxygen <= 0) | (comes_up & (aboard == 0))
        after = tree.rebuild(
            game,
            row=row,
            column=column,
            facing_right=facing_right,
            surfaced=~under & (game.surfaced | surfaces),
            oxygen=jnp.where(surfaces, _OXYGEN, game.oxygen - under.astype(jnp.int32)),
            aboard=jnp.where(surfaces, jnp.where(full, 0, aboard) - 1, aboard),
            shot_timer=jnp.maximum(shot_timer - 1, 0),
            enemy_timer=jnp.maximum(enemy_timer - 1, 0),
            diver_timer=jnp.maximum(diver_timer - 1, 0),
            level=game.level + rises.astype(jnp.int32),
            divers=divers,
        )
        return after, hits + pay, lost

    def show(self, game):
        enemies, (newer, older) = game.fish | game.submarines, game.divers
        behind = game.right.to_left() | (enemies - game.right).to_right()
        oxygen = (jnp.maximum(game.oxygen, 0) // _OXYGEN_PER_CELL).astype(jnp.uint32)
        aboard = jnp.clip(game.aboard, 0, _CREW).astype(jnp.uint32)
        last = np.uint32(1 << (SIZE - 1))  # the bar of divers grows to the left from the last column but one
        return cells.board(
            (
                cells.cell(game.row, game.column),
                cells.cell(game.row, game.column + jnp.where(game.facing_right, np.int32(-1), np.int32(1))),
                game.shots_right | game.shots_left,
                cells.union(behind, _place(newer, behind=True), _place(older, behind=True)),
                game.torpedoes_right | game.torpedoes_left,
                game.fish,
                game.submarines,
                (np.uint32(1) << oxygen) - np.uint32(1),
                last - (last >> aboard),
                _place(newer) | _place(older),
            )
        )


def _enemy_interval(level: jax.Array) -> jax.Array:
    return jnp.maximum(20 - level, 1)


def _move_interval(level: jax.Array) -> jax.Array:
    return jnp.maximum(5 - level // 2, 2)


# --- shots, enemies, torpedoes ---------------------------------------------------------------------------------------


@tree.struct
class _Moves:
    """What the rest of a step follows from: the cell in which an enemy comes, that of the submarine, and its shots."""

    entry: Cells
    player: Cells
    shots_right: Cells
    shots_left: Cells
    is_submarine: jax.Array
    from_left: jax.Array


def _computed_once(values: T) -> T:
    """The same. A CPU compiler computes again whatever is cheap for every array that is made from it, here for sixty.

    It cannot see behind the barrier that this branch is always taken, and so does not; the barrier alone would be gone
    before kernels are made. Without the branch a step takes 2.5 times as long.
    """

    def behind_a_branch(values):
        always = jax.lax.optimization_barrier(jnp.bool_(True))
        return jax.lax.cond(always, lambda x: x, lambda x: jax.tree.map(jnp.bitwise_not, x), values)

    return jax.lax.platform_dependent(values, cpu=behind_a_branch, default=lambda values: values)


def _entry(game: State, draws: Draws) -> Cells:
    """Where the next enemy comes: nowhere, if one in its row heads the other way."""
    others = game.fish | game.submarines
    against = tree.where(draws.enemy_from_left, others - game.right, game.right)
    column = jnp.where(draws.enemy_from_left, np.int32(0), np.int32(SIZE - 1))
    return cells.cell(draws.enemy_row, column).where(~(against & cells.whole_row(draws.enemy_row)).any())


def _water(game: State, new: _Moves, interval: jax.Array) -> tuple[State, jax.Array, jax.Array]:
    """All but the submarine and the divers, a step later; how many enemies were shot, and whether one was met."""
    shots = new.shots_right | new.shots_left
    a_fish = new.entry.where(~new.is_submarine)
    fish, right = game.fish | a_fish, game.right | new.entry.where(new.from_left)
    coming = Enemies(cells.NONE, (new.entry, new.entry, a_fish, new.entry))  # 15, or 11
    enemies = joined_by(game.enemies, coming, interval)

    left_over = shots - fish - game.submarines - new.entry
    enemies = shot(enemies, fish, shots)

    # The move timer is up for the first of them, unless it is 3.
    (first, launched), (second, launched_second), (third, launched_third) = (counted_down(some) for some in enemies)
    late = first.late
    leaving, staying = first.map(lambda x: x - late), Enemies(cells.NONE, first.map(lambda x: x & late).number)
    arriving = leaving.map(lambda x: x.moved(right))
    # A torpedo is launched even if the submarine leaves the board or is shot at this step.
    launched_here = launched_second | launched_third | (launched & late)
    launched = launched - late
    torpedoes_right = game.torpedoes_right | (launched_here & right) | (launched & right).to_right()
    torpedoes_left = game.torpedoes_left | (launched_here - right) | (launched - right).to_left()
    waiting = (second, third, staying)
    met = cells.union(*(some.all() for some in (leaving, arriving, *waiting)), torpedoes_right, torpedoes_left)
    torpedoes_right, torpedoes_left = torpedoes_right.to_right(), torpedoes_left.to_left()
    met = (met | torpedoes_right | torpedoes_left) & new.player

    # Enemies run into shots.
    gone = arriving.all() & left_over
    arriving, left_over = arriving.map(lambda x: x - gone), left_over - gone
    right = (cells.union(*(some.all() for some in waiting)) & right) | (leaving.all() & right).to_right()
    arriving, left_over, right, torpedoes_right, torpedoes_left, met, waiting = _computed_once(
        (arriving, left_over, right, torpedoes_right, torpedoes_left, met, waiting)
    )
    after = joined_by(waiting, arriving, interval)
    fish = cells.union(*(some.fish() for some in after))
    submarines = cells.union(*(some.all() - some.fish() for some in after))
    game = tree.rebuild(
        game,
        shots_right=new.shots_right & left_over,
        shots_left=new.shots_left & left_over,
        torpedoes_right=torpedoes_right,
        torpedoes_left=torpedoes_left,
        enemies=after,
        fish=fish,
        submarines=submarines,
        right=right & (fish | submarines),
    )
    return game, shots.count() - left_over.count(), met.any()


# --- divers ----------------------------------------------------------------------------------------------------------


def _place(diver: Diver, behind: bool = False) -> Cells:
    """The diver's cell, or the one behind it."""
    back = jnp.where(diver.right, np.int32(-1), np.int32(1)) if behind else 0
    return cells.cell(diver.row, diver.column + back).where(diver.row > 0)


def _diver_in(divers: tuple[Diver, Diver], draws: Draws, comes: jax.Array) -> tuple[Diver, Diver]:
    column = jnp.where(draws.diver_from_left, np.int32(0), np.int32(SIZE - 1))
    new = Diver(draws.diver_row, column, draws.diver_from_left)
    newer, older = divers
    return tree.where(comes, new, newer), tree.where(comes, newer, older)


def _swim(
    divers: tuple[Diver, Diver], row: jax.Array, column: jax.Array, aboard: jax.Array, moves: jax.Array
) -> tuple[tuple[Diver, Diver], jax.Array]:
    """Divers in the water and aboard, after those that meet the submarine at ``row`` and ``column`` went aboard."""
    swum = []
    for diver in divers:  # the newer one first: it may take the last place
        ahead = diver.column + jnp.where(diver.right, np.int32(1), np.int32(-1))
        then = jnp.where(moves, ahead, diver.column)
        meets = (diver.row > 0) & (diver.row == row) & ((diver.column == column) | (then == column))
        boards = meets & (aboard < _CREW)
        aboard = aboard + boards.astype(jnp.int32)
        stays = (diver.row > 0) & ~boards & (then >= 0) & (then < SIZE)
        swum.append(Diver(jnp.where(stays, diver.row, 0), jnp.where(stays, then, 0), diver.right & stays))
    newer, older = swum
    return (newer, older), aboard
