"""A toy environment whose rewards and flags are simple functions of step and action."""

import dataclasses

import jax.numpy as jnp
import numpy as np

from jaxenv.testing import Counting


class Paying(Counting):
    """`Counting` that reports terms of a reward.

    ``env_info``: ``reward_dist`` (minus the step), ``reward_ctrl`` (minus the square of the action), ``cost`` (twice
    the action), all float32, and the flag ``life_lost`` where the action is 9.
    """

    def transition(self, state, action, stream):
        out = super().transition(state, action, stream)
        paid = action.astype(jnp.float32)
        env_info = {
            "reward_dist": -out.state.step.astype(jnp.float32),
            "reward_ctrl": -paid * paid,
            "cost": np.float32(2) * paid,
            "life_lost": action == 9,
        }
        return dataclasses.replace(out, env_info=env_info)


def paying(num_envs: int = 1) -> Paying:
    """Lanes of lengths 9, 2 and 9; lane 1 ends and restarts while the others continue."""
    lengths = np.array([[9], [2], [9]]) if num_envs == 3 else np.array([1, 3, 2])
    return Paying(lengths, stride=10, num_envs=num_envs)
