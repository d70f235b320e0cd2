"""What `jaxenv.rollout.Metrics` knows of the episodes under way."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv.timestep import TimeStep


@tree.struct
class Entry:
    """A leaf of ``env_info`` over the episode under way: its sum or maximum, and of how many finite values."""

    value: jax.Array
    count: jax.Array

    @classmethod
    def zeros(cls, shape: tuple[int, ...], greatest: bool) -> "Entry":
        """Episodes of no steps, in which nothing is the sum, or the ``greatest``."""
        return cls(jnp.full(shape, np.float32(-np.inf if greatest else 0)), jnp.zeros(shape, jnp.int32))

    def add(self, x: jax.Array, mask: jax.Array, greatest: bool) -> "Entry":
        """One value more, ``[B, ...]``, where it is finite and ``mask`` (bool ``[B]``)."""
        x = x.astype(jnp.float32)
        valid = jnp.isfinite(x) & tree.expand(mask, x.ndim)
        value = jnp.maximum(self.value, x) if greatest else self.value + x
        return Entry(jnp.where(valid, value, self.value), self.count + valid.astype(jnp.int32))


@tree.struct
class Discounted:
    """Discounted returns of the episode under way, as far as its rewards so far tell.

    Attributes:
        start: float32 ``[B]`` (or ``[B, R]``), of its first row.
        all_rows: likewise, the sum over all of its rows.
        weight: float32 ``[B]``, what the next reward counts in ``start``.
        reach: float32 ``[B]``, what it counts in ``all_rows``, but for the row right before it.
    """

    start: jax.Array
    all_rows: jax.Array
    weight: jax.Array
    reach: jax.Array

    @classmethod
    def zeros(cls, lanes: tuple[int, ...], reward: tuple[int, ...]) -> "Discounted":
        """Episodes of no steps."""
        nought = jnp.zeros(reward, jnp.float32)
        return cls(nought, nought, jnp.ones(lanes, jnp.float32), jnp.zeros(lanes, jnp.float32))

    def add(self, row: TimeStep, reward: jax.Array, gamma: np.float32) -> "Discounted":
        """One row ``[B]`` more; its ``reward`` is 0 where it is FIRST."""
        # The discounted return of row t is the sum over later rewards r[l] of gamma^(l-t-1) d[t+1] ... d[l-1] r[l]. So
        # r[l] counts 1 in the row before it, and in each row before that gamma * d[l-1] times what r[l-1] counted.
        first, ndim = row.is_first(), reward.ndim
        reach = self.reach + np.float32(1)
        rate = gamma * row.discount
        return Discounted(
            start=self.start + tree.expand(self.weight, ndim) * reward,
            all_rows=self.all_rows + tree.expand(reach, ndim) * reward,
            weight=jnp.where(first, self.weight, self.weight * rate),
            reach=jnp.where(first, self.reach, reach * rate),
        )


@tree.struct
class Episode:
    """The episode under way in each lane.

    Attributes:
        return_: float32 ``[B]`` (or ``[B, R]``), sum of its rewards.
        length: int32 ``[B]``, its steps.
        discounted: `Discounted`, or ``()`` without gamma.
        entries: for each name of ``Metrics.env_info`` an `Entry` or a tree of them.
    """

    return_: jax.Array
    length: jax.Array
    discounted: Any
    entries: tuple
