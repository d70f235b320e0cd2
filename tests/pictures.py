"""Pictures of given task states, and where they show a colour."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv.canvas import Canvas

SIZE = 60  # divides into 3, 5, 10 or 12 cells
_LANES = 10  # of every drawing of `pictures`
# A drawing runs once, so optimising it would take most of the time.
_QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}


def pictures(env, state):
    """The pictures of task states with leaves ``[B, ...]``, B at most 10: uint8 ``[B, 60, 60, 3]``."""
    count = len(jax.tree.leaves(state)[0])
    rows = np.minimum(np.arange(_LANES), count - 1)
    state = jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf)[rows]), state)
    return picture(env, state, _LANES, SIZE)[:count]


def picture(task, state, lanes, size=96):
    """The pictures of task states, uint8 ``[lanes, size, size, 3]``."""
    draw = jax.jit(lambda state: task.draw(state, Canvas.blank(lanes, size)).image(), compiler_options=_QUICK)
    return np.asarray(draw(state))


def pixels(canvas):
    """Red, green and blue from 0 to 1: float32 ``[B, H, W, 3]``."""
    return np.broadcast_to(np.stack(canvas.planes, axis=-1), (canvas.lanes, *canvas.size, 3))


def shows(image, colour):
    """Whether pixels have a colour, bool ``[..., H, W]``."""
    return np.abs(image.astype(np.float32) - 255 * np.asarray(colour)).max(axis=-1) < 3


def centre(image, colour):
    """The mean position of the pixels of a colour in one picture: from the left and from the top, 0 to 1."""
    rows, columns = np.nonzero(shows(image, colour))
    return (columns.mean() + 0.5) / image.shape[1], (rows.mean() + 0.5) / image.shape[0]


def cells(pixels, rows, columns):
    """Whether any pixel of each cell is set, bool ``[B, rows, columns]``, for bool ``[B, H, W]``."""
    lanes, height, width = pixels.shape
    return pixels.reshape(lanes, rows, height // rows, columns, width // columns).any(axis=(2, 4))


def lanes(*columns):
    """Arrays float32 ``[B]``."""
    return tuple(jnp.asarray(column, jnp.float32) for column in columns)


def rendered(env, state, size):
    """The pictures of states of a stack, uint8 ``[B, size, size, 3]``."""
    return np.asarray(jax.jit(lambda state: env.render(state, size), compiler_options=_QUICK)(state))
