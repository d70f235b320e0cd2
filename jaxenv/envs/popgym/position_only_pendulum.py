"""Swing a pendulum up and hold it upright without observing its rate.

Reference: POPGym 1.0.7 ``PositionOnlyPendulum``, ``NoisyPositionOnlyPendulum`` (tests/envs/popgym/test_parity.py).
Paper: Morad et al. (2023), "POPGym: Benchmarking Partially Observable Reinforcement Learning", arXiv:2303.01859.

Observation   float32[2]   cos(angle), sin(angle), in the noisy task each with normal noise, clipped to [-1, 1]; with
                           observability="full" the three numbers of Pendulum without noise
Action        see `jaxenv.envs.classic_control.pendulum`
Reward        (1 + r / 8.1368022) / time_limit with the reward r of Pendulum, so that returns lie in [-1, 1]
Starts        see `jaxenv.envs.classic_control.pendulum`
Terminates    never
Time limit    the option time_limit
"""

from typing import Any

import jax
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.core import Transition
from jaxenv.envs.classic_control import pendulum
from jaxenv.envs.popgym._partly_observed import Noisy, PartlyObserved

_HALF = 16.2736044 / 2  # of the range of Pendulum's reward


class PositionOnlyPendulum(PartlyObserved, pendulum.Pendulum):
    """Pendulum that shows its angle; the module docstring is the specification."""

    time_limit: int = tree.static(default=200, low=1, doc="steps of an episode")

    def transition(self, state: Any, action: jax.Array, stream: random.Stream) -> Transition:
        after = super().transition(state, action, stream)
        reward = (after.reward + np.float32(_HALF)) * np.float32(1 / (_HALF * self.time_limit))
        return Transition(after.state, reward, after.terminated)

    def observe(self, state: Any) -> jax.Array:
        full = super().observe(state)
        return full if self.is_full else full[:, :2]

    def observation_spec(self) -> specs.Bounded:
        return super().observation_spec() if self.is_full else specs.Bounded((2,), np.float32, -1, 1, "observation")


@tree.struct
class Params(pendulum.Params):
    """Physical constants and noise: scalars, or ``[B]`` for one value per lane."""

    noise_sigma: float = tree.leaf(default=0.1, low=0, doc="standard deviation of the noise of both numbers")


class NoisyPositionOnlyPendulum(Noisy, PositionOnlyPendulum):
    """Pendulum that shows its angle with noise; the module docstring is the specification."""

    params: Params = Params()
