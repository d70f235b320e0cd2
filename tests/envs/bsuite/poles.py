"""What the tests of bsuite's two cart-pole tasks share: states of the original in our arrays, states to step from."""

import numpy as np
from bsuite.environments.cartpole import CartpoleState

from jaxenv.envs.bsuite.cart_pole import Pole

# Steps after which a number stands nearer than this to a threshold are not compared: in float32 a number near 3 is off
# by up to 1.2e-7 a rounding, and a step makes a handful of them.
MARGIN = 2e-6
NUM_STEPS = 2000


def pole(env):
    """Cart and pole of the original, the angle in [-pi, pi]."""
    x, x_dot, theta, theta_dot, _ = env._state
    theta = (theta + np.pi) % (2 * np.pi) - np.pi
    return Pole(np.float32(x), np.float32(x_dot), np.float32(theta), np.float32(theta_dot))


def steps(env):
    """How many steps the episode has had: int32."""
    return np.int32(round(env._state.time_elapsed / env._timescale))


def configure(env, **config):
    """The original with other numbers of the physics, rounded to float32 as ours are."""
    env._cartpole_config = env._cartpole_config._replace(**{k: float(np.float32(v)) for k, v in config.items()})
    return env


def stand(env, rng, reach, num_steps):
    """Puts the original's cart and pole anywhere within ``reach``, after ``num_steps`` steps of the episode."""
    x, x_dot, theta, theta_dot = np.float32(rng.uniform(-1, 1, 4) * reach).astype(float)
    time = 0.0
    if num_steps:
        time = float(np.cumsum(np.full(num_steps, env._timescale))[-1])  # one after the other, as the original adds
    env._state = CartpoleState(x, x_dot, theta, theta_dot, time)


def decided(found, judged):
    """The first `NUM_STEPS` steps whose numbers ``judged(step)`` all stand away from 0."""
    away = [s for s in found if np.all(np.abs(judged(s)) > MARGIN) and np.pi - abs(s.after.pole.theta) > MARGIN]
    assert len(away) >= NUM_STEPS
    assert len(away) >= 0.99 * len(found), f"{len(found) - len(away)} of {len(found)} steps are too close to call"
    return away[:NUM_STEPS]
