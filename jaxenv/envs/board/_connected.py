"""Connected groups of cells, found in all lanes at once."""

import jax
import jax.numpy as jnp

from jaxenv.core import in_one_kernel
from jaxenv.envs.board._board import Cells

# Rounds between two checks of whether a group still grows.
_ROUNDS = 4


def around(cells: Cells, steps: tuple[int, ...]) -> Cells:
    """Returns the cells that one of the ``steps`` leads to from one of the cells."""
    return Cells.union(cells.moved(step) for step in steps)


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
