"""Scale rewards to variance 1."""

import dataclasses
from typing import Any

import jax
import numpy as np

from jaxenv import specs, tree
from jaxenv._checks import check_bool
from jaxenv._reward import with_reward
from jaxenv.data.transformers.normalizer import Normalizer
from jaxenv.data.transformers.reward_transformer import reward_of
from jaxenv.timestep import TimeStep
from jaxenv.tree import Tree


@dataclasses.dataclass(frozen=True)
class RewardNormalizer(Normalizer):
    """Divides the reward (``[B]``, or ``[B, R]`` per component) by its standard deviation.

    The mean is not subtracted by default: that would add a constant to the reward of every step, which changes the
    optimal policy if episodes differ in length. The reward of FIRST rows, which are not steps, remains 0 and never
    enters the statistics; nor do rewards that are not finite or beyond 1e15. `jaxenv.wrappers.NormalizeReward` divides
    by the standard deviation of the discounted return instead, and changes the stored reward.

    Args:
        mode: ``"adaptive"``, ``"window"`` or ``"exponential"``: see `Normalizer`, also for the other options.
        update: ``"rollout"``, ``"replay"`` or ``"never"``.
        centre: whether to subtract the mean.

    Raises:
        ValueError: for an option out of range, or rows without reward.
    """

    centre: bool = False

    def check(self) -> None:
        super().check()
        check_bool("RewardNormalizer", "centre", self.centre)

    def init(self, timestep: TimeStep, key: jax.Array | None = None) -> Tree:
        return tree.Shared(self.init_estimate(timestep, reward_of("RewardNormalizer", timestep).shape[1:]))

    def update_estimates(self, estimates: Any, timestep: TimeStep) -> Any:
        return self.update_estimate(estimates, reward_of("RewardNormalizer", timestep), ~timestep.is_first())

    def normalize(self, estimates: Any, timestep: TimeStep) -> TimeStep:
        reward = self.normalize_array(estimates, reward_of("RewardNormalizer", timestep), self.centre)
        return with_reward("RewardNormalizer", timestep, reward)

    def transform_spec(self, spec: TimeStep) -> TimeStep:
        shape, bound = spec.reward.shape, self.clip
        reward: Any  # a spec in place of an array
        if bound is None:
            reward = specs.Array(shape, np.float32, "reward")
        else:
            reward = specs.Bounded(shape, np.float32, -bound, bound, "reward")
        return dataclasses.replace(spec, reward=reward)
