"""Balance a pole on a cart without observing velocities, which requires a policy with memory.

Reference: TF-Agents 0.19, ``environments/examples/masked_cartpole.py`` (tests/envs/probes/test_masked_cart_pole.py).

Observation   float32[2]   cart position (m), pole angle (rad)
Action        see `jaxenv.envs.classic_control.cart_pole`
Reward        see `jaxenv.envs.classic_control.cart_pole`
Starts        see `jaxenv.envs.classic_control.cart_pole`
Terminates    see `jaxenv.envs.classic_control.cart_pole`
Time limit    500, MaskedCartPole-v0 200 (registry)
"""

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import specs
from jaxenv.envs.classic_control.cart_pole import CartPole, State


class MaskedCartPole(CartPole):
    """CartPole that observes positions only; see the module docstring."""

    def observe(self, state: State) -> jax.Array:
        return jnp.stack([state.x, state.theta], axis=-1)

    def observation_spec(self) -> specs.Bounded:
        high = np.array([2 * self.position_limit, 2 * self.angle_limit], np.float32)
        return specs.Bounded((2,), np.float32, -high, high, "observation")
