"""The unfinished episode of each lane."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv.core._sum import Sum
from jaxenv.core.timestep import TimeStep
from jaxenv.rollout.metrics import _env_info


@tree.struct
class DiscountedReturns:
    """Discounted returns of the rows of an unfinished episode, from its rewards so far."""

    start: jax.Array  # float32[B] (or [B, R]), the discounted return of the FIRST row
    total: jax.Array  # float32[B] (or [B, R]), the sum of the discounted returns of all rows
    start_weight: jax.Array  # float32[B], the weight of the next reward in start
    total_weight: jax.Array  # float32[B], its weight in total, except for the row right before it

    @classmethod
    def zeros(cls, lanes: tuple[int, ...], reward: tuple[int, ...]) -> "DiscountedReturns":
        """Returns discounted returns of episodes without steps."""
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
    """The unfinished episode of each lane."""

    is_whole: jax.Array  # bool[B], whether its start was seen
    return_: Sum  # the sum of its rewards, [B] (or [B, R])
    length: jax.Array  # int32[B], the number of its steps
    discounted: Any  # `DiscountedReturns`, or () without gamma
    # For each measured name of env_info the `Sum` or maximum (float32[B, ...]) of its finite values, in the structure
    # of the entry.
    entries: dict[str, Any]
    entry_counts: dict[str, Any]  # the number of those values, int32 leaves of the same shapes

    @classmethod
    def zeros(cls, row: TimeStep, gamma: float | None, is_whole: jax.Array) -> "Episode":
        """Returns episodes without steps, for selected rows of these shapes."""
        lanes, reward = row.step_type.shape, row.reward.shape
        entries = {name: entry for name, entry in row.env_info.items() if name != "abnormal"}
        return cls(
            is_whole=is_whole,
            return_=Sum.zeros(reward),
            length=jnp.zeros(lanes, jnp.int32),
            discounted=() if gamma is None else DiscountedReturns.zeros(lanes, reward),
            entries={
                name: jax.tree.map(lambda x, name=name: _env_info.initial_value(name, x.shape), entry)
                for name, entry in entries.items()
            },
            entry_counts=jax.tree.map(lambda x: jnp.zeros(x.shape, jnp.int32), entries),
        )

    def add(self, row: TimeStep, gamma: float | None) -> "Episode":
        """Adds a row ``[B]``; a FIRST row is not a step."""
        moved = ~row.is_first()
        reward = jnp.where(tree.expand(moved, row.reward.ndim), row.reward, np.float32(0))

        given = {name: row.env_info[name] for name in self.entries}
        given = jax.tree.map(lambda x: x.astype(jnp.float32), given)
        valid = jax.tree.map(lambda x: jnp.isfinite(x) & tree.expand(moved, x.ndim), given)
        return Episode(
            is_whole=self.is_whole,
            return_=self.return_.add(reward),
            length=self.length + moved.astype(jnp.int32),
            discounted=() if gamma is None else self.discounted.add(row, reward, np.float32(gamma)),
            entries={
                name: jax.tree.map(functools.partial(_env_info.add_where, name), given[name], valid[name], entry)
                for name, entry in self.entries.items()
            },
            entry_counts=jax.tree.map(lambda count, mask: count + mask.astype(jnp.int32), self.entry_counts, valid),
        )

    def values(self) -> dict[str, Any]:
        """Returns the values of ``entries`` for episodes that end here."""
        return {
            name: jax.tree.map(functools.partial(_env_info.episode_value, name), self.entry_counts[name], entry)
            for name, entry in self.entries.items()
        }
