"""Clip the reward."""

import dataclasses
from typing import Any

import jax
import numpy as np

from jaxenv import specs
from jaxenv._bounds import bounds
from jaxenv._numeric import clip
from jaxenv._reward import bounded_reward
from jaxenv.data.transformers.reward_transformer import RewardTransformer, check_components, components


@dataclasses.dataclass(frozen=True)
class RewardClipping(RewardTransformer):
    """Clips the reward (``[B]`` or ``[B, R]``) to [low, high]; NaN stays NaN.

    The replay buffer and the metrics keep the raw reward. `jaxenv.wrappers.ClipReward` replaces it.

    Args:
        low: a finite number, or for a vector reward one per component.
        high: a finite number, or one per component; at least ``low``.

    Raises:
        ValueError: for limits that are not finite, out of order, or of another shape than the reward.

    >>> import numpy as np
    >>> RewardClipping(-1, 1).reward(np.array([-3, 0.5, 5], np.float32)).tolist()
    [-1.0, 0.5, 1.0]
    """

    low: Any = -1.0
    high: Any = 1.0

    def check(self) -> None:
        check_components("RewardClipping", "low", self.low)
        check_components("RewardClipping", "high", self.high)
        if np.any(np.asarray(self.low) > np.asarray(self.high)):
            raise ValueError(f"RewardClipping: low must not exceed high, got {self.low!r} and {self.high!r}")

    def _limits(self, shape: Any) -> Any:
        return (components("RewardClipping", name, getattr(self, name), shape) for name in ("low", "high"))

    def reward(self, reward: jax.Array) -> Any:
        return clip(reward, *(specs.aligned(limit, reward.ndim) for limit in self._limits(reward.shape[1:])))

    def reward_spec(self, spec: specs.Array) -> specs.Array:
        low, high = self._limits(spec.shape)
        return bounded_reward(spec, *(np.clip(bound, low, high) for bound in bounds(spec)))
