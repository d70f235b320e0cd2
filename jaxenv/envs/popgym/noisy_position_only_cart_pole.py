"""Balance a pole on a cart while observing noisy positions only.

Reference: POPGym 1.0.7 ``NoisyPositionOnlyCartPole`` (tests/envs/popgym/test_parity.py).
Paper: Morad et al. (2023), "POPGym: Benchmarking Partially Observable Reinforcement Learning", arXiv:2303.01859.

Observation   float32[2]   cart position (m), pole angle (rad), each with normal noise, clipped to the bounds; with
                           observability="full" the four numbers of CartPole without noise
Action        see `jaxenv.envs.classic_control.cart_pole`
Reward        1 / time_limit for every step, the terminating one included
Starts        see `jaxenv.envs.classic_control.cart_pole`
Terminates    see `jaxenv.envs.classic_control.cart_pole`
Time limit    the option time_limit
"""

from jaxenv import tree
from jaxenv.envs.classic_control import cart_pole
from jaxenv.envs.popgym._partly_observed import Noisy
from jaxenv.envs.popgym.position_only_cart_pole import PositionOnlyCartPole


@tree.struct
class Params(cart_pole.Params):
    """Physical constants and noise: scalars, or ``[B]`` for one value per lane."""

    noise_sigma: float = tree.leaf(default=0.1, low=0, doc="standard deviation of the noise of both numbers")


class NoisyPositionOnlyCartPole(Noisy, PositionOnlyCartPole):
    """CartPole that shows noisy positions; the module docstring is the specification."""

    params: Params = Params()
