"""Counts, sums of counts, and running moments."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import specs, tree
from jaxenv._util import xla
from jaxenv._util.checks import is_known_array


@tree.struct
class Count:
    """A count below 2**64, or an array of counts; ``int(count)`` or ``numpy.asarray(count)`` reads it.

    Attributes:
        high: uint32, the upper word.
        low: uint32, the lower word, in the same shape.
    """

    high: jax.Array
    low: jax.Array

    @classmethod
    def zeros(cls) -> "Count":
        """Returns a count of 0, shape ``()``."""
        return cls(jnp.zeros((), jnp.uint32), jnp.zeros((), jnp.uint32))

    @classmethod
    def from_array(cls, x: jax.Array) -> "Count":
        """Counts of the values of ``x``, non-negative numbers below 2**32 or bool, in its shape."""
        low = x.astype(jnp.uint32)
        return cls(jnp.zeros_like(low), low)

    @classmethod
    def sum(cls, counts: jax.Array, sum_axis: Callable[[jax.Array], jax.Array]) -> "Count":
        """Sums uint32 ``counts`` over an axis exactly.

        Args:
            counts: uint32 ``[N, ...]``, or a scalar per shard of a mesh axis; N is at most 2**24.
            sum_axis: sums a uint32 array over the axis: a ``jnp.sum`` over the leading one, or a ``jax.lax.psum``.
        """
        # Byte by byte: no sum of single bytes overflows its word.
        carry: Any = np.uint32(0)
        low: Any = np.uint32(0)
        for shift in np.arange(0, 32, 8, dtype=np.uint32):
            column = sum_axis((counts >> shift) & np.uint32(0xFF)) + carry
            low = low | ((column & np.uint32(0xFF)) << shift)
            carry = column >> np.uint32(8)
        return cls(carry, low)

    def sum_over(self, sum_axis: Callable[[jax.Array], jax.Array]) -> "Count":
        """Sums these counts over an axis; ``sum_axis`` as in `sum`."""
        low = Count.sum(self.low, sum_axis)
        return Count(sum_axis(self.high) + low.high, low.low)

    def __add__(self, other: "Count") -> "Count":
        low = self.low + other.low
        return Count(self.high + other.high + (low < self.low).astype(jnp.uint32), low)

    def __ge__(self, number: Any) -> jax.Array:
        """Returns whether the count is at least an integer below 2**32, bool in the count's shape."""
        least = jnp.asarray(number)
        if not jnp.issubdtype(least.dtype, jnp.integer):
            raise TypeError(f"Count: a count is compared with an integer, got {number!r}")
        # A wrapped negative number would be huge, and a loop until then would not end.
        return (self.high > 0) | (self.low >= jnp.maximum(least, jnp.zeros_like(least)).astype(jnp.uint32))

    def is_zero(self) -> jax.Array:
        """Returns whether the count is 0, bool in the count's shape."""
        return (self.high | self.low) == 0

    def as_float(self) -> jax.Array:
        """Returns the count as float32, rounded."""
        return self.high.astype(jnp.float32) * np.float32(2**32) + self.low.astype(jnp.float32)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        high, low = np.asarray(self.high).astype(np.uint64), np.asarray(self.low).astype(np.uint64)
        return np.asarray(high << np.uint64(32) | low, dtype)

    def __int__(self) -> int:
        return int(np.asarray(self))

    def __repr__(self) -> str:
        if is_known_array(self.low):
            return f"Count({np.asarray(self).tolist()})"
        return f"Count(high={self.high!r}, low={self.low!r})"


@tree.struct
class Sum:
    """A float32 sum and its rounding error, which the next addition compensates; both have one shape.

    Over any number of terms the error is about one rounding of the sum of their absolute values (Kahan 1965,
    doi:10.1145/363707.363723). A plain float32 sum of ones stops at 2**24.

    Attributes:
        value: the sum, rounded.
        error: the excess of ``value``; 0 if the sum is not finite.
    """

    value: jax.Array
    error: jax.Array

    @classmethod
    def zeros(cls, shape: tuple[int, ...]) -> "Sum":
        """Returns an empty sum."""
        return cls(jnp.zeros(shape, jnp.float32), jnp.zeros(shape, jnp.float32))

    def add(self, x: jax.Array) -> "Sum":
        """Adds one term, in the shape of the sum."""
        term = x - self.error
        value = self.value + term
        error = (value - self.value) - term
        return Sum(value, jnp.where(jnp.isfinite(value), error, np.float32(0)))


