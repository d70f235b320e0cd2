"""Transforms rewards: clips, scales, shifts and normalises them, or applies a function."""

import abc
import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import specs, tree
from jaxenv._util.checks import check_bool, check_callable
from jaxenv._util.numeric import clip
from jaxenv.core._checks.rows import bounded_reward, check_reward_spec, with_reward
from jaxenv.core.timestep import TimeStep
from jaxenv.data.transformers.normalizer import Normalizer
from jaxenv.data.transformers.transformer import RowTransformer
from jaxenv.tree import Tree
from jaxenv.wrappers.observation.values import normalized_spec


class RewardTransformer(RowTransformer):
    """Maps the reward of every step. Subclasses implement ``reward``, and ``reward_spec`` for its bounds.

    The reward of FIRST rows, which are not steps, remains 0.
    """

    @abc.abstractmethod
    def reward(self, reward: jax.Array) -> Any:
        """Returns the new reward for a batch of rewards, ``[B]`` or ``[B, R]``; it is cast to float32."""

    def reward_spec(self, spec: specs.Array) -> specs.Array:
        """Returns the spec of one lane's new reward; by default the shape of ``reward``'s result, without bounds."""
        new_spec = specs.mapped_spec(lambda x: jnp.asarray(self.reward(x), jnp.float32), spec, lanes=2)
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


@dataclasses.dataclass(frozen=True)
class _Elementwise(RewardTransformer):
    """Maps each component of the reward by a monotonic function of it and of the fields.

    A field is a finite number, or a sequence of them, one per component. Subclasses implement ``apply``.
    """

    @abc.abstractmethod
    def apply(self, reward: Any, *numbers: np.ndarray) -> Any:
        """Maps rewards ``[B]`` or ``[B, R]``, or a bound, given the fields as float32 that broadcast to them."""

    def check(self) -> None:
        for name, value in vars(self).items():
            try:
                numbers = np.asarray(value, np.float32)
            except (TypeError, ValueError):
                numbers = np.array(np.nan)
            if isinstance(value, bool) or numbers.ndim > 1 or not np.all(np.isfinite(numbers)):
                rule = "must be a finite number, or one per component of the reward"
                raise ValueError(f"{type(self).__name__}: {name} {rule}, got {value!r}")

    def reward(self, reward: jax.Array) -> Any:
        return self.apply(reward, *(specs.aligned(x, reward.ndim) for x in self._numbers(reward.shape[1:])))

    def reward_spec(self, spec: specs.Array) -> specs.Array:
        ends = [self.apply(bound, *self._numbers(spec.shape)) for bound in specs.bounds(spec)]
        return bounded_reward(spec, np.minimum(*ends), np.maximum(*ends))

    def _numbers(self, shape: tuple[int, ...]) -> list[np.ndarray]:
        """Returns the fields as float32, for a reward of one lane's ``shape``."""
        for name, value in vars(self).items():
            if np.shape(value) not in ((), shape):
                rule = f"must be one number or have the shape {shape} of the reward"
                raise ValueError(f"{type(self).__name__}: {name} {rule}, got {value!r}")
        return [np.asarray(value, np.float32) for value in vars(self).values()]


@dataclasses.dataclass(frozen=True)
class RewardClipping(_Elementwise):
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
        super().check()
        if np.any(np.asarray(self.low) > np.asarray(self.high)):
            raise ValueError(f"RewardClipping: low must not exceed high, got {self.low!r} and {self.high!r}")

    def apply(self, reward: Any, *numbers: np.ndarray) -> Any:
        return np.clip(reward, *numbers) if isinstance(reward, np.ndarray) else clip(reward, *numbers)


@dataclasses.dataclass(frozen=True)
class RewardScaling(_Elementwise):
    """Multiplies the reward (``[B]`` or ``[B, R]``) by ``scale``.

    Args:
        scale: a finite number other than 0 in float32, or for a vector reward one per component.
    """

    scale: Any

    def check(self) -> None:
        super().check()
        if np.any(np.asarray(self.scale, np.float32) == 0):
            raise ValueError(f"RewardScaling: scale must not be 0 in float32, got {self.scale!r}")

    def apply(self, reward: Any, *numbers: np.ndarray) -> Any:
        return reward * numbers[0]


@dataclasses.dataclass(frozen=True)
class RewardShifting(_Elementwise):
    """Adds ``bias`` to the reward (``[B]`` or ``[B, R]``) of every step.

    The reward of FIRST rows, which are not steps, remains 0. If episodes differ in length, a shift changes the optimal
    policy.

    Args:
        bias: a finite number, or for a vector reward one per component.
    """

    bias: Any

    def apply(self, reward: Any, *numbers: np.ndarray) -> Any:
        return reward + numbers[0]


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
        check_callable("RewardFunction", "fn", self.fn, "rewards")
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
        reward: Any = normalized_spec(specs.Array(spec.reward.shape, np.float32, "reward"), self.clip)
        return dataclasses.replace(spec, reward=reward)
