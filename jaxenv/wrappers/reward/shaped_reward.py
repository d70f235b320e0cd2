"""Add a reward that helps at the beginning of training."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import specs, tree
from jaxenv.core import BatchWrapper, TimeStep, check_combined
from jaxenv.tree import Tree


class ShapedReward(BatchWrapper):
    """Adds an entry of ``env_info`` to the reward, with a weight that falls from 1 to 0.

    The weight falls linearly over the first ``steps`` rows of every lane and stays 0: a learner then goes on with the
    task's own reward. The entry must describe the transition and have the shape of the reward, such as
    ``env_info["shaped_reward"]`` of Overcooked. Evaluations leave the wrapper out.

    ``statistics(state)`` returns the number of rows so far, int32 ``()``, at most ``steps``. Owns ``reward``.

    Args:
        env: any environment, with ``AutoReset`` inside if there is one.
        steps: number of rows of a lane until the weight is 0.
        entry: the name of the entry.
        frozen: stop counting, so that the weight stands still.
        axis_name: has no effect, since all shards count the same rows.

    Raises:
        ValueError: if ``steps`` is below 1, if ``env_info`` has no such entry or one of another shape, or if one action
            takes several steps and the task does not sum the entry (`Task.summed_entries`).

    >>> import jax, jaxenv
    >>> wrappers = ["AgentsAsLanes", ("ShapedReward", {"steps": 40_000})]
    >>> env = jaxenv.make("Overcooked-CrampedRoom-v1", num_envs=4, wrappers=wrappers)
    >>> env.reward_spec()
    Array((), float32, name='reward')
    """

    steps: int = tree.static(low=1)
    entry: str = tree.static(default="shaped_reward")

    owns: ClassVar[frozenset[str]] = frozenset({"reward"})
    in_evaluation = "left_out"

    def check(self) -> None:
        entry, reward = self.env.env_info_spec().get(self.entry), self.env.reward_spec()
        if entry is None or not specs.is_spec(entry) or entry.shape != reward.shape:
            found = entry if entry is not None else f"the entries {', '.join(self.env.env_info_spec()) or 'none'}"
            rule = f"entry must be an entry of env_info with the shape {reward.shape} of the reward"
            raise ValueError(f"ShapedReward: {rule}, got {self.entry!r} and {found} of {self.env}")
        check_combined("ShapedReward", self.env, [self.entry])

    def reward_spec(self) -> specs.Array:
        return specs.Array(self.env.reward_spec().shape, np.float32, "reward")

    def init(self, timestep: TimeStep) -> jax.Array:
        return jnp.zeros((), jnp.int32)

    def after(self, shared: jax.Array, lanes: Tree, timestep: TimeStep, learn: bool) -> tuple[Tree, Tree, TimeStep]:
        weight = 1 - shared.astype(jnp.float32) / np.float32(self.steps)
        bonus = weight * timestep.env_info[self.entry].astype(jnp.float32)
        unpaid = tree.expand(timestep.is_first() | (weight <= 0), timestep.reward.ndim)
        reward = timestep.reward + jnp.where(unpaid, np.float32(0), bonus)
        seen = jnp.minimum(shared + 1, np.int32(self.steps)) if learn else shared
        return seen, lanes, dataclasses.replace(timestep, reward=reward)
