"""A toy environment that reports the actions it receives."""

import dataclasses

import jax.numpy as jnp
import numpy as np

from jaxenv import specs, tree
from jaxenv.testing import Counting

# Three lanes; the middle one ends after every two steps, the others continue.
LENGTHS = np.array([[9], [2], [9]])


class Echo(Counting):
    """Counts like `Counting`, accepts actions of any spec, and reports them in ``env_info["executed"]``."""

    accepts: tree.Static = tree.static(kw_only=True)

    def transition(self, state, action, stream):
        out = super().transition(state, jnp.zeros_like(state.step), stream)
        return dataclasses.replace(out, env_info={"executed": action})

    def action_spec(self):
        return self.accepts.value


def echo(spec, lengths=LENGTHS, num_envs=3):
    return Echo(lengths, 10, num_envs=num_envs, accepts=tree.Static(spec))


def box(low, high, shape=()):
    return specs.Bounded(shape, np.float32, low, high)
