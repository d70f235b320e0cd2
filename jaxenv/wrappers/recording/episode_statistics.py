"""Report the return and the length of every episode at its end."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv.core import LaneWrapper, Sum, TimeStep
from jaxenv.random import Stream
from jaxenv.tree import Tree


@tree.struct
class Totals:
    """Return (``[B]`` or ``[B, R]``) and length (int32 ``[B]``) of the episode so far."""

    reward: Sum
    length: jax.Array


class EpisodeStatistics(LaneWrapper):
    """Adds ``env_info["episode"]``: statistics of the episode on its LAST row, zeros and False on all other rows.

    ``return`` (float32 ``[B]``, ``[B, R]`` for a vector reward) sums the rewards of the environment inside and carries
    the rounding error of the sum, so that long episodes lose no reward. ``length`` (int32 ``[B]``) counts the rows
    after FIRST. ``terminated`` and ``truncated`` (bool ``[B]``) report how the episode ended. ``valid`` (bool ``[B]``)
    is True on LAST rows and distinguishes a return of 0 from no return. `RunStats` can keep the last episodes. Owns
    ``env_info``.

    >>> import jax, jax.numpy as jnp, jaxenv
    >>> env = jaxenv.wrappers.EpisodeStatistics(jaxenv.testing.count_to_two())
    >>> state, _ = env.reset(jax.random.key(0))
    >>> for _ in range(2):
    ...     state, timestep = env.step(state, jnp.zeros(1, jnp.int32))
    >>> {name: value.tolist() for name, value in sorted(timestep.env_info["episode"].items())}
    {'length': [2], 'return': [1.0], 'terminated': [True], 'truncated': [False], 'valid': [True]}
    """

    owns: ClassVar[frozenset[str]] = frozenset({"env_info"})
    in_evaluation = "kept"
    place = "sees_ends"
    agent_entries = frozenset({"episode.return"})

    def check(self) -> None:
        if "episode" in self.env.env_info_spec():
            raise ValueError(f"EpisodeStatistics: {self.env!r} already has env_info['episode'], one is enough")

    def init(self, timestep: TimeStep, stream: Stream) -> Totals:
        return Totals(Sum.zeros(timestep.reward.shape), jnp.zeros_like(timestep.step_type))

    def after(self, own: Totals, timestep: TimeStep, stream: Stream) -> tuple[Tree, TimeStep]:
        total = own.reward.add(timestep.reward)  # 0 at FIRST
        length = own.length + jnp.where(timestep.is_first(), np.int32(0), np.int32(1))
        last = timestep.is_last()
        episode = {
            "return": jnp.where(tree.expand(last, timestep.reward.ndim), total.value, np.float32(0)),
            "length": jnp.where(last, length, np.int32(0)),
            "terminated": timestep.terminated,
            "truncated": timestep.truncated,
            "valid": last,
        }
        row = dataclasses.replace(timestep, env_info={**timestep.env_info, "episode": episode})
        return Totals(total, length), row
