"""Sums that stay sound over any number of steps: floats with their rounding error, counts of two words."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import _moments, tree
from jaxenv._moments import Moments


@tree.struct
class Sum:
    """A float32 sum and the rounding error that the next addition makes good, each ``[B, ...]``.

    Over any number of terms it is off by about one rounding of the sum of their absolute values (Kahan 1965,
    doi:10.1145/363707.363723); a plain float32 sum of ones stops at 2**24.
    """

    value: jax.Array
    error: jax.Array

    @classmethod
    def zeros(cls, shape: tuple[int, ...]) -> "Sum":
        """The sum of nothing."""
        return cls(jnp.zeros(shape, jnp.float32), jnp.zeros(shape, jnp.float32))

    def add(self, mask: jax.Array, x: jax.Array) -> "Sum":
        """The sum with ``x`` (``[T, B, ...]``) where ``mask`` (bool ``[T, B]``, or with more of the axes)."""
        term = over_rows(jnp.where(tree.expand(mask, x.ndim), x, np.float32(0))) - self.error
        value = self.value + term
        return Sum(value, (value - self.value) - term)


@tree.struct
class Count:
    """An exact count of two uint32 words in one shape, read by ``int(count)`` or ``numpy.asarray(count)``."""

    high: jax.Array
    low: jax.Array

    @classmethod
    def zeros(cls) -> "Count":
        """Nothing counted, ``()``."""
        return cls(jnp.zeros((), jnp.uint32), jnp.zeros((), jnp.uint32))

    @classmethod
    def sum(cls, counts: jax.Array, over: Callable[[jax.Array], jax.Array]) -> "Count":
        """The sum of uint32 ``counts`` over an axis; ``over`` sums arrays of uint32 over it, at most 2**24 of them."""
        # Byte by byte: no sum of single bytes leaves its word.
        carry: Any = np.uint32(0)
        low: Any = np.uint32(0)
        for shift in np.arange(0, 32, 8, dtype=np.uint32):
            column = over((counts >> shift) & np.uint32(0xFF)) + carry
            low = low | ((column & np.uint32(0xFF)) << shift)
            carry = column >> np.uint32(8)
        return cls(carry, low)

    def total(self, over: Callable[[jax.Array], jax.Array]) -> "Count":
        """The sum over an axis, of a mesh say; ``over`` as in `sum`."""
        low = Count.sum(self.low, over)
        return Count(over(self.high) + low.high, low.low)

    def plus(self, other: "Count") -> "Count":
        """The sum of two counts of one shape."""
        low = self.low + other.low
        return Count(self.high + other.high + (low < self.low).astype(jnp.uint32), low)

    def below(self, number: jax.Array) -> jax.Array:
        """Whether it is below a uint32, bool in the count's shape."""
        return (self.high == 0) & (self.low < number)

    def is_zero(self) -> jax.Array:
        """Whether nothing was counted, bool in the count's shape."""
        return (self.high | self.low) == 0

    def as_float(self) -> jax.Array:
        """The count as float32, rounded."""
        return self.high.astype(jnp.float32) * np.float32(2**32) + self.low.astype(jnp.float32)

    def __array__(self, dtype=None, copy=None) -> np.ndarray:
        high, low = np.asarray(self.high).astype(np.uint64), np.asarray(self.low).astype(np.uint64)
        return np.asarray(high << np.uint64(32) | low, dtype)

    def __int__(self) -> int:
        return int(np.asarray(self))

    def __repr__(self) -> str:
        if isinstance(self.low, np.ndarray | np.generic | jax.Array) and not isinstance(self.low, jax.core.Tracer):
            return f"Count({np.asarray(self).tolist()})"
        return f"Count(high={self.high!r}, low={self.low!r})"


