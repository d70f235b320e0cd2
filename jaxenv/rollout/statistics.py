"""Sums over finished episodes, kept per lane on the device and reduced on the host."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv.timestep import TimeStep


@tree.struct
class EpisodeTotals:
    """Running sums, each ``[B]``: nothing is reduced over lanes inside a loop, so they cost a few additions a step.

    ``return_`` and ``length`` belong to the episode under way, ``steps`` counts every step, and all others count
    finished episodes.
    """

    return_: jax.Array
    length: jax.Array
    steps: jax.Array
    terminated: jax.Array
    truncated: jax.Array
    return_sum: jax.Array
    return_square_sum: jax.Array
    length_sum: jax.Array
    length_square_sum: jax.Array

    @classmethod
    def zeros(cls, num_envs: int) -> "EpisodeTotals":
        """Totals before the first step."""
        integers = ("length", "steps", "terminated", "truncated")
        names = (f.name for f in dataclasses.fields(cls))
        return cls(**{n: jnp.zeros(num_envs, jnp.int32 if n in integers else jnp.float32) for n in names})

    def add(self, timestep: TimeStep) -> "EpisodeTotals":
        """Counts one row. FIRST rows are no steps; LAST rows end an episode, in every auto-reset mode.

        Raises:
            ValueError: at trace time, for a vector reward.
        """
        if timestep.reward.ndim != 1:
            raise ValueError(f"EpisodeTotals: the reward must be one number a lane, got shape {timestep.reward.shape}")
        first, last = timestep.is_first(), timestep.is_last()
        zero = np.float32(0)
        return_ = jnp.where(first, zero, self.return_ + timestep.reward)
        length = jnp.where(first, np.int32(0), self.length + 1)
        whole_return = jnp.where(last, return_, zero)
        whole_length = jnp.where(last, length, np.int32(0)).astype(jnp.float32)
        return EpisodeTotals(
            return_=jnp.where(last, zero, return_),
            length=jnp.where(last, np.int32(0), length),
            steps=self.steps + (~first).astype(jnp.int32),
            terminated=self.terminated + timestep.terminated.astype(jnp.int32),
            truncated=self.truncated + timestep.truncated.astype(jnp.int32),
            return_sum=self.return_sum + whole_return,
            return_square_sum=self.return_square_sum + whole_return**2,
            length_sum=self.length_sum + whole_length,
            length_square_sum=self.length_square_sum + whole_length**2,
        )

    def started_anew(self) -> "EpisodeTotals":
        """The same episodes under way with every other sum at 0: float32 stays exact enough chunk by chunk."""
        fresh = EpisodeTotals.zeros(self.length.shape[0])
        return dataclasses.replace(fresh, return_=self.return_, length=self.length)


def summarise(chunks: list[EpisodeTotals]) -> dict[str, Any]:
    """Adds up totals on the host in float64.

    Returns:
        ``steps``, ``episodes``, ``terminated``, ``truncated``, and mean and standard deviation (population) of return
        and length; ``None`` for the latter where no episode finished.
    """

    def total(name: str) -> float:
        return float(sum(np.asarray(getattr(c, name), np.float64).sum() for c in chunks))

    terminated, truncated = int(total("terminated")), int(total("truncated"))
    episodes = terminated + truncated
    figures: dict[str, Any] = {
        "steps": int(total("steps")),
        "episodes": episodes,
        "terminated": terminated,
        "truncated": truncated,
    }
    for what in ("return", "length"):
        mean = std = None
        if episodes:
            mean = total(f"{what}_sum") / episodes
            std = max(total(f"{what}_square_sum") / episodes - mean**2, 0.0) ** 0.5
        figures[f"{what}_mean"], figures[f"{what}_std"] = mean, std
    return figures
