"""Report the return of an episode under the key that evaluators of DI-engine read."""

import dataclasses
from typing import ClassVar

import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv.core import LaneWrapper, Sum, TimeStep
from jaxenv.random import Stream
from jaxenv.tree import Tree


class EvalReturn(LaneWrapper):
    """Adds ``env_info["eval_episode_return"]``: the return of the episode on its LAST row, 0 on all other rows.

    It is float32 ``[B]`` (``[B, R]`` for a vector reward). ``env_info["eval_episode_return_valid"]`` (bool ``[B]``) is
    True on LAST rows. `EpisodeStatistics` reports more. Owns ``env_info``.

    >>> import jax, jax.numpy as jnp, jaxenv
    >>> env = EvalReturn(jaxenv.testing.count_to_two())
    >>> state, _ = env.reset(jax.random.key(0))
    >>> for _ in range(2):
    ...     state, timestep = env.step(state, jnp.zeros(1, jnp.int32))
    >>> timestep.env_info["eval_episode_return"].tolist(), timestep.env_info["eval_episode_return_valid"].tolist()
    ([1.0], [True])
    """

    owns: ClassVar[frozenset[str]] = frozenset({"env_info"})
    in_evaluation = "kept"
    place = "sees_ends"
    agent_entries = frozenset({"eval_episode_return"})

    def init(self, timestep: TimeStep, stream: Stream) -> Tree:
        return Sum.zeros(timestep.reward.shape)

    def after(self, own: Tree, timestep: TimeStep, stream: Stream) -> tuple[Tree, TimeStep]:
        total, last = own.add(timestep.reward), timestep.is_last()  # the reward is 0 at FIRST
        shown = jnp.where(tree.expand(last, timestep.reward.ndim), total.value, np.float32(0))
        env_info = {**timestep.env_info, "eval_episode_return": shown, "eval_episode_return_valid": last}
        return total, dataclasses.replace(timestep, env_info=env_info)
