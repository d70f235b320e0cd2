"""The sums of a rollout over all lanes."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from jaxenv import tree
from jaxenv._util.checks import check_kind
from jaxenv.core import _moments
from jaxenv.core._count import Count
from jaxenv.core._moments import Moments
from jaxenv.tree._structure import mismatch


@tree.struct
class Totals:
    """A `MetricsState` reduced over its lanes: scalars, or ``[R]`` for a vector reward.

    Each mean comes with its exact count, so that totals can be merged in any order. Only ``returns`` and ``lengths``
    have a variance; the variance of the other moments is unused.

    Attributes:
        rewards: moments of the rewards of all steps.
        returns: moments of the returns of finished episodes.
        returns_terminated: moments of the returns of terminated episodes.
        returns_truncated: moments of the returns of truncated episodes.
        return_max: the largest return, the smallest float32 without an episode.
        return_min: the smallest return, the largest float32 without an episode.
        lengths: moments of the lengths of finished episodes.
        lengths_terminated: moments of the lengths of terminated episodes.
        lengths_truncated: moments of the lengths of truncated episodes.
        abnormal: the number of episodes that ended on an abnormal row.
        discounted_starts: moments of the discounted returns of FIRST rows; ``()`` without gamma.
        discounted_means: moments of the episodes' mean discounted returns; ``()`` without gamma.
        entries: for each measured name of ``env_info`` the moments, or a tree of them.
    """

    rewards: Moments
    returns: Moments
    returns_terminated: Moments
    returns_truncated: Moments
    return_max: jax.Array
    return_min: jax.Array
    lengths: Moments
    lengths_terminated: Moments
    lengths_truncated: Moments
    abnormal: Count
    discounted_starts: Any
    discounted_means: Any
    entries: dict[str, Any]

    def psum(self, axis_name: str) -> "Totals":
        """Returns the totals of all shards of a mesh axis, the same scalars on each."""

        def sum_shards(x: Any) -> Any:
            return jax.lax.psum(x, axis_name)

        def pool(x: Any) -> Any:
            return _moments.pool(x, sum_shards) if is_moments(x) else x

        return dataclasses.replace(
            jax.tree.map(pool, self, is_leaf=is_moments),
            return_max=jax.lax.pmax(self.return_max, axis_name),
            return_min=jax.lax.pmin(self.return_min, axis_name),
            abnormal=self.abnormal.sum_over(sum_shards),
        )


def merge_totals(a: Totals, b: Totals) -> Totals:
    """Merges the totals of two chunks of a rollout, or of two sets of lanes: scalars, or ``[R]``."""
    check_kind("merge_totals", "a", a, Totals)
    check_kind("merge_totals", "b", b, Totals)
    if (fault := mismatch(a, b, "b")) is not None:
        raise ValueError(f"merge_totals: {fault}, as in a")

    def merge(x: Any, y: Any) -> Any:
        return _moments.merge(x, y) if is_moments(x) else x

    return dataclasses.replace(
        jax.tree.map(merge, a, b, is_leaf=is_moments),
        return_max=jnp.maximum(a.return_max, b.return_max),
        return_min=jnp.minimum(a.return_min, b.return_min),
        abnormal=a.abnormal + b.abnormal,
    )


def is_moments(node: Any) -> bool:
    """Returns whether a node of a tree is a `Moments`."""
    return isinstance(node, Moments)
