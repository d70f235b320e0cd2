"""Find out within an episode whether a risky arm is worth more than nothing.

Task: Lange and Sprekeler (2020), "Learning not to learn: nature versus nurture in silico", arXiv:2010.04466.
tests/envs/misc/test_gaussian_bandit.py holds it to closed forms and, step by step, to gymnax.

Observation   float32[4]   last reward; last action one-hot; the time, see ``time_feature``
Action        int32        0 pulls the arm that pays nothing, 1 the risky one
Reward        0, or normal around the risky arm's mean with standard deviation sigma_l
Starts        with a new risky arm: its mean is normal around mean_mu with standard deviation sigma_p
Terminates    never
Time limit    100 (registry), a termination: the task ends with its horizon
env_info      regret: float32, how much more the best arm pays on average than the one pulled
"""

from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxenv import random, tree
from jaxenv._checks import is_concrete
from jaxenv.envs.misc.bandit import Bandit


@tree.struct
class Params:
    """Scalars, or ``[B]`` for one value per lane."""

    mean_mu: float = -1.0
    sigma_p: float = 1.0  # between episodes
    sigma_l: float = 0.1  # between pulls
    t_max: float = 100.0  # the step at which normalized time is 1


class GaussianBandit(Bandit):
    """One arm that pays nothing and one that may pay or cost; see the module."""

    params: Any = Params()

    def check(self):
        super().check()
        for name in ("sigma_p", "sigma_l"):
            value = getattr(self.params, name)
            if is_concrete(value) and np.any(np.asarray(value) < 0):
                raise ValueError(f"{self}: {name} must not be negative, got {value}")

    @property
    def num_actions(self):
        return 2

    def arms(self, stream):
        risky = self.params.mean_mu + self.params.sigma_p * random.normal(stream)
        return jnp.stack([jnp.zeros_like(risky), risky], axis=-1)

    def noise(self, stream):
        return random.normal(stream)

    def pay(self, mean, action, noise):
        return jnp.where(action == 1, mean + self.params.sigma_l * noise, 0.0)

    def reward_bounds(self):
        return -np.inf, np.inf
