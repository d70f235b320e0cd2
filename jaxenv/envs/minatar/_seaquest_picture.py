"""Draws Seaquest: the water with everything in it, and below it the oxygen and the divers aboard."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv.canvas import INK, RED, SKY, Canvas
from jaxenv.envs.minatar import _sprites
from jaxenv.envs.minatar._bitboard import Bitboard, stack_channels
from jaxenv.envs.minatar._sprites import Sprite
from jaxenv.envs.minatar.minatar import SIZE

_PAIRS = _sprites.both_ways(
    _sprites.submarine,
    _sprites.behind(_sprites.submarine),
    _sprites.torpedo,
    _sprites.fish,
    _sprites.foe,
    _sprites.diver,
    _sprites.bubbles,
)
_BACKDROP = (_sprites.surface, *(_sprites.water(row / 7) for row in range(8)), _sprites.seat, _sprites.passenger, None)
_ROW = np.arange(SIZE - 1, dtype=np.int32)[:, None]
_SEATS = np.arange(6, dtype=np.int32)


def scene(game: Any) -> tuple[jax.Array, tuple[Sprite, ...]]:
    """Returns cells and sprites as `MinAtar.scene` does; ``game`` is a `seaquest.State`."""
    back = game.column + jnp.where(game.facing_right, np.int32(-1), np.int32(1))
    parts = [Bitboard.cell(game.row, column) for column in (game.column, back)]
    submarine = [part.where(side) for part in parts for side in (game.facing_right, ~game.facing_right)]
    swimmers = [side for kind in (game.fish, game.submarines) for side in (kind & game.right, kind - game.right)]
    for side in (True, False):
        swimmers.append(Bitboard.union(*(diver.cell().where(diver.right == side) for diver in game.divers)))
    wakes = [Bitboard.union(*swimmers[::2]).to_left(), Bitboard.union(*swimmers[1::2]).to_right()]
    cells = (*submarine, game.torpedoes_right, game.torpedoes_left, *swimmers, *wakes)
    return stack_channels((game.shots_right | game.shots_left, *cells)), (_sprites.shot, *_PAIRS)


def backdrop(canvas: Canvas, oxygen: jax.Array, aboard: jax.Array) -> Canvas:
    """Paints the water, the fraction of ``oxygen`` left, float32 ``[B]``, and the number of divers ``aboard``."""
    seats = np.int32(9) + (aboard[:, None] > _SEATS[None]).astype(jnp.int32)
    lowest = jnp.pad(seats, ((0, 0), (SIZE - len(_SEATS), 0)), constant_values=11)[:, None]
    rows = jnp.broadcast_to(_ROW[None], (len(aboard), SIZE - 1, SIZE))
    canvas = canvas.tiles(jnp.concatenate([rows, lowest], axis=1), _BACKDROP).view_cells(SIZE, SIZE)
    length = 3.5 * jnp.clip(oxygen, 0, 1)
    canvas = canvas.box(2.0, 0.5, 3.7, 0.5, INK, corner=0.2)
    # The gauge turns red when it is nearly empty.
    colour = jnp.where(oxygen[:, None] < 0.25, RED[None], SKY[None])
    return canvas.box(0.25 + length / 2, 0.5, length, 0.3, colour, corner=jnp.minimum(length / 2, 0.12))
