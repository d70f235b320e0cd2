"""The elapsed time as the last number of an observation, for agents that first explore and later exploit."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def time_feature(time: jax.Array, t_max: Any, normalize: bool) -> jax.Array:
    """Returns the step count, or normalized time (-1 at the start, 1 at step ``t_max``), float32 ``[B]``."""
    steps = time.astype(jnp.float32)
    return 2 * steps / t_max - 1 if normalize else steps


def time_bounds(normalize: bool) -> tuple[float, float]:
    """Returns the bounds of the feature; no upper one, because only a time limit ends these episodes."""
    return (-1.0 if normalize else 0.0), np.inf
