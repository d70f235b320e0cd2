"""Replace the reward by its sign."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import specs
from jaxenv.core import RewardWrapper, bounded_reward


class SignReward(RewardWrapper):
    """Replaces the reward by its sign, -1, 0 or 1, as in the training of Atari agents.

    The result is float32 ``[B]``, or ``[B, R]`` by component. Owns ``reward``.

    >>> import jaxenv
    >>> env = jaxenv.wrappers.SignReward(jaxenv.spec("Pendulum-v1").make())
    >>> env.reward(np.array([-16.2, 0.0, 3.0], np.float32)).tolist()
    [-1.0, 0.0, 1.0]
    """

    in_evaluation = "left_out"

    def reward_spec(self) -> specs.Bounded:
        spec = self.env.reward_spec()
        return bounded_reward(spec, *(np.sign(bound) for bound in specs.bounds(spec)))

    def reward(self, reward: jax.Array) -> jax.Array:
        return jnp.sign(reward)