def sum_axis0(x: jax.Array) -> jax.Array:
    """Sums over the leading axis, lanes or rows, in the dtype of ``x``."""
    return jnp.sum(x, axis=0, dtype=x.dtype)


@tree.struct
class Moments:
    """Count, mean and population variance of all samples so far; one mean and variance per element.

    Before the first sample the mean is 0 and the variance 1, so normalising changes nothing.
    """

    count: Count  # the exact number of samples, shape (), or the leading axes of several groups
    mean: jax.Array  # float32, in the shape of a sample
    variance: jax.Array  # float32, in the shape of a sample
    mean_error: jax.Array  # the rounding error of mean: the exact mean is closer to the sum of both
    variance_error: jax.Array  # the rounding error of variance


def empty(shape: tuple[int, ...] = ()) -> Moments:
    """Returns the moments before the first sample, for samples of one shape."""
    zeros = jnp.zeros(shape, jnp.float32)
    return Moments(Count.zeros(), zeros, jnp.ones_like(zeros), zeros, zeros)


def from_batch(batch: jax.Array, valid: jax.Array | None = None, axis_name: str | None = None) -> Moments:
    """Computes the moments of one batch. Differentiation treats them as constants: no gradient passes between lanes.

    Args:
        batch: ``[B, ...]`` of a floating dtype, one sample per lane.
        valid: bool ``[B]`` or with more axes, the samples that count; all by default. Invalid ones have no effect, even
            if NaN.
        axis_name: a mesh axis whose shards together are the batch.
    """

    def total(x: jax.Array) -> jax.Array:
        summed = jnp.sum(x, axis=0, dtype=x.dtype)
        return summed if axis_name is None else jax.lax.psum(summed, axis_name)

    x = jax.lax.stop_gradient(batch).astype(jnp.float32)
    mask = jnp.ones(x.shape[:1], bool) if valid is None else valid
    counted = tree.expand(mask, x.ndim)
    count = total(mask.astype(jnp.uint32))
    weight = tree.expand(1 / jnp.maximum(count, np.uint32(1)).astype(jnp.float32), x.ndim - 1)
    mean = total(jnp.where(counted, x, np.float32(0))) * weight
    # The mean of the deviations is the rounding error of the first sum.
    deviation = jnp.where(counted, x - mean[None], np.float32(0))
    rest = total(deviation) * weight
    variance = jnp.maximum(total(deviation * deviation) * weight - rest * rest, np.float32(0))
    mean, rest = add(mean, jnp.zeros_like(mean), rest)
    return Moments(Count.from_array(count), mean, variance, rest, jnp.zeros_like(variance))


def merge(a: Any, b: Any) -> Any:
    """Merges the moments of the samples of ``a`` and ``b``. Trees of moments are merged leaf by leaf."""
    return jax.tree.map(_merge, a, b, is_leaf=lambda node: isinstance(node, Moments))


def pool(groups: Moments, sum_groups: Callable[[jax.Array], jax.Array]) -> Moments:
    """Pools the moments of several groups of samples.

    Args:
        groups: moments of each group: every leaf has a leading axis, or they differ between the shards of a mesh axis.
            The mean of an empty group must be finite.
        sum_groups: sums an array over the groups: a ``jnp.sum`` over the leading axis, or a ``jax.lax.psum``.
    """
    count = groups.count.sum_over(sum_groups)
    number = groups.count.as_float()
    weight = number / jnp.broadcast_to(jnp.maximum(count.as_float(), np.float32(1)), number.shape)
    weight = tree.expand(weight, groups.mean.ndim)
    mean = sum_groups(weight * (groups.mean + groups.mean_error))
    deviation = (groups.mean - jnp.broadcast_to(mean, groups.mean.shape)) + groups.mean_error
    rest = sum_groups(weight * deviation)
    spread = sum_groups(weight * (groups.variance + groups.variance_error + deviation * deviation)) - rest * rest
    pooled = Moments(count, mean, jnp.maximum(spread, np.float32(0)), rest, jnp.zeros_like(rest))
    return _merge(empty(mean.shape), pooled)


def update(moments: Moments, batch: jax.Array, valid: jax.Array | None = None, axis_name: str | None = None) -> Moments:
    """Updates moments by one more batch; arguments as in `from_batch`."""
    return merge(moments, from_batch(batch, valid, axis_name))


