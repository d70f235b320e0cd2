"""Per-lane sums over finished episodes, and the moments of all lanes computed from them."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv.core import _moments
from jaxenv.core._count import Count
from jaxenv.core._moments import Moments
from jaxenv.core._sum import Sum, sum_axis0

# The largest float32, in place of infinity, which ``jax_debug_infs`` reports.
LARGEST = np.finfo(np.float32).max


@tree.struct
class EpisodeSums:
    """Sums of one quantity over the finished episodes of each lane, float32 ``[B]`` (or ``[B, R]``).

    The terms are distances from an origin close to the values, so that their squares keep their digits.
    """

    origin: jax.Array  # an early value; 0 before the first
    terminated: Sum  # sum of the distances over terminated episodes
    truncated: Sum  # sum of the distances over truncated episodes
    squares: Sum  # sum of the squared distances over both

    @classmethod
    def zeros(cls, shape: tuple[int, ...]) -> "EpisodeSums":
        """Returns the sums before the first episode."""
        return cls(jnp.zeros(shape, jnp.float32), Sum.zeros(shape), Sum.zeros(shape), Sum.zeros(shape))

    def add(self, x: jax.Array, terminated: jax.Array, truncated: jax.Array, first: jax.Array) -> "EpisodeSums":
        """Adds the values of the episodes that end in a block of rows.

        Args:
            x: ``[T, B]`` or ``[T, B, R]``.
            terminated: bool ``[T, B]``, rows that terminate an episode.
            truncated: bool ``[T, B]``, rows that truncate an episode.
            first: bool ``[B]``, lanes without a finished episode before these rows.
        """
        ended = terminated | truncated
        largest = max_axis0(x, ended)
        origin = jnp.where(tree.expand(first, largest.ndim) & (largest > -LARGEST), largest, self.origin)
        distance = jnp.where(tree.expand(ended, x.ndim), x - origin[None], np.float32(0))
        return EpisodeSums(
            origin=origin,
            terminated=self.terminated.add_rows(distance, terminated),
            truncated=self.truncated.add_rows(distance, truncated),
            squares=self.squares.add_rows(distance * distance),
        )

    def pool_lanes(self, terminated: jax.Array, truncated: jax.Array) -> tuple[Moments, Moments, Moments]:
        """Returns the moments over all lanes: of all, of terminated and of truncated episodes.

        The arguments are the numbers of these episodes, uint32 ``[B]``.
        """
        finished = terminated + truncated
        both = Sum(self.terminated.value + self.truncated.value, self.terminated.error + self.truncated.error)
        distance = both.mean(finished)
        variance = jnp.maximum(self.squares.mean(finished) - distance * distance, np.float32(0))
        return (
            _pool_lanes(finished, self.origin, distance, variance),
            _pool_lanes(terminated, self.origin, self.terminated.mean(terminated)),
            _pool_lanes(truncated, self.origin, self.truncated.mean(truncated)),
        )


def pool_means(total: Sum, count: jax.Array) -> Moments:
    """Returns count and mean over all lanes, given ``count`` terms per lane, uint32 ``[B]``; variance is unused."""
    mean = total.mean(count)
    return _pool_lanes(count, jnp.zeros_like(mean), mean)


def _pool_lanes(count: jax.Array, origin: jax.Array, distance: jax.Array, variance: jax.Array | None = None) -> Moments:
    """Returns the moments over all lanes; the mean of each is ``origin + distance``."""
    zeros = jnp.zeros_like(distance)
    variance = zeros if variance is None else variance
    return _moments.pool(Moments(Count.from_array(count), origin, variance, distance, zeros), sum_axis0)


def max_axis0(x: jax.Array, where: jax.Array) -> jax.Array:
    """Returns the largest masked ``x`` over the leading axis; minus `LARGEST` if there is none."""
    return jnp.max(jnp.where(tree.expand(where, x.ndim), x, -LARGEST), axis=0)


def min_axis0(x: jax.Array, where: jax.Array) -> jax.Array:
    """Returns the smallest masked ``x`` over the leading axis; `LARGEST` if there is none."""
    return jnp.min(jnp.where(tree.expand(where, x.ndim), x, LARGEST), axis=0)
