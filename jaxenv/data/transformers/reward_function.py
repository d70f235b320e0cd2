"""Map the reward by a function."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax

from jaxenv import specs
from jaxenv._reward import check_reward_spec
from jaxenv.data.transformers.reward_transformer import RewardTransformer


@dataclasses.dataclass(frozen=True)
class RewardFunction(RewardTransformer):
    """Applies a function to the reward of every step.

    The reward of FIRST rows remains 0. `jaxenv.wrappers.TransformReward` changes the stored reward in the same way.

    Args:
        fn: a function of a batch of rewards, ``[B]`` or ``[B, R]``, that treats lanes independently. Its result, of
            one of these shapes, is cast to float32.
        spec: float32 spec of one lane's result, to declare bounds. They must include 0, the reward of FIRST rows.

    Raises:
        ValueError: if the result does not lead with the lanes, or ``spec`` does not fit it.
    """

    fn: Callable[[jax.Array], Any]
    spec: specs.Array | None = None

    def check(self) -> None:
        if not callable(self.fn):
            raise ValueError(f"RewardFunction: fn must be a function of rewards, got {self.fn!r}")
        if self.spec is not None and not specs.is_spec(self.spec):
            raise ValueError(f"RewardFunction: spec must be None or a spec, got {self.spec!r}")

    def reward(self, reward: jax.Array) -> Any:
        return self.fn(reward)

    def reward_spec(self, spec: specs.Array) -> specs.Array:
        inferred = super().reward_spec(spec)
        return inferred if self.spec is None else check_reward_spec("RewardFunction", self.spec, inferred)