@tree.struct
class Mean:
    """Sum of a number (float32) and how often there was one (uint32), leaves ``[B, ...]``."""

    total: Sum
    count: jax.Array

    def add(self, mask: jax.Array, x: jax.Array) -> "Mean":
        """The numbers ``x`` (``[T, B, ...]``) more where ``mask``, bool of as many rows in the shape of the count."""
        return Mean(self.total.add(mask, x), self.count + over_rows(mask.astype(jnp.uint32)))

    def together(self) -> Moments:
        """All lanes as one; of the moments nothing but count and mean is meant, as in all below without squares."""
        return _lanes(self.count, None, _each(self.count, self.total))


@tree.struct
class Returns:
    """Sums over the returns of each lane's finished episodes, float32 ``[B]`` (or ``[B, R]``).

    Attributes:
        origin: one of the first returns. The sums are of distances from it, whose squares keep their digits.
        terminated: over episodes that the task ended.
        truncated: over the others.
        square: of the squared distances, over all.
        maximum: the largest return, minus infinity before the first.
        minimum: the smallest, infinity before the first.
    """

    origin: jax.Array
    terminated: Sum
    truncated: Sum
    square: Sum
    maximum: jax.Array
    minimum: jax.Array

    @classmethod
    def zeros(cls, shape: tuple[int, ...]) -> "Returns":
        """Sums of nothing."""
        least = jnp.full(shape, np.float32(-np.inf))
        return cls(jnp.zeros(shape, jnp.float32), Sum.zeros(shape), Sum.zeros(shape), Sum.zeros(shape), least, -least)

    def add(self, x: jax.Array, terminated: jax.Array, truncated: jax.Array) -> "Returns":
        """The returns ``[T, B]`` (or ``[T, B, R]``) more where an episode ended either way (bool ``[T, B]``)."""
        terminated, truncated = tree.expand(terminated, x.ndim), tree.expand(truncated, x.ndim)
        ended = terminated | truncated
        greatest = jnp.max(jnp.where(ended, x, np.float32(-np.inf)), axis=0)
        least = jnp.min(jnp.where(ended, x, np.float32(np.inf)), axis=0)
        begins = (self.maximum < self.minimum) & (greatest >= least)
        origin = jnp.where(begins, greatest, self.origin)
        distance = x - origin[None]
        return Returns(
            origin=origin,
            terminated=self.terminated.add(terminated, distance),
            truncated=self.truncated.add(truncated, distance),
            square=self.square.add(ended, distance * distance),
            maximum=jnp.maximum(self.maximum, greatest),
            minimum=jnp.minimum(self.minimum, least),
        )

    def together(self, terminated: jax.Array, truncated: jax.Array) -> tuple[Moments, Moments, Moments]:
        """All lanes as one: both endings, then each; given how many episodes ended so in each lane, uint32 ``[B]``."""
        both = Sum(self.terminated.value + self.truncated.value, self.terminated.error + self.truncated.error)
        return (
            _lanes(terminated + truncated, self.origin, _each(terminated + truncated, both), self.square),
            _lanes(terminated, self.origin, _each(terminated, self.terminated)),
            _lanes(truncated, self.origin, _each(truncated, self.truncated)),
        )


