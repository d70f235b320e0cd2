"""Learn within an episode which arm of a bandit pays most often.

Task: Wang et al. (2016), "Learning to reinforcement learn", arXiv:1611.05763, section 3.1; Duan et al. (2016), "RL2:
fast reinforcement learning via slow reinforcement learning", arXiv:1611.02779, section 3.1.
tests/envs/misc/test_bernoulli_bandit.py holds it to closed forms and, step by step, to gymnax.

Observation   float32[num_arms + 2]   last reward; last action one-hot; the time, see ``time_feature``
Action        int32                   the arm to pull
Reward        1 with the arm's probability, else 0
Starts        with new arms, see ``arms``
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

_DISTRIBUTIONS = ("two_point", "dependent", "independent")


@tree.struct
class Params:
    """Scalars, or ``[B]`` for one value per lane."""

    reward_prob: float = 0.1  # of one arm of two_point arms: 0.1, 0.25, 0.4 are easy, medium and hard
    t_max: float = 100.0  # the step at which normalized time is 1


class BernoulliBandit(Bandit):
    """Arms that pay 1 or nothing; see the module.

    Attributes:
        arms_from: how probabilities are drawn. ``"two_point"``: of two arms one pays with ``reward_prob``, the other
            with ``1 - reward_prob``, either way as likely. ``"dependent"``: that of the first is uniform in [0, 1),
            and the two add up to 1. ``"independent"``: all are uniform in [0, 1).
        num_arms: more than two for independent arms only.
    """

    params: Any = Params()
    arms_from: str = tree.static(default="two_point")
    num_arms: int = tree.static(default=2)

    def check(self):
        super().check()
        if self.arms_from not in _DISTRIBUTIONS:
            raise ValueError(f"{self}: arms_from must be one of {', '.join(_DISTRIBUTIONS)}, got {self.arms_from!r}")
        if self.num_arms < 2:
            raise ValueError(f"{self}: num_arms must be at least 2, got {self.num_arms}")
        if self.num_arms > 2 and self.arms_from != "independent":
            raise ValueError(f"{self}: num_arms must be 2 where arms_from={self.arms_from!r}, got {self.num_arms}")
        p = self.params.reward_prob
        if is_concrete(p) and np.any((np.asarray(p) < 0) | (np.asarray(p) > 1)):
            raise ValueError(f"{self}: reward_prob must lie in [0, 1], got {p}")

    @property
    def num_actions(self):
        return self.num_arms

    def arms(self, stream):
        if self.arms_from == "independent":
            return random.uniform(stream, (self.num_arms,))
        first = random.uniform(stream)
        if self.arms_from == "two_point":
            p = self.params.reward_prob
            first = jnp.where(first < 0.5, p, 1 - p)
        return jnp.stack([first, 1 - first], axis=-1)

    def noise(self, stream):
        return random.uniform(stream)

    def pay(self, mean, action, noise):
        return (noise < mean).astype(jnp.float32)

    def reward_bounds(self):
        return 0.0, 1.0
