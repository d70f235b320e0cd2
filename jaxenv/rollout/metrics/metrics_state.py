"""The state that `jaxenv.rollout.Metrics` carries through a loop."""

from typing import Any

import jax
import jax.numpy as jnp

from jaxenv import tree
from jaxenv.core._sum import Sum
from jaxenv.rollout.metrics._episode import Episode
from jaxenv.rollout.metrics._sums import LARGEST, EpisodeSums


@tree.struct
class MetricsState:
    """Sums over the steps and the finished episodes of each lane, leaves ``[B, ...]``; no lane affects another.

    Attributes:
        episode: the unfinished episodes.
        steps: uint32 ``[B]``, steps taken, including unfinished episodes.
        rewards: the sum of their rewards.
        terminated: uint32 ``[B]``, terminated episodes whose start was seen.
        truncated: uint32 ``[B]``, truncated episodes whose start was seen.
        abnormal: uint32 ``[B]``, episodes that ended on a row marked ``env_info["abnormal"]``; no other field counts
            them.
        returns: returns of terminated and truncated episodes.
        return_max: the largest return, the smallest float32 before the first.
        return_min: the smallest return, the largest float32 before the first.
        lengths: lengths of terminated and truncated episodes.
        discounted_starts: the sum of the discounted returns of FIRST rows; ``()`` without gamma.
        discounted_means: the sum of each episode's mean discounted return; ``()`` without gamma.
        entries: for each measured name of ``env_info`` the `Sum` of its values, or a tree of them.
        entry_counts: uint32, the number of those values, or a tree of them.
    """

    episode: Episode
    steps: jax.Array
    rewards: Sum
    terminated: jax.Array
    truncated: jax.Array
    abnormal: jax.Array
    returns: EpisodeSums
    return_max: jax.Array
    return_min: jax.Array
    lengths: EpisodeSums
    discounted_starts: Any
    discounted_means: Any
    entries: dict[str, Any]
    entry_counts: dict[str, Any]

    @classmethod
    def empty(cls, episode: Episode) -> "MetricsState":
        """Returns the state with these unfinished episodes and no finished ones."""
        lanes, reward = episode.length.shape, episode.return_.value.shape
        discounted = not isinstance(episode.discounted, tuple)
        counts = jnp.zeros(lanes, jnp.uint32)
        return cls(
            episode=episode,
            steps=counts,
            rewards=Sum.zeros(reward),
            terminated=counts,
            truncated=counts,
            abnormal=counts,
            returns=EpisodeSums.zeros(reward),
            return_max=jnp.full(reward, -LARGEST),
            return_min=jnp.full(reward, LARGEST),
            lengths=EpisodeSums.zeros(lanes),
            discounted_starts=Sum.zeros(reward) if discounted else (),
            discounted_means=Sum.zeros(reward) if discounted else (),
            entries=jax.tree.map(lambda x: Sum.zeros(x.shape), episode.entry_counts),
            entry_counts=jax.tree.map(lambda x: jnp.zeros(x.shape, jnp.uint32), episode.entry_counts),
        )
