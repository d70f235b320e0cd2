"""What is particular to single tasks of gymnax 1.0.1, by id: for `jaxenv.suites.gymnax`."""

from collections.abc import Callable
from typing import Any

import numpy as np

# Of which original task the horizon is the end, which gymnax reports as a truncation.
HORIZON_ENDS = (
    *("DiscountingChain-bsuite", "Freeway-MinAtar"),
    *("BernoulliBandit-misc", "GaussianBandit-misc", "MetaMaze-misc"),
)
# Fields of the state that outlive an episode in bsuite. gymnax carries those of DeepSea only, and draws the bandit's
# arms anew at every step, so that nothing could be learned. Numbers, which are shown in env_info:
COUNTERS: dict[str, tuple[str, ...]] = {
    "DeepSea-bsuite": ("total_bad_episodes", "denoised_return"),
    "MemoryChain-bsuite": ("total_perfect", "total_regret"),
    "MNISTBandit-bsuite": ("regret",),
    "SimpleBandit-bsuite": ("total_regret",),
    "UmbrellaChain-bsuite": ("total_regret",),
}
# And what is hidden.
CARRIED: dict[str, tuple[str, ...]] = {"SimpleBandit-bsuite": ("rewards",)}
# Where all episodes start alike unless one of these params is true.
ALIKE: dict[str, tuple[str, ...]] = {
    "Asterix-MinAtar": (),
    "DeepSea-bsuite": ("sample_action_map",),
    "DiscountingChain-bsuite": (),
    "FourRooms-misc": ("resample_init_pos", "resample_goal_pos"),
    "FrozenLake-misc": (),
    "Pong-misc": (),
    "Seaquest-MinAtar": (),
    "SpaceInvaders-MinAtar": (),
}
# Where a loop runs until the last lane is through, so that devices must ask each other.
LOOPING = ("Asterix-MinAtar",)
# Params that gymnax stores although others determine them.
DERIVED: dict[str, dict[str, Callable[[dict], Any]]] = {
    "CartPole-v1": {
        "total_mass": lambda p: p["masscart"] + p["masspole"],
        "polemass_length": lambda p: p["masspole"] * p["length"],
    }
}
# Params that a spec shows: options, because neither traced numbers nor those of one lane may move a spec.
SHOWN = {
    "CartPole-v1": ("theta_threshold_radians", "x_threshold"),
    "Pendulum-v1": ("max_speed", "max_torque"),
    "Acrobot-v1": ("max_vel_1", "max_vel_2"),
    "MountainCar-v0": ("min_position", "max_position", "max_speed"),
    "MountainCarContinuous-v0": ("min_action", "max_action", "min_position", "max_position", "max_speed"),
    "PointRobot-misc": ("max_force",),
}
_ANY = (-np.inf, np.inf)
# Elements of observations that leave the space which gymnax declares: index, lowest and highest number.
BOUNDS: dict[str, list[tuple[Any, tuple[float, float]]]] = {
    "MemoryChain-bsuite": [(0, (-1e-6, 1)), (slice(2, None), (-1, 1))],  # the context is shown as -1 or 1
    "UmbrellaChain-bsuite": [(2, (-1e-6, 1))],  # the time that is left rounds to less than 0
    "DiscountingChain-bsuite": [(1, (0, np.inf))],  # the time, in units of a limit that need not be there
    "MNISTBandit-bsuite": [(..., (-0.51, 1))],  # pixels are read as signed bytes
    "MetaMaze-misc": [(-2, _ANY), (-1, _ANY)],  # the last reward, in whatever size; the time, normalised or not
    "BernoulliBandit-misc": [(-1, _ANY)],  # the time
    "GaussianBandit-misc": [(0, _ANY), (-1, _ANY)],  # the last reward, which is normal; the time
}
# Where gymnax keeps MNIST, which it downloads if a file is missing.
MNIST_FILES = [f"/tmp/mnist/{of}-ubyte.gz" for of in ("train-images-idx3", "train-labels-idx1")]
MNIST_FILES += [f"/tmp/mnist/{of}-ubyte.gz" for of in ("t10k-images-idx3", "t10k-labels-idx1")]
