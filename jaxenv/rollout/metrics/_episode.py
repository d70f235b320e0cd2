"""The unfinished episode of each lane."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv.rollout.metrics import _env_info
from jaxenv.timestep import TimeStep


@tree.struct
class DiscountedReturns:
    """Discounted returns of the rows of an unfinished episode, from its rewards so far.

    Attributes:
        start: float32 ``[B]`` (or ``[B, R]``), the discounted return of the FIRST row.
        total: float32 ``[B]`` (or ``[B, R]``), the sum of the discounted returns of all rows.
        start_weight: float32 ``[B]``, the weight of the next reward in ``start``.
        total_weight: float32 ``[B]``, its weight in ``total``, except for the row right before it.
    """

    start: jax.Array
    total: jax.Array
    start_weight: jax.Array
    total_weight: jax.Array

    @classmethod
    def zeros(cls, lanes: tuple[int, ...], reward: tuple[int, ...]) -> "DiscountedReturns":
        """Episodes without steps, for these shapes."""
        zeros = jnp.zeros(reward, jnp.float32)
        return cls(zeros, zeros, jnp.ones(lanes, jnp.float32), jnp.zeros(lanes, jnp.float32))

    def add(self, row: TimeStep, reward: jax.Array, gamma: np.float32) -> "DiscountedReturns":
        """Adds a row ``[B]``; ``reward`` is 0 where it is FIRST."""
        # The discounted return of row t is the sum over later rewards r[l] of gamma^(l-t-1) d[t+1] ... d[l-1] r[l].
        # The weight of r[l] is therefore 1 in the row before it, and in each earlier row gamma * d[l-1] times the
        # weight of r[l-1].
        first, ndim = row.is_first(), reward.ndim
        weight = self.total_weight + np.float32(1)
        rate = gamma * row.discount
        return DiscountedReturns(
            start=self.start + tree.expand(self.start_weight, ndim) * reward,
            total=self.total + tree.expand(weight, ndim) * reward,
            start_weight=jnp.where(first, self.start_weight, self.start_weight * rate),
            total_weight=jnp.where(first, self.total_weight, weight * rate),
        )


@tree.struct
class Episode:
    """The unfinished episode of each lane.

    Attributes:
        return_: float32 ``[B]`` (or ``[B, R]``), the sum of its rewards.
        length: int32 ``[B]``, the number of its steps.
        discounted: `DiscountedReturns`, or ``()`` without gamma.
        entries: for each measured name of ``env_info`` the sum or maximum of its finite values, float32 leaves
            ``[B, ...]`` in the structure of the entry; NaN before the first.
        entry_counts: for each name of a mean the number of those values, int32 leaves of the same shapes.
    """

    return_: jax.Array
    length: jax.Array
    discounted: Any
    entries: dict[str, Any]
    entry_counts: dict[str, Any]

    @classmethod
    def zeros(cls, row: TimeStep, gamma: float | None) -> "Episode":
        """Episodes without steps, for selected rows of these shapes."""
        lanes, reward = row.step_type.shape, row.reward.shape
        entries = {name: entry for name, entry in row.env_info.items() if name != "abnormal"}
        return cls(
            return_=jnp.zeros(reward, jnp.float32),
            length=jnp.zeros(lanes, jnp.int32),
            discounted=() if gamma is None else DiscountedReturns.zeros(lanes, reward),
            entries=jax.tree.map(lambda x: jnp.full(x.shape, np.float32(np.nan)), entries),
            entry_counts={
                name: jax.tree.map(lambda x: jnp.zeros(x.shape, jnp.int32), entry)
                for name, entry in entries.items()
                if _env_info.is_mean(name)
            },
        )

    def add(self, row: TimeStep, gamma: float | None) -> "Episode":
        """Adds a row ``[B]``; a FIRST row is not a step."""
        moved = ~row.is_first()
        reward = jnp.where(tree.expand(moved, row.reward.ndim), row.reward, np.float32(0))

        def combined(name, value, x):
            return _env_info.combine(name, value, x.astype(jnp.float32), tree.expand(moved, x.ndim))

        def counted(count, x):
            return count + (tree.expand(moved, x.ndim) & jnp.isfinite(x.astype(jnp.float32))).astype(jnp.int32)

        return Episode(
            return_=self.return_ + reward,
            length=self.length + moved.astype(jnp.int32),
            discounted=() if gamma is None else self.discounted.add(row, reward, np.float32(gamma)),
            entries={
                name: jax.tree.map(functools.partial(combined, name), entry, row.env_info[name])
                for name, entry in self.entries.items()
            },
            entry_counts={
                name: jax.tree.map(counted, count, row.env_info[name]) for name, count in self.entry_counts.items()
            },
        )

    def values(self) -> dict[str, Any]:
        """The values of ``entries`` for episodes that end here, NaN for those without one."""
        means = {
            name: jax.tree.map(lambda x, n: x / jnp.maximum(n, 1).astype(jnp.float32), self.entries[name], counts)
            for name, counts in self.entry_counts.items()
        }
        return {**self.entries, **means}
