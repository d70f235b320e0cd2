"""Report the return of an episode under one key, as evaluators of DI-engine read it."""

import dataclasses
from typing import ClassVar

import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv._wrapper_bases import LaneWrapper


class EvalReturn(LaneWrapper):
    """Adds ``env_info["eval_episode_return"]``: the return of the episode on its LAST row, 0 on all others.

    It is float32 ``[B]`` (``[B, R]`` for a vector reward). ``env_info["eval_episode_return_valid"]`` (bool ``[B]``) is
    True on LAST rows. DI-engine's contract (its older name is ``final_eval_reward``), with a key that is there on every
    row. `EpisodeStatistics` says more. Owns ``env_info``.
    """

    owns: ClassVar[frozenset[str]] = frozenset({"env_info"})

    def init(self, timestep, stream):
        return jnp.zeros_like(timestep.reward)

    def after(self, own, timestep, stream):
        total, last = own + timestep.reward, timestep.is_last()  # the reward is 0 at FIRST
        shown = jnp.where(tree.expand(last, total.ndim), total, np.float32(0))
        env_info = {**timestep.env_info, "eval_episode_return": shown, "eval_episode_return_valid": last}
        return total, dataclasses.replace(timestep, env_info=env_info)
