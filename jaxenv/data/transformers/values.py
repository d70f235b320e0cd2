"""Maps single values of a row: scales images, and clips, scales or shifts rewards, or applies a function to them."""

import abc
import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import specs
from jaxenv._util.checks import check_callable, check_real
from jaxenv._util.numeric import clip
from jaxenv.core._checks.rows import bounded_reward, check_reward_spec, map_observation, with_reward
from jaxenv.core.timestep import TimeStep
from jaxenv.data.transformers.transformer import RowTransformer
from jaxenv.specs import field_paths, map_marked, select
from jaxenv.tree import Tree
from jaxenv.wrappers.image.pixels import scaled, scaled_spec


@dataclasses.dataclass(frozen=True)
class ImageScale(RowTransformer):
    """Maps the uint8 parts of the observation affinely from 0 .. 255 to float32 ``low`` .. ``high``.

    ``env_info["final_observation"]`` is mapped in the same way. The buffer stores the bytes, a quarter of the floats
    that `jaxenv.wrappers.ScaleImage` stores. ``fields`` are dotted paths of the parts to map; ``None`` for every uint8
    array.
    """

    low: float = -1.0
    high: float = 1.0
    fields: str | tuple[str, ...] | None = None

    def check(self) -> None:
        for name in ("low", "high"):
            check_real("ImageScale", name, getattr(self, name), -np.inf)
        if not self.low < self.high:
            raise ValueError(f"ImageScale: low must be below high, got {self.low!r} and {self.high!r}")
        field_paths("ImageScale", self.fields)

    def transform_rows(self, timestep: TimeStep) -> TimeStep:
        return self._map(lambda x: scaled(x, specs.Array(x.shape[1:], x.dtype), self.low, self.high), timestep)

    def transform_spec(self, spec: TimeStep) -> TimeStep:
        return self._map(lambda s: scaled_spec(s, self.low, self.high), spec)

    def _map(self, fn: Callable[[Any], Any], timestep: TimeStep) -> TimeStep:
        def mapped(observation: Tree) -> Any:
            marks = select("ImageScale", observation, self.fields, "a uint8 array", lambda x: x.dtype == np.uint8)
            return map_marked(marks, fn, observation)

        return map_observation(mapped, timestep)


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

    Bounds are finite numbers, or for a vector reward one per component. The replay buffer and the metrics keep the raw
    reward. `jaxenv.wrappers.ClipReward` replaces it.

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
    """Multiplies the reward (``[B]`` or ``[B, R]``) by ``scale``, finite and not 0, or one number per component."""

    scale: Any

    def check(self) -> None:
        super().check()
        if np.any(np.asarray(self.scale, np.float32) == 0):
            raise ValueError(f"RewardScaling: scale must not be 0 in float32, got {self.scale!r}")

    def apply(self, reward: Any, *numbers: np.ndarray) -> Any:
        return reward * numbers[0]


@dataclasses.dataclass(frozen=True)
class RewardShifting(_Elementwise):
    """Adds ``bias``, a finite number or one per component, to the reward (``[B]`` or ``[B, R]``) of every step.

    If episodes differ in length, a shift changes the optimal policy.
    """

    bias: Any

    def apply(self, reward: Any, *numbers: np.ndarray) -> Any:
        return reward + numbers[0]


@dataclasses.dataclass(frozen=True)
class RewardFunction(RewardTransformer):
    """Applies a function to the reward of every step.

    `jaxenv.wrappers.TransformReward` changes the stored reward in the same way.

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
