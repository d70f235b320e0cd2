"""Distributions over actions; a network computes their parameters.

=================== ==================================== ============================================================
distribution        action spec                          inputs
=================== ==================================== ============================================================
`Categorical`       an integer or a bool                 ``[B, n]`` logits
`MultiCategorical`  an array of integers or bools        ``[B, n1 + n2 + ...]`` logits, one group for each
`Normal`            an array of floats                   ``[B, 2 n]`` means and log standard deviations
`TanhNormal`        a bounded array of floats            ``[B, 2 n]`` of the number before the tanh
=================== ==================================== ============================================================

A learner stores *samples*, and probabilities refer to them. ``to_action`` turns a sample into an action of the spec: it
clips a `Normal` to the bounds and squashes a `TanhNormal` into them.
"""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs
from jaxenv.core.timestep import TimeStep

_MASKED = np.float32(-1e9)  # a finite logit, so that entropy and gradient of a masked action are 0, not NaN
_LOG_STD = (-5.0, 2.0)
_HALF_LOG_TWO_PI = np.float32(0.5 * np.log(2 * np.pi))


@dataclasses.dataclass(frozen=True)
class Categorical:
    """A choice among ``num_inputs`` consecutive integers, starting at ``first``. It has no scale, so no ``log_std``."""

    num_inputs: int
    first: int = 0
    dtype: Any = np.int32
    num_log_std: ClassVar[int] = 0

    def sample(self, logits: jax.Array, stream: random.Stream) -> jax.Array:
        """Returns indices from 0, int32 ``[B]``, for logits ``[B, n]``."""
        return random.categorical(stream, logits=logits)

    def mode(self, logits: jax.Array) -> jax.Array:
        """Returns the most probable sample."""
        return random.argmax(logits)

    def to_action(self, sample: jax.Array) -> jax.Array:
        """Returns the action of a sample."""
        return (sample + np.int32(self.first)).astype(self.dtype)

    def log_probability(self, logits: jax.Array, sample: jax.Array) -> jax.Array:
        """Returns log probabilities in nats, ``[...]`` for logits ``[..., n]``."""
        chosen = jnp.arange(self.num_inputs, dtype=np.int32) == sample[..., None]
        return jnp.sum(jax.nn.log_softmax(logits), axis=-1, where=chosen)  # a gather has a scatter as its derivative

    def entropy(self, logits: jax.Array) -> jax.Array:
        """Returns the entropy in nats."""
        return -jnp.sum(jax.nn.softmax(logits) * jax.nn.log_softmax(logits), axis=-1)


@dataclasses.dataclass(frozen=True)
class MultiCategorical:
    """Independent choices: ``num_values[i]`` consecutive integers from ``first[i]``, in the shape of the spec."""

    num_values: tuple[int, ...]
    first: tuple[int, ...]
    shape: tuple[int, ...]
    dtype: Any
    num_log_std: ClassVar[int] = 0

    @property
    def num_inputs(self) -> int:
        return sum(self.num_values)

    def _pairs(self, logits: jax.Array) -> list[tuple[int, jax.Array]]:
        """Returns the number of values and logits of every choice."""
        return list(zip(self.num_values, jnp.split(logits, np.cumsum(self.num_values)[:-1], axis=-1), strict=True))

    def sample(self, logits: jax.Array, stream: random.Stream) -> jax.Array:
        """Returns indices from 0, int32 ``[B, k]``, for logits ``[B, n1 + ... + nk]``."""
        streams = [random.fold_in(stream, i) for i in range(len(self.num_values))]
        draws = [random.categorical(s, logits=x) for s, (_, x) in zip(streams, self._pairs(logits), strict=True)]
        return jnp.stack(draws, axis=-1)

    def mode(self, logits: jax.Array) -> jax.Array:
        return jnp.stack([Categorical(n).mode(x) for n, x in self._pairs(logits)], axis=-1)

    def to_action(self, sample: jax.Array) -> jax.Array:
        return (sample + np.array(self.first, np.int32)).reshape(-1, *self.shape).astype(self.dtype)

    def log_probability(self, logits: jax.Array, sample: jax.Array) -> jax.Array:
        """Returns log probabilities in nats, ``[...]`` for logits ``[..., n1 + ... + nk]``."""
        log_p = [Categorical(n).log_probability(x, sample[..., i]) for i, (n, x) in enumerate(self._pairs(logits))]
        return jnp.sum(jnp.stack(log_p), axis=0)

    def entropy(self, logits: jax.Array) -> jax.Array:
        return jnp.sum(jnp.stack([Categorical(n).entropy(x) for n, x in self._pairs(logits)]), axis=0)


