"""The sums of all lanes, chunks and shards of a rollout, together."""

from typing import Any

import jax
import jax.numpy as jnp

from jaxenv import _moments, tree
from jaxenv._moments import Moments
from jaxenv.rollout.sums import Count, pooled


@tree.struct
class Extremes:
    """The largest and the smallest number, scalars or ``[R]``; minus infinity and infinity where there was none."""

    maximum: jax.Array
    minimum: jax.Array


@tree.struct
class Totals:
    """All lanes of a `MetricsState` together: scalars, or ``[R]`` for a vector reward.

    A mean stands with the exact number of what it is the mean of, so that totals can be merged in any order.

    Attributes:
        rewards: of every step.
        returns: of finished episodes.
        returns_terminated: of those that the task ended.
        returns_truncated: of the others.
        return_extremes: largest and smallest return.
        lengths: of finished episodes, and by ending as the returns.
        abnormal: the count of episodes that ended on an abnormal row; nothing else is meant.
        starts: discounted returns of first rows; ``()`` without gamma.
        averages: discounted returns of all rows, averaged over each episode; ``()`` without gamma.
        entries: for each name of ``Metrics.env_info`` the `Moments` or a tree of them.
    """

    rewards: Moments
    returns: Moments
    returns_terminated: Moments
    returns_truncated: Moments
    return_extremes: Extremes
    lengths: Moments
    lengths_terminated: Moments
    lengths_truncated: Moments
    abnormal: Moments
    starts: Any
    averages: Any
    entries: tuple

    def psum(self, axis_name: str) -> "Totals":
        """The totals of all shards of a mesh axis, the same scalars on each."""

        def over(x):
            return jax.lax.psum(x, axis_name)

        def one(x):
            if isinstance(x, Moments):
                return pooled(count_of(x), x.mean, x.mean_rest, x.variance + x.variance_rest, over)
            return Extremes(jax.lax.pmax(x.maximum, axis_name), jax.lax.pmin(x.minimum, axis_name))

        return jax.tree.map(one, self, is_leaf=is_total)


def merge_totals(a: Totals, b: Totals) -> Totals:
    """The totals of two chunks of a rollout, or of two sets of lanes, as one: scalars (or ``[R]``) again."""

    def one(x, y):
        if isinstance(x, Moments):
            return _moments.merge(x, y)
        return Extremes(jnp.maximum(x.maximum, y.maximum), jnp.minimum(x.minimum, y.minimum))

    return jax.tree.map(one, a, b, is_leaf=is_total)


def is_total(node: Any) -> bool:
    """Whether a node of a tree is what `Totals` are made of."""
    return isinstance(node, Moments | Extremes)


def count_of(moments: Moments) -> Count:
    """How many rows there were."""
    return Count(moments.high, moments.low)
