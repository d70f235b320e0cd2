"""Swing a pendulum up and hold it upright while observing its angle with noise.

Reference: POPGym 1.0.7 ``NoisyPositionOnlyPendulum`` (tests/envs/popgym/test_parity.py).
Paper: Morad et al. (2023), "POPGym: Benchmarking Partially Observable Reinforcement Learning", arXiv:2303.01859.

Observation   float32[2]   cos(angle), sin(angle), each with normal noise, clipped to [-1, 1]; with observability="full"
                           the three numbers of Pendulum without noise
Action        see `jaxenv.envs.classic_control.pendulum`
Reward        (1 + r / 8.1368022) / time_limit with the reward r of Pendulum, so that returns lie in [-1, 1]
Starts        see `jaxenv.envs.classic_control.pendulum`
Terminates    never
Time limit    the option time_limit
"""

from jaxenv import tree
from jaxenv.envs.classic_control import pendulum
from jaxenv.envs.popgym._partly_observed import Noisy
from jaxenv.envs.popgym.position_only_pendulum import PositionOnlyPendulum


@tree.struct
class Params(pendulum.Params):
    """Physical constants and noise: scalars, or ``[B]`` for one value per lane."""

    noise_sigma: float = tree.leaf(default=0.1, low=0, doc="standard deviation of the noise of both numbers")


class NoisyPositionOnlyPendulum(Noisy, PositionOnlyPendulum):
    """Pendulum that shows its angle with noise; the module docstring is the specification."""

    params: Params = Params()
