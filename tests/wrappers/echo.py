"""A toy that reports the actions which reach it."""

import dataclasses

import jax.numpy as jnp
import numpy as np

from jaxenv import specs, tree
from jaxenv.testing import Counting

# Lanes of which the middle one ends after two steps, again and again, while the others go on.
LENGTHS = np.array([[9], [2], [9]])


class Echo(Counting):
    """Counts as `Counting` does and puts the action that it takes, one of any spec, into ``env_info["executed"]``."""

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
