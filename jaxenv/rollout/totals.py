"""The sums of a rollout over all lanes."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv._util.checks import check_kind
from jaxenv.core import _moments
from jaxenv.core._count import Count
from jaxenv.core._moments import Moments
from jaxenv.core._sum import sum_axis0
from jaxenv.tree._structure import mismatch

Reduction = Callable[[jax.Array], jax.Array]

# The largest float32, in place of infinity, which ``jax_debug_infs`` reports.
LARGEST = np.finfo(np.float32).max


@tree.struct
class Totals:
    """The sums of a rollout: scalars, or ``[R]`` for a vector reward; with an axis ``[B]`` in a `MetricsState`.

    Each mean comes with its exact count, so that totals can be merged in any order.

    Attributes:
        rewards: moments of the rewards of all steps.
        returns_terminated: moments of the returns of terminated episodes.
        returns_truncated: moments of the returns of truncated episodes.
        return_max: the largest return, the smallest float32 without an episode.
        return_min: the smallest return, the largest float32 without an episode.
        lengths_terminated: moments of the lengths of terminated episodes.
        lengths_truncated: moments of the lengths of truncated episodes.
        abnormal: the number of episodes that ended on an abnormal row; nothing else counts them.
        discounted_starts: moments of the discounted returns of FIRST rows; ``()`` without gamma.
        discounted_means: moments of the episodes' mean discounted returns; ``()`` without gamma.
        entries: for each measured name of ``env_info`` the moments, or a tree of them.
    """

    rewards: Moments
    returns_terminated: Moments
    returns_truncated: Moments
    return_max: jax.Array
    return_min: jax.Array
    lengths_terminated: Moments
    lengths_truncated: Moments
    abnormal: Count
    discounted_starts: Any
    discounted_means: Any
    entries: dict[str, Any]

    def psum(self, axis_name: str) -> "Totals":
        """Returns the totals of all shards of a mesh axis, the same scalars on each."""
        collectives = jax.lax.psum, jax.lax.pmax, jax.lax.pmin
        return _pooled(self, *(functools.partial(collective, axis_name=axis_name) for collective in collectives))


def merge_totals(a: Totals, b: Totals) -> Totals:
    """Merges the totals of two chunks of a rollout, or of two sets of lanes: scalars, or ``[R]``."""
    check_kind("merge_totals", "a", a, Totals)
    check_kind("merge_totals", "b", b, Totals)
    if (fault := mismatch(a, b, "b")) is not None:
        raise ValueError(f"merge_totals: {fault}, as in a")
    return dataclasses.replace(
        jax.tree.map(lambda x, y: _moments.merge(x, y) if is_moments(x) else x, a, b, is_leaf=is_moments),
        return_max=jnp.maximum(a.return_max, b.return_max),
        return_min=jnp.minimum(a.return_min, b.return_min),
        abnormal=a.abnormal + b.abnormal,
    )


def over_lanes(totals: Totals) -> Totals:
    """Returns the totals of all lanes, from the totals of each lane ``[B]``."""
    return _pooled(totals, sum_axis0, lambda x: jnp.max(x, axis=0), lambda x: jnp.min(x, axis=0))


def _pooled(
    totals: Totals, total: Callable[..., Any], largest: Callable[..., Any], smallest: Callable[..., Any]
) -> Totals:
    return dataclasses.replace(
        jax.tree.map(lambda x: _moments.pool(x, total) if is_moments(x) else x, totals, is_leaf=is_moments),
        return_max=largest(totals.return_max),
        return_min=smallest(totals.return_min),
        abnormal=totals.abnormal.sum_over(total),
    )


def is_moments(node: Any) -> bool:
    """Returns whether a node of a tree is a `Moments`."""
    return isinstance(node, Moments)
