"""Running mean and variance of rows that come in batches, exact in count and sound in float32 over any number.

A float32 count stops growing at 2**24, and a float32 mean stops moving once a batch's share of it falls below its last
digit. So the count is an integer of two words, and mean and variance carry what they lost to rounding. Batches are
merged by the parallel formula of Chan, Golub and LeVeque (1983, doi:10.1080/00031305.1983.10483115).
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree


@tree.struct
class Moments:
    """Count, mean and variance (of the population) of all rows seen so far; one mean and variance per element.

    Before the first row the mean is 0 and the variance 1, so that normalising changes nothing.

    Attributes:
        high: uint32 ``()``, upper word of the count.
        low: uint32 ``()``, lower word.
        mean: float32, in the shape of a row.
        variance: likewise.
        mean_rest: what ``mean`` lost to rounding: the mean is the sum of both.
        variance_rest: likewise.
    """

    high: jax.Array
    low: jax.Array
    mean: jax.Array
    variance: jax.Array
    mean_rest: jax.Array
    variance_rest: jax.Array

    @property
    def count(self) -> Any:
        """The exact number of rows; for concrete moments."""
        words = np.asarray(self.high).astype(np.uint64) << np.uint64(32) | np.asarray(self.low).astype(np.uint64)
        return words.item() if words.ndim == 0 else words


def empty(shape: tuple[int, ...] = ()) -> Moments:
    """The moments before the first row, for rows of one shape."""
    zero, zeros = jnp.zeros((), jnp.uint32), jnp.zeros(shape, jnp.float32)
    return Moments(zero, zero, zeros, jnp.ones_like(zeros), zeros, zeros)


def of(rows: jax.Array, valid: jax.Array | None = None, axis_name: str | None = None) -> Moments:
    """The moments of one batch. They are constants to differentiation: a gradient never passes from lane to lane.

    Args:
        rows: ``[B, ...]`` of a floating dtype.
        valid: bool ``[B]``, which rows count; all by default. What the others hold, NaN included, has no effect.
        axis_name: a mesh axis whose shards together are the batch.
    """

    def total(x):
        summed = jnp.sum(x, axis=0, dtype=x.dtype)
        return summed if axis_name is None else jax.lax.psum(summed, axis_name)

    x = jax.lax.stop_gradient(rows).astype(jnp.float32)
    mask = jnp.ones(x.shape[:1], bool) if valid is None else valid
    counted = tree.expand(mask, x.ndim)
    count = total(mask.astype(jnp.uint32))
    share = 1 / jnp.maximum(count, np.uint32(1)).astype(jnp.float32)
    mean = total(jnp.where(counted, x, np.float32(0))) * share
    # The mean of the deviations is what the first sum lost to rounding.
    deviation = jnp.where(counted, x - mean[None], np.float32(0))
    rest = total(deviation) * share
    variance = jnp.maximum(total(deviation * deviation) * share - rest * rest, np.float32(0))
    mean, rest = add(mean, jnp.zeros_like(mean), rest)
    return Moments(jnp.zeros_like(count), count, mean, variance, rest, jnp.zeros_like(variance))


def merge(a: Any, b: Any) -> Any:
    """The moments of all rows of both. Trees of moments are merged leaf by leaf."""
    return jax.tree.map(_merge, a, b, is_leaf=lambda node: isinstance(node, Moments))


def update(moments: Moments, rows: jax.Array, valid: jax.Array | None = None, axis_name: str | None = None) -> Moments:
    """The moments after one more batch; arguments as of `of`."""
    return merge(moments, of(rows, valid, axis_name))


def normalize(moments: Moments, x: jax.Array, epsilon: Any = 1e-8) -> jax.Array:
    """``(x - mean) / sqrt(variance + epsilon)`` for rows ``[B, ...]``, in their dtype."""
    centred = x.astype(jnp.float32) - _aligned(moments.mean, x.ndim)
    return (centred / scale(moments, x.ndim, epsilon)).astype(x.dtype)


def denormalize(moments: Moments, x: jax.Array, epsilon: Any = 1e-8) -> jax.Array:
    """The inverse of `normalize`."""
    spread = x.astype(jnp.float32) * scale(moments, x.ndim, epsilon)
    return (spread + _aligned(moments.mean, x.ndim)).astype(x.dtype)


def scale(moments: Moments, ndim: int, epsilon: Any = 1e-8) -> jax.Array:
    """``sqrt(variance + epsilon)`` with axes in front, up to ``ndim``; ``epsilon`` is a number or one per lane."""
    return jnp.sqrt(_aligned(moments.variance, ndim) + tree.expand(jnp.asarray(epsilon, jnp.float32), ndim))


def summable(x: jax.Array) -> jax.Array:
    """Rows ``[B, ...]`` whose numbers are finite and small enough that float32 sums of their squares stay finite.

    Returns bool ``[B]``. The limit is 1e15 in magnitude.
    """
    return jnp.all(jnp.abs(x.astype(jnp.float32)) < np.float32(1e15), axis=tuple(range(1, x.ndim)))


def _merge(a: Moments, b: Moments) -> Moments:
    low = a.low + b.low
    high = a.high + b.high + (low < a.low).astype(jnp.uint32)
    total = jnp.maximum(_as_float(high, low), np.float32(1))
    of_a, of_b = _as_float(a.high, a.low) / total, _as_float(b.high, b.low) / total
    delta = (b.mean - a.mean) + (b.mean_rest - a.mean_rest)
    mean, mean_rest = add(a.mean, a.mean_rest, of_b * delta)
    spread = (b.variance - a.variance) + (b.variance_rest - a.variance_rest) + of_a * delta * delta
    variance, variance_rest = add(a.variance, a.variance_rest, of_b * spread)
    merged = Moments(high, low, mean, jnp.maximum(variance, np.float32(0)), mean_rest, variance_rest)
    # Away from the initial 1 a small variance would lose its digits.
    first = (a.high | a.low) == 0
    return jax.tree.map(lambda new, old: jnp.where(first & ((b.high | b.low) != 0), new, old), b, merged)


def add(value: jax.Array, rest: jax.Array, increment: jax.Array) -> tuple[jax.Array, jax.Array]:
    """``value + rest + increment`` as a float32 and what it lost to rounding (Knuth's two-sum, then Dekker's)."""
    total = value + increment
    part = total - value
    rest = rest + ((value - (total - part)) + (increment - part))
    rounded = total + rest
    return rounded, rest - (rounded - total)


def _as_float(high: jax.Array, low: jax.Array) -> jax.Array:
    return high.astype(jnp.float32) * np.float32(2**32) + low.astype(jnp.float32)


def _aligned(x: jax.Array, ndim: int) -> jax.Array:
    return x.reshape((1,) * (ndim - x.ndim) + x.shape)
