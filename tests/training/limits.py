"""A task whose value with a time limit is known, right and wrong, for each learner."""

import jax
import jax.numpy as jnp
import numpy as np

import jaxenv
from jaxenv import specs
from jaxenv.training import dqn, ppo, sac
from jaxenv.wrappers import AutoReset, TimeLimit


class Income(jaxenv.Task):
    """Pays 1 at every step, whatever the action, and never ends. The observation is constant."""

    def __init__(self, num_envs, continuous=False):
        super().__init__(num_envs)
        self.continuous = continuous
