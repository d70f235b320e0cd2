"""Multiply the reward."""

import dataclasses
from typing import Any

import jax
import numpy as np

from jaxenv import specs
from jaxenv._bounds import bounds
from jaxenv._reward import bounded_reward
from jaxenv.data.transformers.reward_transformer import RewardTransformer, check_components, components


@dataclasses.dataclass(frozen=True)
class RewardScaling(RewardTransformer):
    """Multiplies the reward (``[B]`` or ``[B, R]``) by ``scale``.

    Args:
        scale: a finite number other than 0 in float32, or for a vector reward one per component.

    Raises:
        ValueError: for a ``scale`` that is 0, not finite, or of another shape than the reward.
    """

    scale: Any

    def check(self) -> None:
        check_components("RewardScaling", "scale", self.scale)
        if np.any(np.asarray(self.scale, np.float32) == 0):
            raise ValueError(f"RewardScaling: scale must not be 0 in float32, got {self.scale!r}")

    def reward(self, reward: jax.Array) -> Any:
        return reward * specs.aligned(components("RewardScaling", "scale", self.scale, reward.shape[1:]), reward.ndim)

    def reward_spec(self, spec: specs.Array) -> specs.Array:
        ends = [bound * components("RewardScaling", "scale", self.scale, spec.shape) for bound in bounds(spec)]
        return bounded_reward(spec, np.minimum(*ends), np.maximum(*ends))
