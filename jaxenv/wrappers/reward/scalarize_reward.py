"""Reduce a vector reward to a scalar."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import specs, tree
from jaxenv.core import RewardWrapper, is_concrete


class ScalarizeReward(RewardWrapper):
    """Returns the weighted sum of the components of a vector reward. Owns ``reward``.

    Args:
        env: an environment with a vector reward float32 ``[B, R]``.
        weights: float32 ``[R]``, or ``[B, R]`` for weights per lane; by default only the first component counts.

    >>> import jax.numpy as jnp, jaxenv
    >>> from jaxenv import specs, testing
    >>> pair = specs.Array((2,), np.float32)
    >>> env = testing.random_environment(specs.discrete(3), specs.discrete(2), pair)
    >>> jaxenv.wrappers.ScalarizeReward(env, [1, -2]).reward(jnp.array([[5.0, 1.0]])).tolist()
    [3.0]
    """

    weights: Any = tree.leaf(rank=1, default=None)

    in_evaluation = "kept"

    def convert(self) -> dict[str, Any]:
        spec = self.env.reward_spec()
        if spec.ndim != 1:
            raise ValueError(f"ScalarizeReward: the reward must be a vector, got {spec}")
        return {"weights": np.eye(1, spec.shape[0], dtype=np.float32)[0]} if self.weights is None else {}

    def check(self) -> None:
        spec = self.env.reward_spec()
        if np.shape(self.weights)[-1] != spec.shape[0]:
            shown = np.asarray(self.weights).tolist() if is_concrete(self.weights) else np.shape(self.weights)
            raise ValueError(f"ScalarizeReward: weights must be {spec.shape[0]}, one per component, got {shown}")

    def reward_spec(self) -> specs.Array:
        return specs.Array((), np.float32, "reward")

    def reward(self, reward: jax.Array) -> jax.Array:
        return jnp.sum(reward * specs.aligned(self.weights, reward.ndim), axis=-1)
