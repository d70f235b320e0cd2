"""A module that creates an array on import, and thereby starts a backend before it can be configured."""

import jax.numpy as jnp

from jaxenv.testing import Chain

TABLE = jnp.arange(3)


class Eager(Chain):
    """An otherwise sound environment."""
