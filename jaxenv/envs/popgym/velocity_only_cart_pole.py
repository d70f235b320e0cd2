"""Balance a pole on a cart while observing velocities only.

Reference: POPGym 1.0.7 ``VelocityOnlyCartPole`` (tests/envs/popgym/test_parity.py).
Paper: Morad et al. (2023), "POPGym: Benchmarking Partially Observable Reinforcement Learning", arXiv:2303.01859.

Observation   float32[2]   cart velocity (m/s), pole rate (rad/s); at the start, as in POPGym, cart position (m) and
                           pole angle (rad); with observability="full" the four numbers of CartPole
Action        see `jaxenv.envs.classic_control.cart_pole`
Reward        1 / time_limit for every step, the terminating one included
Starts        see `jaxenv.envs.classic_control.cart_pole`
Terminates    see `jaxenv.envs.classic_control.cart_pole`
Time limit    the option time_limit
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.canvas import Canvas
from jaxenv.core import Transition
from jaxenv.envs.classic_control.cart_pole import State as Pole
from jaxenv.envs.popgym.position_only_cart_pole import PositionOnlyCartPole


@tree.struct
class State:
    """Cart and pole, and whether the episode just started."""

    pole: Pole
    fresh: jax.Array  # bool[B]


class VelocityOnlyCartPole(PositionOnlyCartPole):
    """CartPole that shows velocities; the module docstring is the specification."""

    def initial(self, stream: random.Stream) -> Any:
        return State(super().initial(stream), jnp.ones(stream.shape, bool))

    def initial_bounds(self) -> Any:
        return None

    def transition(self, state: Any, action: jax.Array, stream: random.Stream) -> Transition:
        after = super().transition(state.pole, action, stream)
        return Transition(State(after.state, jnp.zeros_like(state.fresh)), after.reward, after.terminated)

    def observe(self, state: Any) -> jax.Array:
        pole = state.pole
        if self.is_full:
            return super().observe(pole)
        positions, velocities = jnp.stack([pole.x, pole.theta], -1), jnp.stack([pole.x_dot, pole.theta_dot], -1)
        return jnp.where(state.fresh[:, None], positions, velocities)

    def observation_spec(self) -> Any:
        return super().observation_spec() if self.is_full else specs.Array((2,), np.float32, "observation")

    def draw(self, state: Any, canvas: Canvas) -> Canvas:
        return super().draw(state.pole, canvas)
