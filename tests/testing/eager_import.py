"""A module that computes something while it is imported, which starts a backend before anybody can configure it."""

import jax.numpy as jnp

from jaxenv.testing import Chain

TABLE = jnp.arange(3)


class Eager(Chain):
    """Otherwise sound."""
