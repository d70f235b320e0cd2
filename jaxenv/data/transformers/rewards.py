"""Transforms rewards: clips, scales, shifts and normalises them, or applies a function."""

import abc
import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import specs, tree
from jaxenv._util.checks import check_bool
from jaxenv._util.numeric import clip
from jaxenv.core._checks.rows import bounded_reward, check_reward_spec, with_reward
from jaxenv.core.timestep import TimeStep
from jaxenv.data.transformers.normalizer import Normalizer
from jaxenv.data.transformers.transformer import RowTransformer
from jaxenv.specs._bounds import bounds, mapped_spec
from jaxenv.tree import Tree


class RewardTransformer(RowTransformer):
    """Maps the reward of every step. Subclasses implement ``reward``, and ``reward_spec`` for its bounds.

    The reward of FIRST rows, which are not steps, remains 0.
    """

    @abc.abstractmethod
    def reward(self, reward: jax.Array) -> Any:
        """Returns the new reward for a batch of rewards, ``[B]`` or ``[B, R]``; it is cast to float32."""

    def reward_spec(self, spec: specs.Array) -> specs.Array:
        """Returns the spec of one lane's new reward; by default the shape of ``reward``'s result, without bounds."""
        new_spec = mapped_spec(lambda x: jnp.asarray(self.reward(x), jnp.float32), spec, lanes=2)
        return new_spec.replace(name="reward")

    def transform_rows(self, timestep: TimeStep) -> TimeStep:
        owner = type(self).__name__
        return with_reward(owner, timestep, self.reward(reward_of(owner, timestep)))

    def transform_spec(self, spec: TimeStep) -> TimeStep:
        old: Any = spec.reward  # a spec in place of an array
        new: Any = self.reward_spec(old)
        return dataclasses.replace(spec, reward=new)


def reward_of(owner: str, timestep: TimeStep) -> jax.Array:
    """Returns the reward of rows; raises a ``ValueError`` if they hold none."""
    if isinstance(timestep.reward, tuple):
        raise ValueError(f"{owner}: the rows hold no reward, keep it in unroll(fields=...)")
    return timestep.reward


def check_components(owner: str, name: str, value: Any) -> None:
    """Raises a ``ValueError`` unless ``value`` is a finite number, or a sequence of them, one per reward component."""
    try:
        numbers = np.asarray(value, np.float32)
    except (TypeError, ValueError):
        numbers = np.array(np.nan)
    if isinstance(value, bool) or numbers.ndim > 1 or not np.all(np.isfinite(numbers)):
        raise ValueError(f"{owner}: {name} must be a finite number, or one per component of the reward, got {value!r}")


def components(owner: str, name: str, value: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Returns a number, or one per component of a reward of one lane's ``shape``, as float32."""
    numbers = np.asarray(value, np.float32)
    if numbers.shape not in ((), shape):
        raise ValueError(f"{owner}: {name} must be one number or have the shape {shape} of the reward, got {value!r}")
    return numbers


@dataclasses.dataclass(frozen=True)
class RewardClipping(RewardTransformer):
    """Clips the reward (``[B]`` or ``[B, R]``) to [low, high]; NaN stays NaN.

    The replay buffer and the metrics keep the raw reward. `jaxenv.wrappers.ClipReward` replaces it.

    Args:
        low: a finite number, or for a vector reward one per component.
        high: a finite number, or one per component; at least ``low``.

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


@dataclasses.dataclass(frozen=True)
class RewardScaling(RewardTransformer):
    """Multiplies the reward (``[B]`` or ``[B, R]``) by ``scale``.

    Args:
        scale: a finite number other than 0 in float32, or for a vector reward one per component.
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


@dataclasses.dataclass(frozen=True)
class RewardShifting(RewardTransformer):
    """Adds ``bias`` to the reward (``[B]`` or ``[B, R]``) of every step.

    The reward of FIRST rows, which are not steps, remains 0. If episodes differ in length, a shift changes the optimal
    policy.

    Args:
        bias: a finite number, or for a vector reward one per component.
    """

    bias: Any

    def check(self) -> None:
        check_components("RewardShifting", "bias", self.bias)

    def reward(self, reward: jax.Array) -> Any:
        return reward + specs.aligned(components("RewardShifting", "bias", self.bias, reward.shape[1:]), reward.ndim)

    def reward_spec(self, spec: specs.Array) -> specs.Array:
        bias = components("RewardShifting", "bias", self.bias, spec.shape)
        return bounded_reward(spec, *(bound + bias for bound in bounds(spec)))


@dataclasses.dataclass(frozen=True)
class RewardFunction(RewardTransformer):
    """Applies a function to the reward of every step.

    The reward of FIRST rows remains 0. `jaxenv.wrappers.TransformReward` changes the stored reward in the same way.

    Args:
        fn: a function of a batch of rewards, ``[B]`` or ``[B, R]``, that treats lanes independently. Its result, of
            one of these shapes, is cast to float32.
        spec: float32 spec of one lane's result, to declare bounds. They must include 0, the reward of FIRST rows.
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


@dataclasses.dataclass(frozen=True)
class RewardNormalizer(Normalizer):
    """Divides the reward (``[B]``, or ``[B, R]`` per component) by its standard deviation.

    The mean is not subtracted by default: this would add a constant to the reward of every step, which changes the
    optimal policy if episodes differ in length. The reward of FIRST rows, which are not steps, remains 0 and never
    enters the statistics; nor do rewards that are not finite or beyond 1e15. `jaxenv.wrappers.NormalizeReward` divides
    by the standard deviation of the discounted return instead, and changes the stored reward.

    Args:
        mode: ``"adaptive"``, ``"window"`` or ``"exponential"``: see `Normalizer`, also for the other options.
        update: ``"rollout"``, ``"replay"`` or ``"never"``.
        centre: whether to subtract the mean.
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
        reward: Any  # a spec in place of an array
        shape, bound = spec.reward.shape, self.clip
        if bound is None:
            reward = specs.Array(shape, np.float32, "reward")
        else:
            reward = specs.Bounded(shape, np.float32, -bound, bound, "reward")
        return dataclasses.replace(spec, reward=reward)