def normalize(moments: Moments, x: jax.Array, epsilon: Any = 1e-8) -> jax.Array:
    """Returns ``(x - mean) / sqrt(variance + epsilon)`` for a batch ``[B, ...]``, in its dtype."""
    centred = x.astype(jnp.float32) - specs.aligned(moments.mean, x.ndim)
    return (centred / scale(moments, x.ndim, epsilon)).astype(x.dtype)


def denormalize(moments: Moments, x: jax.Array, epsilon: Any = 1e-8) -> jax.Array:
    """Inverts `normalize`."""
    spread = x.astype(jnp.float32) * scale(moments, x.ndim, epsilon)
    return (spread + specs.aligned(moments.mean, x.ndim)).astype(x.dtype)


def scale(moments: Moments, ndim: int, epsilon: Any = 1e-8) -> jax.Array:
    """Returns ``sqrt(variance + epsilon)`` with leading axes up to ``ndim``; ``epsilon`` is a scalar or one per lane.

    The scale is 1 where this is 0: numbers that never vary are not divided.
    """
    total = specs.aligned(moments.variance, ndim) + tree.expand(jnp.asarray(epsilon, jnp.float32), ndim)
    return jnp.sqrt(jnp.where(total == 0, np.float32(1), total))


def summable(x: jax.Array) -> jax.Array:
    """Returns which samples ``[B, ...]`` are finite and below 1e15 in magnitude, bool ``[B]``.

    Float32 sums of the squares of such samples stay finite.
    """
    return jnp.all(jnp.abs(x.astype(jnp.float32)) < np.float32(1e15), axis=tuple(range(1, x.ndim)))


def add_sample(moments: Moments, x: jax.Array, counted: jax.Array) -> Moments:
    """Adds one sample to each group where ``counted``, bool in the shape of the counts.

    As `merge` with its moments, in half of the arithmetic (Welford 1962, doi:10.1080/00401706.1962.10490022).
    """
    count = jax.tree.map(lambda words: tree.expand(words, x.ndim), moments.count)
    wide = dataclasses.replace(moments, count=count), tree.expand(counted, x.ndim)
    added = xla.in_one_kernel(_with_sample, *wide, jax.lax.stop_gradient(x).astype(jnp.float32))
    first = (..., *(0,) * (x.ndim - counted.ndim))
    return dataclasses.replace(added, count=jax.tree.map(lambda words: words[first], added.count))


def _with_sample(moments: Moments, counted: jax.Array, x: jax.Array) -> Moments:
    count = moments.count + Count.from_array(counted)
    weight = jnp.where(counted, 1 / jnp.maximum(count.as_float(), np.float32(1)), np.float32(0))
    delta = jnp.where(counted, (x - moments.mean) - moments.mean_error, np.float32(0))
    mean, mean_error = add(moments.mean, moments.mean_error, weight * delta)
    spread = (delta - weight * delta) * delta - (moments.variance + moments.variance_error)
    variance, variance_error = add(moments.variance, moments.variance_error, weight * spread)
    return Moments(count, mean, jnp.maximum(variance, np.float32(0)), mean_error, variance_error)


def _merge(a: Moments, b: Moments) -> Moments:
    one_each = a.count.low.shape == a.mean.shape  # a sample is one number, with its own count
    return xla.in_one_kernel(_merged, a, b) if one_each else _merged(a, b)


def _merged(a: Moments, b: Moments) -> Moments:
    count = a.count + b.count
    total = jnp.maximum(count.as_float(), np.float32(1))
    weight_a, weight_b = (tree.expand(x.count.as_float() / total, a.mean.ndim) for x in (a, b))
    delta = (b.mean - a.mean) + (b.mean_error - a.mean_error)
    mean, mean_error = add(a.mean, a.mean_error, weight_b * delta)
    spread = (b.variance - a.variance) + (b.variance_error - a.variance_error) + weight_a * delta * delta
    variance, variance_error = add(a.variance, a.variance_error, weight_b * spread)
    merged = Moments(count, mean, jnp.maximum(variance, np.float32(0)), mean_error, variance_error)
    # Merging with the initial variance of 1 would round away the digits of a small one.
    is_first = a.count.is_zero() & ~b.count.is_zero()
    return jax.tree.map(lambda first, other: jnp.where(tree.expand(is_first, first.ndim), first, other), b, merged)


def add(value: jax.Array, rest: jax.Array, increment: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Adds ``value + rest + increment``: a float32 and its rounding error (Knuth's two-sum, then Dekker's fast one)."""
    total = value + increment
    part = total - value
    rest = rest + ((value - (total - part)) + (increment - part))
    rounded = total + rest
    return rounded, rest - (rounded - total)
