"""What a picture shows: the pixels of a colour and where they are."""

import jax.numpy as jnp
import numpy as np

from jaxenv.canvas import Canvas


def picture(task, state, lanes, size=96):
    """The pictures of task states, uint8 ``[lanes, size, size, 3]``."""
    return np.asarray(task.draw(state, Canvas.blank(lanes, size)).image())


def shows(image, colour):
    """The pixels of a colour, bool."""
    return np.abs(image.astype(np.float32) - 255 * np.asarray(colour)).max(axis=-1) < 3


def centre(image, colour):
    """The mean position of the pixels of a colour in one picture: from the left and from the top, 0 to 1."""
    rows, columns = np.nonzero(shows(image, colour))
    return (columns.mean() + 0.5) / image.shape[1], (rows.mean() + 0.5) / image.shape[0]


def lanes(*columns):
    """Arrays float32 ``[B]``."""
    return tuple(jnp.asarray(column, jnp.float32) for column in columns)
