"""Fish and enemy submarines of Seaquest, kept as sets of cells.

An enemy has a cell, a heading, a move timer from 0 to 5 and, if it is a submarine, a launch timer. Enemies in one row
share their heading, so `seaquest.State` keeps the headings in one set, ``right``. The rest is spread over bit planes:

* ``enemies[k]`` (``k`` in 0, 1, 2) holds the enemies whose move timer is ``k`` or ``k + 3``.
* ``enemies[k].late`` holds the cells in which the timer is ``k + 3``.
* ``enemies[k].code[0]`` to ``code[3]`` hold the bits, lowest first, of one number per cell: 0 for no enemy, 15 for a
  fish, and 1 to 11 for a submarine that launches its next torpedo in that many steps.

For example, a row with a fish (move timer 4) in column 1 and a submarine (move timer 0, launches in 6 steps) in
column 5:

    column               0 1 2 3 4 5 6 7 8 9
    enemies[0].late      0 0 0 0 0 0 0 0 0 0    the submarine's timer is 0, not 3
    enemies[0].code[0]   0 0 0 0 0 0 0 0 0 0
    enemies[0].code[1]   0 0 0 0 0 1 0 0 0 0
    enemies[0].code[2]   0 0 0 0 0 1 0 0 0 0    6 = 0b0110
    enemies[0].code[3]   0 0 0 0 0 0 0 0 0 0
    enemies[1].late      0 1 0 0 0 0 0 0 0 0    the fish's timer is 4, not 1
    enemies[1].code[0]   0 1 0 0 0 0 0 0 0 0
    enemies[1].code[1]   0 1 0 0 0 0 0 0 0 0
    enemies[1].code[2]   0 1 0 0 0 0 0 0 0 0    15 = 0b1111, a fish
    enemies[1].code[3]   0 1 0 0 0 0 0 0 0 0
    enemies[2]           0 0 0 0 0 0 0 0 0 0    in all five planes

Enemies that share a cell always differ in ``k``. One can catch up with another only if enemies enter more often than
every 14th step. At such levels all move timers are 0 to 2, and enemies in one cell have different timers.
"""

from collections.abc import Callable
from typing import TypeAlias

import jax

from jaxenv import tree
from jaxenv.envs.minatar._bitboard import EMPTY, Bitboard


@tree.struct
class Enemies:
    """Fish and enemy submarines with at most one of them in a cell; the module docstring shows the layout."""

    late: Bitboard  # cells in which the move timer is 3 to 5; elsewhere it is 0 to 2
    code: tuple[Bitboard, Bitboard, Bitboard, Bitboard]  # four sets, the bits of one number per cell, lowest bit first

    def map(self, fn: Callable[..., Bitboard], *others: "Enemies") -> "Enemies":
        """Applies ``fn`` to each of the five planes."""
        a, b, c, d = (fn(*bits) for bits in zip(self.code, *(x.code for x in others), strict=True))
        return Enemies(fn(self.late, *(x.late for x in others)), (a, b, c, d))

    def cells(self) -> Bitboard:
        """Returns the cells of all enemies."""
        return Bitboard.union(*self.code)

    def fish(self) -> Bitboard:
        """Returns the cells of the fish: only their code, 15, has both high bits."""
        return self.code[2] & self.code[3]

    def submarines(self) -> Bitboard:
        """Returns the cells of the submarines."""
        return self.cells() - self.fish()


# Indexed by the move timer modulo 3.
ByTimer: TypeAlias = tuple[Enemies, Enemies, Enemies]


def spawned(cell: Bitboard, is_submarine: jax.Array) -> Enemies:
    """Returns a new enemy in ``cell``: a fish (code 15), or a submarine that launches in 11 steps (code 11)."""
    fish = cell.where(~is_submarine)
    return Enemies(EMPTY, (cell, cell, fish, cell))


