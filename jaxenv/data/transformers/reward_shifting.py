"""Add a number to the reward."""

import dataclasses
from typing import Any

import jax

from jaxenv import specs
from jaxenv._bounds import bounds
from jaxenv._reward import bounded_reward
from jaxenv.data.transformers.reward_transformer import RewardTransformer, check_components, components


@dataclasses.dataclass(frozen=True)
class RewardShifting(RewardTransformer):
    """Adds ``bias`` to the reward (``[B]`` or ``[B, R]``) of every step.

    The reward of FIRST rows, which are not steps, remains 0. If episodes differ in length, a shift changes the optimal
    policy.

    Args:
        bias: a finite number, or for a vector reward one per component.

    Raises:
        ValueError: for a ``bias`` that is not finite, or of another shape than the reward.
    """

    bias: Any

    def check(self) -> None:
        check_components("RewardShifting", "bias", self.bias)

    def reward(self, reward: jax.Array) -> Any:
        return reward + specs.aligned(components("RewardShifting", "bias", self.bias, reward.shape[1:]), reward.ndim)

    def reward_spec(self, spec: specs.Array) -> specs.Array:
        bias = components("RewardShifting", "bias", self.bias, spec.shape)
        return bounded_reward(spec, *(bound + bias for bound in bounds(spec)))
