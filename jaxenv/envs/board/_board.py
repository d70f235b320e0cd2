"""What the games of two players share: sets of cells, one bit per cell, a base class and the rewards.

Cell ``i`` is bit ``i % 32`` of word ``i // 32``. Intersecting or moving a set takes a few integer operations for each
word, whatever the number of cells. The words are separate ``[B]`` arrays, whose operations `in_one_kernel` compiles
into one vectorised loop over the lanes.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import specs, tree
from jaxenv.core import Task, in_one_kernel
from jaxenv.envs._words import Words

_BITS = 32
_ZERO, _ONE = np.uint32(0), np.uint32(1)


@tree.struct
class Cells(Words):
    """A set of cells, laid out as the module docstring says."""

    @staticmethod
    def of(numbers: Any, num_words: int) -> "Cells":
        """Returns a constant set without a lane axis, which broadcasts over all lanes."""
        bits = sum(1 << int(number) for number in set(np.ravel(numbers).tolist()))
        return Cells(tuple(np.uint32(bits >> (_BITS * k) & 0xFFFFFFFF) for k in range(num_words)))

    @staticmethod
    def cell(number: jax.Array, num_words: int) -> "Cells":
        """Returns the set of one cell, int32 ``[B]``; the empty set for a number beyond the words."""
        # A shift by 32 or more bits gives 0, and a negative one wraps to a large shift.
        offset = number.astype(jnp.uint32)
        return Cells(tuple(_ONE << (offset - np.uint32(_BITS * k)) for k in range(num_words)))

    def moved(self, distance: int) -> "Cells":
        """Adds ``distance`` (-31 to 31, not 0) to the number of every cell; cells beyond the words drop out."""
        words, near, far = self.words, np.uint32(abs(distance)), np.uint32(_BITS - abs(distance))
        if distance > 0:
            below = (_ZERO, *words[:-1])
            return Cells(tuple((a << near) | (b >> far) for a, b in zip(words, below, strict=True)))
        above = (*words[1:], _ZERO)
        return Cells(tuple((a >> near) | (b << far) for a, b in zip(words, above, strict=True)))

    def at(self, numbers: np.ndarray) -> jax.Array:
        """Returns whether the set contains each of the cells ``numbers`` (constants ``[n]``): bool ``[B, n]``."""
        which, bit = numbers // _BITS, _ONE << (numbers % _BITS).astype(np.uint32)
        found = jnp.zeros((), bool)
        for k, word in enumerate(self.words):
            found = found | ((word[:, None] & np.where(which == k, bit, _ZERO)[None]) != _ZERO)
        return found


class BoardGame(Task):
    """Base class of the games of two players who move in turn."""

    agent_names = ("black", "white")
    turns = True
    summed_entries = frozenset({"invalid_move"})

    def action_spec(self) -> specs.Bounded:
        return specs.discrete(len(self.action_names), name="action")


def two_rewards(result: jax.Array, player: jax.Array) -> jax.Array:
    """Returns the rewards float32 ``[B, 2]`` of both players for a result of ``player``: 1 for a win, -1 for a loss."""
    own = np.arange(2, dtype=np.int32)[None] == player[:, None]
    return jnp.where(own, result[:, None], -result[:, None]).astype(jnp.float32)  # integers have no -0


# Rounds between two checks of whether a group still grows.
_ROUNDS = 4


def around(cells: Cells, steps: tuple[int, ...]) -> Cells:
    """Returns the cells that one of the ``steps`` leads to from one of the cells."""
    return Cells.union(*(cells.moved(step) for step in steps))


def connected(seeds: Cells, inside: Cells, steps: tuple[int, ...]) -> Cells:
    """Returns the cells of ``inside`` that paths through ``inside`` connect with the ``seeds``.

    All lanes take as many rounds as the longest path of any lane needs. Words have any shape; they broadcast.
    """

    def grow(state: tuple[Cells, jax.Array]) -> tuple[Cells, jax.Array]:
        return in_one_kernel(_grown, state[0], inside, steps)

    # `in_one_kernel` gives the first step the shape of all arguments.
    return jax.lax.while_loop(lambda state: jnp.any(state[1]), grow, in_one_kernel(_grown, seeds, inside, steps))[0]


def _grown(cells: Cells, inside: Cells, steps: tuple[int, ...]) -> tuple[Cells, jax.Array]:
    """Returns the cells after some rounds, and whether they may grow further."""
    grown = cells & inside
    for _ in range(_ROUNDS):
        before = grown
        for step in steps:
            grown = grown | (grown.moved(step) & inside)
    return grown, (grown - before).any()