@dataclasses.dataclass(frozen=True)
class Normal:
    """Independent normal numbers in the shape of the spec. Actions are samples, clipped to the bounds."""

    spec: specs.Array

    @property
    def num_inputs(self) -> int:
        return 2 * self.num_log_std

    @property
    def num_log_std(self) -> int:
        """The number of log standard deviations, which are the last inputs."""
        return self.spec.numel

    def moments(self, inputs: Any) -> Any:
        mean, log_std = jnp.split(inputs, 2, axis=-1)
        return mean, jnp.clip(log_std, *_LOG_STD)

    def sample(self, inputs: jax.Array, stream: random.Stream) -> jax.Array:
        """Returns float32 ``[B, n]`` for inputs ``[B, 2 n]``."""
        return self.displaced(inputs, random.normal(stream, (self.num_log_std,)))

    def displaced(self, inputs: jax.Array, noise: jax.Array) -> jax.Array:
        """Returns the sample at ``noise`` standard deviations from the mean, float32 ``[B, n]``; differentiable."""
        mean, log_std = self.moments(inputs)
        return mean + jnp.exp(log_std) * noise

    def mode(self, inputs: jax.Array) -> jax.Array:
        return self.moments(inputs)[0]

    def to_action(self, sample: jax.Array) -> jax.Array:
        action = sample.reshape(-1, *self.spec.shape).astype(self.spec.dtype)
        if isinstance(self.spec, specs.Bounded):
            return jnp.clip(action, self.spec.minimum[None], self.spec.maximum[None])
        return action

    def log_probability(self, inputs: jax.Array, sample: jax.Array) -> jax.Array:
        """Returns log densities of samples before clipping, in nats, ``[...]`` for inputs ``[..., 2 n]``."""
        mean, log_std = self.moments(inputs)
        distance = (sample - mean) / jnp.exp(log_std)
        return jnp.sum(-0.5 * distance**2 - log_std - _HALF_LOG_TWO_PI, axis=-1)

    def entropy(self, inputs: jax.Array) -> jax.Array:
        """Returns the entropy of the sample in nats."""
        return jnp.sum(self.moments(inputs)[1] + (_HALF_LOG_TWO_PI + np.float32(0.5)), axis=-1)


class TanhNormal(Normal):
    """Independent normal numbers that a tanh squashes into the bounds of the spec, a `jaxenv.specs.Bounded`.

    Haarnoja et al. (2018), arXiv:1801.01290, appendix C. Samples, ``mode`` and ``entropy`` refer to the numbers before
    the tanh: the entropy of the action has no closed form. The action of ``mode`` is the median.
    """

    def to_action(self, sample: jax.Array) -> jax.Array:
        return self.scaled(jnp.tanh(sample))

    def scaled(self, unit: jax.Array) -> jax.Array:
        """Scales ``unit``, ``[B, n]``, to an action ``[B, *shape]``: -1 becomes the lower bound and 1 the upper one."""
        assert isinstance(self.spec, specs.Bounded)
        low, high = self.spec.minimum[None], self.spec.maximum[None]
        unit = unit.reshape(-1, *self.spec.shape)
        # Rounding must not leave the bounds.
        return jnp.clip(low + (unit + 1) * (0.5 * (high - low)), low, high).astype(self.spec.dtype)

    def log_probability(self, inputs: jax.Array, sample: jax.Array) -> jax.Array:
        """Returns the density of the action, in nats, where actions are measured from -1 to 1."""
        # log(1 - tanh(u)**2) in a form that is exact for large u
        slope = 2 * (np.float32(np.log(2)) - sample - jax.nn.softplus(-2 * sample))
        return super().log_probability(inputs, sample) - jnp.sum(slope, axis=-1)


Distribution = Categorical | MultiCategorical | Normal


def masked(logits: jax.Array, mask: Any) -> jax.Array:
    """Masks logits ``[..., n]`` of actions that ``mask``, bool of the same shape, forbids; ``()`` allows all."""
    return logits if isinstance(mask, tuple) else jnp.where(mask, logits, _MASKED)


def legal_actions(spec: Any, timestep: TimeStep) -> Any:
    """Returns ``env_info["action_mask"]`` ``[B, n]`` if the action is one integer, ``()`` without a mask."""
    one = isinstance(spec, specs.Bounded) and spec.is_discrete and spec.shape == ()
    return timestep.env_info["action_mask"] if one and "action_mask" in timestep.env_info else ()


def of_spec(owner: str, spec: Any, squash: bool = False) -> Distribution:
    """Returns the distribution for an action spec; with ``squash`` a `TanhNormal` for floats instead of a `Normal`."""
    if not specs.is_spec(spec):
        raise ValueError(f"{owner}: the action must be one array, got {spec}: FlattenAction makes one of several")
    if spec.dtype == np.bool_:
        spec = specs.Bounded(spec.shape, spec.dtype, False, True)
    if spec.is_discrete and not isinstance(spec, specs.Bounded):
        raise ValueError(f"{owner}: an action of integers must have bounds, got {spec}")
    if isinstance(spec, specs.Bounded) and spec.is_discrete:
        first = np.broadcast_to(spec.minimum, spec.shape).astype(np.int64).reshape(-1)
        last = np.broadcast_to(spec.maximum, spec.shape).astype(np.int64).reshape(-1)
        if spec.shape == ():
            return Categorical(spec.num_values, int(spec.minimum), spec.dtype)
        return MultiCategorical(tuple((last - first + 1).tolist()), tuple(first.tolist()), spec.shape, spec.dtype)
    if not squash:
        return Normal(spec)
    if not (isinstance(spec, specs.Bounded) and np.isfinite([spec.minimum, spec.maximum]).all()):
        raise ValueError(f"{owner}: squash=True needs finite bounds of the action, got {spec}")
    return TanhNormal(spec)
