"""Map the reward by any function."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax

from jaxenv import specs
from jaxenv._reward import check_reward_spec
from jaxenv.data.transformers.reward import RewardTransformer


@dataclasses.dataclass(frozen=True)
class RewardFunction(RewardTransformer):
    """Applies a function to the reward of every step, as ALF's ``FunctionalRewardTransformer`` does to every row.

    FIRST rows stay at 0, whatever the function makes of it. `jaxenv.wrappers.TransformReward` does the same to what is
    stored.

    Args:
        fn: a function of a batch of rewards, ``[B]`` or ``[B, R]``, lane by lane; the result, of one of these shapes,
            is cast to float32.
        spec: float32 spec of one lane's result, where bounds are known; they must hold 0, the reward of FIRST rows.

    Raises:
        ValueError: if the result does not lead with the lanes, or ``spec`` does not fit it.
    """

    fn: Callable[[jax.Array], Any]
    spec: specs.Array | None = None

    def check(self):
        if not callable(self.fn):
            raise ValueError(f"RewardFunction: fn must be a function of rewards, got {self.fn!r}")
        if self.spec is not None and not specs.is_spec(self.spec):
            raise ValueError(f"RewardFunction: spec must be None or a spec, got {self.spec!r}")

    def reward(self, reward):
        return self.fn(reward)

    def reward_spec(self, spec):
        found = super().reward_spec(spec)
        return found if self.spec is None else check_reward_spec("RewardFunction", self.spec, found)
