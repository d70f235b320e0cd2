"""Facts about single tasks of gymnax 1.0.1, by id."""

from collections.abc import Callable
from typing import Any

import numpy as np

# Tasks whose horizon is part of the original task. gymnax reports a truncation there.
TERMINAL_HORIZON = (
    *("DiscountingChain-bsuite", "Freeway-MinAtar"),
    *("BernoulliBandit-misc", "GaussianBandit-misc", "MetaMaze-misc"),
)
# Fields of the state that outlive episodes in bsuite. gymnax keeps only DeepSea's, and redraws the arms of the bandit
# at every step, so that nothing can be learned. COUNTERS are numbers, which env_info shows.
COUNTERS: dict[str, tuple[str, ...]] = {
    "DeepSea-bsuite": ("total_bad_episodes", "denoised_return"),
    "MemoryChain-bsuite": ("total_perfect", "total_regret"),
    "MNISTBandit-bsuite": ("regret",),
    "SimpleBandit-bsuite": ("total_regret",),
    "UmbrellaChain-bsuite": ("total_regret",),
}
CARRIED: dict[str, tuple[str, ...]] = {"SimpleBandit-bsuite": ("rewards",)}
# Tasks whose episodes all start in the same state unless one of these params is true.
CONSTANT_START: dict[str, tuple[str, ...]] = {
    "Asterix-MinAtar": (),
    "DeepSea-bsuite": ("sample_action_map",),
    "DiscountingChain-bsuite": (),
    "FourRooms-misc": ("resample_init_pos", "resample_goal_pos"),
    "FrozenLake-misc": (),
    "Pong-misc": (),
    "Seaquest-MinAtar": (),
    "SpaceInvaders-MinAtar": (),
}
# Tasks with a loop that runs until the last lane has finished, which needs cross-device communication.
LOOPING = ("Asterix-MinAtar",)
# Params that gymnax stores although they are determined by others.
DERIVED: dict[str, dict[str, Callable[[dict[str, Any]], Any]]] = {
    "CartPole-v1": {
        "total_mass": lambda p: p["masscart"] + p["masspole"],
        "polemass_length": lambda p: p["masspole"] * p["length"],
    }
}
# Params that determine a spec. They are options, because a spec cannot depend on tracers or on values per lane.
SPEC_PARAMS = {
    "CartPole-v1": ("theta_threshold_radians", "x_threshold"),
    "Pendulum-v1": ("max_speed", "max_torque"),
    "Acrobot-v1": ("max_vel_1", "max_vel_2"),
    "MountainCar-v0": ("min_position", "max_position", "max_speed"),
    "MountainCarContinuous-v0": ("min_action", "max_action", "min_position", "max_position", "max_speed"),
    "PointRobot-misc": ("max_force",),
}
_ANY = (-np.inf, np.inf)
# Elements of observations that exceed the space declared by gymnax: index, minimum and maximum.
BOUNDS: dict[str, list[tuple[Any, tuple[float, float]]]] = {
    "MemoryChain-bsuite": [(0, (-1e-6, 1)), (slice(2, None), (-1, 1))],  # the context consists of -1 and 1
    "UmbrellaChain-bsuite": [(2, (-1e-6, 1))],  # the remaining time rounds to a number below 0
    "DiscountingChain-bsuite": [(1, (0, np.inf))],  # the time, relative to a limit that may be absent
    "MNISTBandit-bsuite": [(..., (-0.51, 1))],  # pixels are read as signed bytes
    "MetaMaze-misc": [(-2, _ANY), (-1, _ANY)],  # the last reward; the time, normalized or not
    "BernoulliBandit-misc": [(-1, _ANY)],  # the time
    "GaussianBandit-misc": [(0, _ANY), (-1, _ANY)],  # the last reward, which is normal; the time
}
# The files of MNIST, which gymnax downloads if one is missing.
MNIST_FILES = [f"/tmp/mnist/{of}-ubyte.gz" for of in ("train-images-idx3", "train-labels-idx1")]
MNIST_FILES += [f"/tmp/mnist/{of}-ubyte.gz" for of in ("t10k-images-idx3", "t10k-labels-idx1")]
