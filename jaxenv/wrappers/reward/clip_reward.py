"""Clip the reward."""

from typing import Any, ClassVar

import jax
import numpy as np

from jaxenv import specs, tree
from jaxenv.core import RewardWrapper, bounded_reward, check_numbers, clip


class ClipReward(RewardWrapper):
    """Clips the reward (``[B]`` or ``[B, R]``) to [minimum, maximum]. NaN passes through.

    The bounds of the spec are clipped too and always include 0, the reward at FIRST. Owns ``reward``.

    Args:
        minimum: lower limit, ``None`` for none: a number, or for a vector reward one per component.
        maximum: upper limit, ``None`` for none, at least ``minimum``.

    >>> import jaxenv
    >>> env = jaxenv.wrappers.ClipReward(jaxenv.spec("Pendulum-v1").make(), -1, 0)
    >>> env.reward_spec()
    Bounded((), float32, -1.0, 0.0, name='reward')
    >>> env.reward(np.array([-16.2, -0.5], np.float32)).tolist()
    [-1.0, -0.5]
    """

    minimum: Any = tree.static(default=None)
    maximum: Any = tree.static(default=None)

    in_evaluation = "left_out"
    noop_kwargs: ClassVar = {"minimum": -np.inf, "maximum": np.inf}

    def check(self) -> None:
        if self.minimum is None and self.maximum is None:
            raise ValueError("ClipReward: minimum, maximum or both must be given, got None and None")
        for name in ("minimum", "maximum"):
            if getattr(self, name) is not None:
                check_numbers("ClipReward", name, getattr(self, name))
        spec, given = self.env.reward_spec(), f"got {self.minimum} and {self.maximum}"
        try:
            low, high = (np.broadcast_to(limit, spec.shape) for limit in self._limits())
        except (TypeError, ValueError):
            raise ValueError(f"ClipReward: minimum and maximum must be numbers that fit {spec}, {given}") from None
        if not np.all(low <= high):
            raise ValueError(f"ClipReward: minimum must not exceed maximum, {given}")

    def _limits(self) -> tuple[np.ndarray, np.ndarray]:
        low = np.asarray(-np.inf if self.minimum is None else self.minimum, np.float32)
        return low, np.asarray(np.inf if self.maximum is None else self.maximum, np.float32)

    def reward_spec(self) -> specs.Bounded:
        spec = self.env.reward_spec()
        return bounded_reward(spec, *(np.clip(bound, *self._limits()) for bound in specs.bounds(spec)))

    def reward(self, reward: jax.Array) -> jax.Array:
        low, high = (specs.aligned(limit, reward.ndim) for limit in self._limits())
        return clip(reward, low, high)
