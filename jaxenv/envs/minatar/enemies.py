"""Fish and enemy submarines of Seaquest, all of them at once: sets of cells by their timers."""

from collections.abc import Callable
from typing import TypeAlias

import jax

from jaxenv import tree
from jaxenv.envs.minatar import cells
from jaxenv.envs.minatar.cells import Cells


@tree.struct
class Enemies:
    """Fish and enemy submarines of which no two are in one cell: five bits a cell.

    Attributes:
        late: where the move timer is 3 to 5, else it is 0 to 2.
        number: four sets, the bits of a number from the lowest: 0 is no enemy, 15 is a fish, and 1 to 11 is a
            submarine that launches a torpedo so many steps from now.
    """

    late: Cells
    number: tuple[Cells, Cells, Cells, Cells]

    def map(self, fn: Callable[..., Cells], *others: "Enemies") -> "Enemies":
        """``fn`` applied to each of the five sets."""
        a, b, c, d = (fn(*bits) for bits in zip(self.number, *(x.number for x in others), strict=True))
        return Enemies(fn(self.late, *(x.late for x in others)), (a, b, c, d))

    def all(self) -> Cells:
        """Where any of them is."""
        return cells.union(*self.number)

    def fish(self) -> Cells:
        """Where the fish are."""
        return self.number[2] & self.number[3]


# By the move timer modulo 3. Where enemies are in one cell, their timers are 0 to 2 and all different: they can follow
# that closely only once they come faster than every 14th step, and then they move every third.
ByTimer: TypeAlias = tuple[Enemies, Enemies, Enemies]


def joined_by(enemies: ByTimer, some: Enemies, timer: jax.Array) -> ByTimer:
    """The enemies and some more, whose move timer is ``timer``, 2 to 5."""
    some = Enemies(some.all().where(timer >= 3), some.number)

    def joined(k):
        now = timer % 3 == k
        return enemies[k].map(lambda x, y: x | y.where(now), some)

    return joined(0), joined(1), joined(2)


def shot(enemies: ByTimer, fish: Cells, shots: Cells) -> ByTimer:
    """The enemies without one in each cell with a shot: fish go before submarines, and who came first before others."""
    remaining, passed_fish, passed = [], cells.NONE, fish
    for some in enemies:  # who came first moves on first
        some_fish = some.fish()
        some_submarines = some.all() - some_fish
        gone = ((some_fish - passed_fish) | (some_submarines - passed)) & shots
        remaining.append(some.map(lambda x, gone=gone: x - gone))
        passed_fish, passed = passed_fish | some_fish, passed | some_submarines
    first, second, third = remaining
    return first, second, third


def counted_down(enemies: Enemies) -> tuple[Enemies, Cells]:
    """The launch of every submarine a step closer, and those that launch now."""
    a, b, c, d = enemies.number
    borrow = enemies.all() - enemies.fish()
    submarines = borrow
    a, borrow = a ^ borrow, borrow - a
    b, borrow = b ^ borrow, borrow - b
    c, borrow = c ^ borrow, borrow - c
    d = d ^ borrow
    launches = submarines - cells.union(a, b, c, d)
    return Enemies(enemies.late, (a | launches, b | launches, c, d | launches)), launches  # 11 again
