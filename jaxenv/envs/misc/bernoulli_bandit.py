"""Learn within an episode which arm of a bandit pays most often.

Task: Wang et al. (2016), "Learning to reinforcement learn", arXiv:1611.05763, section 3.1; Duan et al. (2016), "RL2:
fast reinforcement learning via slow reinforcement learning", arXiv:1611.02779, section 3.1.
tests/envs/misc/test_bernoulli_bandit.py compares it with closed forms and, step by step, with gymnax.

Observation   float32[num_arms + 2]   last reward; last action one-hot; time
Action        int32                   the arm to pull
Reward        1 with the arm's probability, else 0
Starts        with new arms, drawn as arms_from specifies
Terminates    never
Time limit    100 (registry), a termination: the horizon is part of the task
env_info      regret: float32, the best arm's probability minus the pulled arm's

The time in the observation counts steps, or with normalize_time ranges from -1 at the start to 1 at step t_max.
"""

from typing import Any

import jax
import jax.numpy as jnp

from jaxenv import random, tree
from jaxenv.core import check_choice
from jaxenv.envs.misc.bandit import Bandit


@tree.struct
class Params:
    """Scalars, or ``[B]`` for one value per lane."""

    reward_prob: float = tree.leaf(
        default=0.1, low=0, high=1, doc="of one of the two_point arms; 0.1, 0.25 and 0.4 are easy, medium and hard"
    )
    t_max: float = tree.leaf(default=100.0, unit="steps", above=0, doc="the step at which the normalized time is 1")


class BernoulliBandit(Bandit):
    """A bandit whose arms pay 1 or 0; the module docstring is the specification."""

    params: Any = Params()
    arms_from: str = tree.static(
        default="two_point",
        doc='the distribution of the arms\' probabilities. ``"two_point"``: one of two arms, drawn at random, '
        'has ``reward_prob``, the other ``1 - reward_prob``. ``"dependent"``: the first is uniform in '
        '[0, 1), and both sum to 1. ``"independent"``: all are uniform in [0, 1).',
    )
    num_arms: int = tree.static(default=2, low=2, doc="number of arms, 2 unless the arms are independent")

    def check(self) -> None:
        check_choice(f"{self}", "arms_from", self.arms_from, ("two_point", "dependent", "independent"))
        if self.num_arms > 2 and self.arms_from != "independent":
            raise ValueError(f"{self}: num_arms must be 2 with arms_from={self.arms_from!r}, got {self.num_arms}")

    @property
    def num_actions(self) -> int:
        return self.num_arms

    def arms(self, stream: random.Stream) -> jax.Array:
        if self.arms_from == "independent":
            return random.uniform(stream, (self.num_arms,))
        first = random.uniform(stream)
        if self.arms_from == "two_point":
            p = self.params.reward_prob
            first = jnp.where(first < 0.5, p, 1 - p)
        return jnp.stack([first, 1 - first], axis=-1)

    def noise(self, stream: random.Stream) -> jax.Array:
        return random.uniform(stream)

    def pay(self, mean: jax.Array, action: jax.Array, noise: jax.Array) -> jax.Array:
        return (noise < mean).astype(jnp.float32)

    def reward_bounds(self) -> tuple[float, float]:
        return 0.0, 1.0
