"""How far an episode has come, as the last number of an observation.

An agent that has to explore first and to use what it found later needs to know how much time is left.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv._checks import is_concrete


def time_feature(time: jax.Array, t_max: Any, normalize: bool) -> jax.Array:
    """Float32 ``[B]``: the step number itself, or normalized: -1 at the start, 1 at step ``t_max``, and on beyond."""
    steps = time.astype(jnp.float32)
    return 2 * steps / t_max - 1 if normalize else steps


def time_bounds(normalize: bool) -> tuple[float, float]:
    """What the feature lies between: it has no upper end, since nothing but a time limit ends these episodes."""
    return (-1.0 if normalize else 0.0), np.inf


def check_t_max(owner: str, t_max: Any) -> None:
    """Raises a ``ValueError`` unless the number of steps to normalize by is positive."""
    if is_concrete(t_max) and np.any(np.asarray(t_max) <= 0):
        raise ValueError(f"{owner}: t_max must be positive, got {t_max}")
