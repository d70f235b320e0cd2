"""Pictures of given states."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv.canvas import Canvas

SIZE = 60  # divides into 3, 5, 10 or 12 cells
_LANES = 10  # of every drawing, so that all tests share the compiled operations


def pictures(env, state):
    """The pictures of task states with leaves ``[B, ...]``, B at most 10: uint8 ``[B, 60, 60, 3]``."""
    lanes = len(jax.tree.leaves(state)[0])
    rows = np.minimum(np.arange(_LANES), lanes - 1)
    state = jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf)[rows]), state)
    return np.asarray(env.draw(state, Canvas.blank(_LANES, SIZE)).image())[:lanes]


def shows(picture, colour):
    """Whether pixels have just this colour, bool ``[..., H, W]``."""
    return (np.abs(picture - np.round(255 * colour)) <= 1).all(axis=-1)


def cells(pixels, rows, columns):
    """Whether any pixel of each cell is set, bool ``[B, rows, columns]``, for bool ``[B, H, W]``."""
    lanes, height, width = pixels.shape
    return pixels.reshape(lanes, rows, height // rows, columns, width // columns).any(axis=(2, 4))
