"""Give rewards variance 1, as far as has been seen."""

import dataclasses

import numpy as np

from jaxenv import specs, tree
from jaxenv._reward import with_reward
from jaxenv.data.transformers.normalizer import Normalizer
from jaxenv.data.transformers.reward import present


@dataclasses.dataclass(frozen=True)
class RewardNormalizer(Normalizer):
    """Divides the reward (``[B]``, or ``[B, R]`` component by component) by its standard deviation.

    As ALF's ``RewardNormalizer``, which subtracts the mean as well: that pays for, or punishes, every step of an
    episode alike, and so changes what is best to do wherever episodes differ in length (``centre=True`` does it).
    FIRST rows, which are no step, stay at 0 and never enter the statistics; nor do rewards that are not finite or
    beyond 1e15. `jaxenv.wrappers.NormalizeReward` divides by the deviation of the discounted return instead, and
    changes what is stored.

    Args:
        mode: ``"adaptive"``, ``"window"`` or ``"exponential"``: see `Normalizer`, also for the options not told here.
        update: ``"rollout"``, ``"replay"`` or ``"never"``. ALF's ``update_max_calls`` is a change to ``frozen()``.
        centre: whether to subtract the mean.

    Raises:
        ValueError: for an option out of range, or rows without reward.
    """

    centre: bool = False

    def check(self):
        super().check()
        if not isinstance(self.centre, bool):
            raise ValueError(f"RewardNormalizer: centre must be True or False, got {self.centre!r}")

    def init(self, timestep, stream=None):
        return tree.Shared(self._empty(timestep, present("RewardNormalizer", timestep).shape[1:]))

    def learned(self, estimates, timestep):
        return self._update(estimates, present("RewardNormalizer", timestep), ~timestep.is_first())

    def shown(self, estimates, timestep):
        reward = present("RewardNormalizer", timestep)
        return with_reward("RewardNormalizer", timestep, self._shown(estimates, reward, self.centre))

    def transform_spec(self, spec):
        shape, most = spec.reward.shape, self.clip
        plain = specs.Array(shape, np.float32, "reward")
        shown = plain if most is None else specs.Bounded(shape, np.float32, -most, most, "reward")
        return dataclasses.replace(spec, reward=shown)
