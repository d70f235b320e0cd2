"""Shared by the tests of bsuite's two pole tasks: translation and injection of the original's states."""

import numpy as np

from jaxenv.envs.bsuite._pole_task import Pole
from tests.packages import lazy

cartpole = lazy("bsuite.environments.cartpole")

# Steps that end closer than this to a threshold are not compared: each of the few roundings of a step in float32 has an
# error of up to 1.2e-7 for numbers near 3.
MARGIN = 2e-6
NUM_STEPS = 2000


def pole(env):
    """Cart and pole of the original, with the angle in [-pi, pi]."""
    x, x_dot, theta, theta_dot, _ = env._state
    theta = (theta + np.pi) % (2 * np.pi) - np.pi
    return Pole(np.float32(x), np.float32(x_dot), np.float32(theta), np.float32(theta_dot))


def steps(env):
    """The number of steps of the episode so far: int32."""
    return np.int32(round(env._state.time_elapsed / env._timescale))


def configure(env, **config):
    """The original with other physical constants, rounded to float32 like ours."""
    env._cartpole_config = env._cartpole_config._replace(**{k: float(np.float32(v)) for k, v in config.items()})
    return env


def place(env, rng, reach, num_steps):
    """Sets the original's cart and pole to a random state within ``reach``, after ``num_steps`` steps."""
    x, x_dot, theta, theta_dot = np.float32(rng.uniform(-1, 1, 4) * reach).astype(float)
    time = 0.0
    if num_steps:
        time = float(np.cumsum(np.full(num_steps, env._timescale))[-1])  # accumulated as in the original
    env._state = cartpole.CartpoleState(x, x_dot, theta, theta_dot, time)


def decided(found, distances):
    """The first `NUM_STEPS` steps whose numbers ``distances(step)`` from thresholds all exceed the margin."""
    away = [s for s in found if np.all(np.abs(distances(s)) > MARGIN) and np.pi - abs(s.after.pole.theta) > MARGIN]
    assert len(away) >= NUM_STEPS
    assert len(away) >= 0.99 * len(found), f"{len(found) - len(away)} of {len(found)} steps are too close to call"
    return away[:NUM_STEPS]