@tree.struct
class Lengths:
    """Sums over the lengths of each lane's finished episodes, ``[B]``; the whole numbers are uint32.

    Attributes:
        origin: one of the first lengths, from which ``square`` counts; 0 before the first.
        terminated: sum over episodes that the task ended.
        truncated: over the others.
        square: sum of the squared distances over all, float32.
    """

    origin: jax.Array
    terminated: jax.Array
    truncated: jax.Array
    square: Sum

    @classmethod
    def zeros(cls, shape: tuple[int, ...]) -> "Lengths":
        """Sums of nothing."""
        zeros = jnp.zeros(shape, jnp.uint32)
        return cls(zeros, zeros, zeros, Sum.zeros(shape))

    def add(self, length: jax.Array, terminated: jax.Array, truncated: jax.Array) -> "Lengths":
        """The lengths, int32 ``[T, B]``, more where an episode ended either way (bool ``[T, B]``)."""
        length = length.astype(jnp.uint32)
        ended, zero = terminated | truncated, np.uint32(0)
        origin = jnp.where(self.origin == 0, jnp.max(jnp.where(ended, length, zero), axis=0), self.origin)
        distance = (length.astype(jnp.int32) - origin.astype(jnp.int32)[None]).astype(jnp.float32)
        return Lengths(
            origin=origin,
            terminated=self.terminated + over_rows(jnp.where(terminated, length, zero)),
            truncated=self.truncated + over_rows(jnp.where(truncated, length, zero)),
            square=self.square.add(ended, distance * distance),
        )

    def together(self, terminated: jax.Array, truncated: jax.Array) -> tuple[Moments, Moments, Moments]:
        """All lanes as one: both endings, then each; given how many episodes ended so in each lane, uint32 ``[B]``."""
        both, origin = terminated + truncated, self.origin.astype(jnp.float32)
        distance = _each(both, self.terminated + self.truncated) - origin
        # A lane without an episode has origin and distance 0.
        return (
            _lanes(both, origin, distance, self.square),
            _lanes(terminated, None, _each(terminated, self.terminated)),
            _lanes(truncated, None, _each(truncated, self.truncated)),
        )


def count_of_lanes(count: jax.Array) -> Moments:
    """Counts of all lanes, uint32 ``[B]``, as the one of moments of which nothing else is meant."""
    return _lanes(count, None, jnp.zeros(count.shape, jnp.float32))


def pooled(
    count: jax.Array | Count, mean: jax.Array, mean_rest: jax.Array, variance: jax.Array, over: Callable
) -> Moments:
    """The moments of several groups of rows together: of lanes ``[B]``, or of shards, which an axis name tells apart.

    Args:
        count: how many rows each group has, uint32 or `Count`.
        mean: of each group, ``[B, ...]``; finite where there are none.
        mean_rest: to be added to ``mean``.
        variance: of each group, of the population.
        over: sums an array over the groups, as in `Count.sum`.
    """
    whole = Count.sum(count, over) if isinstance(count, jax.Array) else count.total(over)
    number = count.astype(jnp.float32) if isinstance(count, jax.Array) else count.as_float()
    all_of_them = jnp.broadcast_to(jnp.maximum(whole.as_float(), np.float32(1)), number.shape)
    share = tree.expand(number / all_of_them, mean.ndim)
    centre = over(share * (mean + mean_rest))
    apart = (mean - jnp.broadcast_to(centre, mean.shape)) + mean_rest
    rest = over(share * apart)
    spread = jnp.maximum(over(share * (variance + apart * apart)) - rest * rest, np.float32(0))
    none = _moments.empty(centre.shape)
    return _moments.merge(none, Moments(whole.high, whole.low, centre, spread, rest, jnp.zeros_like(rest)))


def _lanes(count: jax.Array, origin: jax.Array | None, distance: jax.Array, square: Sum | None = None) -> Moments:
    """All lanes as one: each has the mean ``origin + distance``, ``square`` sums the squares around ``origin``."""
    nought = jnp.zeros_like(distance)
    variance = nought if square is None else jnp.maximum(_each(count, square) - distance * distance, np.float32(0))
    return pooled(count, nought if origin is None else origin, distance, variance, over_lanes)


def _each(count: jax.Array, total: jax.Array | Sum) -> jax.Array:
    """The mean in each lane; 0 where there is none."""
    total = total.value - total.error if isinstance(total, Sum) else total.astype(jnp.float32)
    return total / tree.expand(jnp.maximum(count, np.uint32(1)).astype(jnp.float32), total.ndim)


def over_lanes(x: jax.Array) -> jax.Array:
    """The sum over the leading axis ``[B]``, in the dtype of ``x``."""
    return jnp.sum(x, axis=0, dtype=x.dtype)


# The same over the rows ``[T, B, ...]`` of a block: what they come to is added to a lane's sums at once.
over_rows = over_lanes
