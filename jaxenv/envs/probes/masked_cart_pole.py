"""CartPole whose velocities are not shown, so that a policy needs a memory.

Reference: TF-Agents 0.19, ``environments/examples/masked_cartpole.py`` (tests/envs/probes/test_masked_cart_pole.py).

Observation   float32[2]   cart position (m), pole angle (rad)
Time limit    500, MaskedCartPole-v0 200 (registry)

All else is as in `jaxenv.envs.classic_control.cart_pole`.
"""

import jax.numpy as jnp
import numpy as np

from jaxenv import specs
from jaxenv.envs.classic_control.cart_pole import CartPole


class MaskedCartPole(CartPole):
    """Pole balancing by positions alone; see the module."""

    def check(self):
        super().check()
        for name in ("position_limit", "angle_limit"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{self}: {name} must be positive, got {getattr(self, name)}")

    def observe(self, state):
        return jnp.stack([state.x, state.theta], axis=-1)

    def observation_spec(self):
        high = np.array([2 * self.position_limit, 2 * self.angle_limit], np.float32)
        return specs.Bounded((2,), np.float32, -high, high, "observation")
