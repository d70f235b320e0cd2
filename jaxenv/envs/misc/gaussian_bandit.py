"""Learn within an episode whether a risky arm pays more than a safe arm that pays nothing.

Task: Lange and Sprekeler (2020), "Learning not to learn: nature versus nurture in silico", arXiv:2010.04466.
tests/envs/misc/test_gaussian_bandit.py compares it with closed forms and, step by step, with gymnax.

Observation   float32[4]   last reward; last action one-hot; time
Action        int32        0 pulls the safe arm, 1 the risky one
Reward        0 for the safe arm; normal with the risky arm's mean and standard deviation sigma_l for the risky one
Starts        with a new risky arm, whose mean is normal with mean mean_mu and standard deviation sigma_p
Terminates    never
Time limit    100 (registry), a termination: the horizon is part of the task
env_info      regret: float32, how much more the best arm pays on average than the pulled one

The time in the observation counts steps, or with normalize_time ranges from -1 at the start to 1 at step t_max.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, tree
from jaxenv.envs.misc.bandit import Bandit


@tree.struct
class Params:
    """Scalars, or ``[B]`` for one value per lane."""

    mean_mu: float = tree.leaf(default=-1.0, doc="mean of the risky arm's mean")
    sigma_p: float = tree.leaf(default=1.0, low=0, doc="standard deviation of the risky arm's mean")
    sigma_l: float = tree.leaf(default=0.1, low=0, doc="standard deviation of a reward")
    t_max: float = tree.leaf(default=100.0, unit="steps", above=0, doc="the step at which the normalized time is 1")


class GaussianBandit(Bandit):
    """A safe and a risky arm; the module docstring is the specification."""

    params: Any = Params()
    num_actions = 2
    action_names = ("safe arm", "risky arm")

    def arms(self, stream: random.Stream) -> jax.Array:
        risky = self.params.mean_mu + self.params.sigma_p * random.normal(stream)
        return jnp.stack([jnp.zeros_like(risky), risky], axis=-1)

    def noise(self, stream: random.Stream) -> jax.Array:
        return random.normal(stream)

    def pay(self, mean: jax.Array, action: jax.Array, noise: jax.Array) -> jax.Array:
        return jnp.where(action == 1, mean + self.params.sigma_l * noise, 0.0)

    def reward_bounds(self) -> tuple[float, float]:
        return -np.inf, np.inf

    # --- the picture -------------------------------------------------------------------------------------------------

    def picture_bounds(self) -> tuple[Any, Any]:
        # Zero and three standard deviations around the mean of the risky arm.
        p = self.params
        return jnp.minimum(p.mean_mu - 3 * p.sigma_p, -0.1), jnp.maximum(p.mean_mu + 3 * p.sigma_p, 0.1)