def add(enemies: ByTimer, new: Enemies, timer: jax.Array) -> ByTimer:
    """Adds enemies whose move timer is ``timer``, int32 ``[B]``, 2 to 5."""
    new = Enemies(new.cells().where(timer >= 3), new.code)

    def added(k: int) -> Enemies:
        selected = timer % 3 == k
        return enemies[k].map(lambda x, y: x | y.where(selected), new)

    return added(0), added(1), added(2)


def remove_hit(enemies: ByTimer, fish: Bitboard, shots: Bitboard) -> ByTimer:
    """Removes one enemy from every cell that holds a shot; ``fish`` are the cells of all fish.

    In a cell with several enemies a fish is hit before a submarine, and older enemies before newer ones of their kind.
    """
    remaining, earlier_fish, preferred = [], EMPTY, fish
    for group in enemies:  # enemies that entered first move first
        group_fish = group.fish()
        group_submarines = group.cells() - group_fish
        hit = ((group_fish - earlier_fish) | (group_submarines - preferred)) & shots
        remaining.append(group.map(lambda x, hit=hit: x - hit))
        earlier_fish, preferred = earlier_fish | group_fish, preferred | group_submarines
    first, second, third = remaining
    return first, second, third


def count_down(enemies: Enemies) -> tuple[Enemies, Bitboard]:
    """Decrements all launch timers and resets them to 11 at 0; also returns the submarines that launch now."""
    # Subtracts 1 from the code of every submarine, bit by bit with borrow, in all cells at once.
    a, b, c, d = enemies.code
    borrow = enemies.cells() - enemies.fish()
    submarines = borrow
    a, borrow = a ^ borrow, borrow - a
    b, borrow = b ^ borrow, borrow - b
    c, borrow = c ^ borrow, borrow - c
    d = d ^ borrow
    launching = submarines - Bitboard.union(a, b, c, d)
    return Enemies(enemies.late, (a | launching, b | launching, c, d | launching)), launching  # 11 = 0b1011


@tree.struct
class Motion:
    """The enemies during one step, split by whether they move."""

    leaving: Enemies  # the enemies that move, in the cells that they leave
    arriving: Enemies  # the same enemies, in the cells that they enter
    waiting: ByTimer  # all other enemies, by the new value of their move timer modulo 3
    launching: Bitboard  # the cells in leaving whose submarines launch a torpedo
    launching_waiting: Bitboard  # the cells in waiting whose submarines launch a torpedo

    def cells(self) -> Bitboard:
        """Returns the cells of all enemies, before and after their move."""
        return Bitboard.union(*(group.cells() for group in (self.leaving, self.arriving, *self.waiting)))

    def headings(self, right: Bitboard) -> Bitboard:
        """Moves the cells of the enemies that head right along with the enemies.

        Cells of enemies that were removed at this step may be among them.
        """
        waiting = Bitboard.union(*(group.cells() for group in self.waiting))
        return (waiting & right) | (self.leaving.cells() & right).to_right()


def move(enemies: ByTimer, right: Bitboard) -> Motion:
    """Counts down the timers of all enemies and moves those whose move timer is up by one cell."""
    counted = [count_down(group) for group in enemies]
    (first, first_launching), (second, second_launching), (third, third_launching) = counted
    # In the first group the move timer is 0 (up) or 3 (becomes 2). In the others it decreases without a change of
    # ``late``, so the groups only change their index.
    late = first.late
    leaving = first.map(lambda x: x - late)
    staying = Enemies(EMPTY, first.map(lambda x: x & late).code)
    return Motion(
        leaving=leaving,
        arriving=leaving.map(lambda x: x.moved(right)),
        waiting=(second, third, staying),
        launching=first_launching - late,
        launching_waiting=second_launching | third_launching | (first_launching & late),
    )


def run_into_shots(arriving: Enemies, flying: Bitboard) -> tuple[Enemies, Bitboard]:
    """Removes every enemy that enters the cell of a shot, and the shot."""
    hit = arriving.cells() & flying
    return arriving.map(lambda x: x - hit), flying - hit
