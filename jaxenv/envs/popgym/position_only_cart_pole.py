"""Balance a pole on a cart without observing velocities.

Reference: POPGym 1.0.7 ``PositionOnlyCartPole``, ``NoisyPositionOnlyCartPole`` (tests/envs/popgym/test_parity.py).
Paper: Morad et al. (2023), "POPGym: Benchmarking Partially Observable Reinforcement Learning", arXiv:2303.01859.

Observation   float32[2]   cart position (m), pole angle (rad), in the noisy task each with normal noise, clipped to the
                           bounds; with observability="full" the four numbers of CartPole without noise
Action        see `jaxenv.envs.classic_control.cart_pole`
Reward        1 / time_limit for every step, the terminating one included
Starts        see `jaxenv.envs.classic_control.cart_pole`
Terminates    see `jaxenv.envs.classic_control.cart_pole`
Time limit    the option time_limit
"""

from typing import Any

import jax
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.core import Transition
from jaxenv.envs.classic_control import cart_pole
from jaxenv.envs.popgym._partly_observed import Noisy, PartlyObserved


class PositionOnlyCartPole(PartlyObserved, cart_pole.CartPole):
    """CartPole that shows positions; the module docstring is the specification."""

    time_limit: int = tree.static(default=200, low=1, doc="steps of an episode")

    def transition(self, state: Any, action: jax.Array, stream: random.Stream) -> Transition:
        after = super().transition(state, action, stream)
        return Transition(after.state, after.reward * np.float32(1 / self.time_limit), after.terminated)

    def observe(self, state: Any) -> jax.Array:
        full = super().observe(state)
        return full if self.is_full else full[:, ::2]

    def observation_spec(self) -> specs.Bounded:
        full = super().observation_spec()
        if self.is_full:
            return full
        return specs.Bounded((2,), np.float32, full.minimum[::2], full.maximum[::2], "observation")


@tree.struct
class Params(cart_pole.Params):
    """Physical constants and noise: scalars, or ``[B]`` for one value per lane."""

    noise_sigma: float = tree.leaf(default=0.1, low=0, doc="standard deviation of the noise of both numbers")


class NoisyPositionOnlyCartPole(Noisy, PositionOnlyCartPole):
    """CartPole that shows noisy positions; the module docstring is the specification."""

    params: Params = Params()
