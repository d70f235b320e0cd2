"""Encodes a whole grid and the agent in it as an image, as MiniGrid's ``FullyObsWrapper`` does."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv.envs.grid._cell_set import CellSet
from jaxenv.envs.grid._view import Pose

_EMPTY, _WALL, _LAVA, _AGENT = (np.uint32(code) for code in (1, 2 | 5 << 8, 9, 10))  # in MiniGrid's encoding


def encode(
    floor: CellSet, lava: CellSet | None, things: Sequence[tuple[jax.Array, Any]], agent: Pose, extent: tuple[int, int]
) -> jax.Array:
    """Returns kind, colour and state of every cell, uint8 ``[B, columns, rows, 3]``.

    ``things`` are pairs of cells, int32 ``[B]``, and codes, uint32 ``[B]`` or one for all lanes; negative cells are not
    shown. The agent hides the object in its cell; its state is its direction.
    """
    columns, rows = (np.arange(n, dtype=np.int32) for n in extent)
    number = columns[None, :, None] + 32 * rows[None, None, :]
    image = jnp.where(_plane(floor, extent), _EMPTY, _WALL)
    if lava is not None:
        image = jnp.where(_plane(lava, extent), _LAVA, image)
    for cell, code in things:
        code = jnp.broadcast_to(code, cell.shape)
        image = jnp.where(number == cell[:, None, None], code[:, None, None], image)
    code = _AGENT | agent.direction.astype(jnp.uint32) << np.uint32(16)
    image = jnp.where(number == (agent.x + 32 * agent.y)[:, None, None], code[:, None, None], image)
    return (image[..., None] >> np.array([0, 8, 16], np.uint32)[None, None, None]).astype(jnp.uint8)


def _plane(cells: CellSet, extent: tuple[int, int]) -> jax.Array:
    bit = np.arange(extent[1], dtype=np.uint32)[None, None]
    return (cells.columns[:, : extent[0], None] >> bit) & np.uint32(1) != 0
