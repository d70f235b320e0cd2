"""Balance a pole on a cart by pushing the cart left or right, or not at all: bsuite's version of the task.

Reference: bsuite 0.3.6, ``environments/cartpole.py`` (tests/envs/bsuite/test_cart_pole.py).
Paper: Osband et al. (2020), "Behaviour Suite for Reinforcement Learning", arXiv:1908.03568. Physics: Barto, Sutton
and Anderson (1983), doi:10.1109/TSMC.1983.6313077, Euler integration.

Observation   float32[1, 6]   cart position and velocity over x_threshold, sine and cosine of the pole's angle,
                              its rate (rad/s), time since the start over max_time
Action        int32           0 pushes left, 1 does not push, 2 pushes right
Reward        1 while the pole stands and the cart is on its track, else 0
Starts        position, velocity, angle and rate uniform in [-init_range, init_range]
Terminates    with a reward of 0, or once time > max_time, step 1001: to bsuite that is an end of the task, too
Time limit    none
env_info      raw_return: float32, sum of all rewards; best_episode: float32, highest return of an episode that ended;
              both outlive episodes
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv._checks import is_concrete
from jaxenv._numeric import sin_cos
from jaxenv.envs.classic_control.cart_pole import Params as Physics
from jaxenv.envs.classic_control.cart_pole import State as Pole
from jaxenv.envs.classic_control.cart_pole import accelerations
from jaxenv.task import Task, Transition


@tree.struct
class Params:
    """Numbers of the physics and of the task: scalars, or ``[B]`` for one value per lane."""

    gravity: float = 9.8  # m/s^2
    mass_cart: float = 1.0  # kg
    mass_pole: float = 0.1  # kg
    length: float = 0.5  # m, half the pole
    force: float = 10.0  # N
    height_threshold: float = 0.8  # the pole stands while the cosine of its angle is above
    x_threshold: float = 3.0  # m
    init_range: float = 0.05


@tree.struct
class State:
    """Rewards are counted in integers: they add up exactly, however long a lane lives."""

    pole: Pole
    steps: jax.Array  # int32[B], of this episode
    total_reward: jax.Array  # int32[B], of all episodes
    best_episode: jax.Array  # int32[B]


class CartPole(Task):
    """bsuite's pole balancing; see the module.

    Attributes:
        timescale: s between two steps.
        max_time: s.
    """

    params: Params = Params()
    timescale: float = tree.static(default=0.01)
    max_time: float = tree.static(default=10.0)

    def check(self):
        check_numbers(self)

    def initial(self, stream):
        reach, zero = self.params.init_range, jnp.zeros(stream.shape, jnp.int32)
        return State(Pole(*random.separate_uniforms(stream, 4, -reach, reach)), zero, zero, zero)

    def initial_bounds(self):
        reach = self.params.init_range
        return (*(-reach,) * 4, 0, 0, 0), (*(reach,) * 4, 0, 0, 0)

    def carry(self, old, new):
        return tree.rebuild(new, total_reward=old.total_reward, best_episode=old.best_episode)

    def transition(self, state, action, stream):
        pole = push(state.pole, action, self.timescale, self.params)
        _, cos = sin_cos(pole.theta)
        stands = (cos > self.params.height_threshold) & (jnp.abs(pole.x) < self.params.x_threshold)
        reward = stands.astype(jnp.int32)
        steps = state.steps + 1
        ended = ~stands | (steps >= last_step(self.timescale, self.max_time))
        # Every earlier step was rewarded, or the episode would have ended with it.
        best = jnp.where(ended, jnp.maximum(state.best_episode, state.steps + reward), state.best_episode)
        after = State(pole, steps, state.total_reward + reward, best)
        return Transition(after, reward.astype(jnp.float32), terminated=ended)

    def state_info(self, state):
        return {
            "raw_return": state.total_reward.astype(jnp.float32),
            "best_episode": state.best_episode.astype(jnp.float32),
        }

    def observe(self, state):
        return jnp.stack(columns(self, state.pole, state.steps), axis=-1)[:, None]

    def observation_spec(self):
        low, high = column_bounds(self)
        return specs.Bounded((1, 6), np.float32, np.array([low]), np.array([high]), "observation")

    def action_spec(self):
        return specs.discrete(3, name="action")


# --- what the swing-up shares ----------------------------------------------------------------------------------------


def push(pole: Pole, action: jax.Array, timescale: float, p) -> Pole:
    """Cart and pole one step later. The angle is kept within [-pi, pi], where float32 is finest about upright."""
    force = (action - 1).astype(jnp.float32) * p.force
    physics = Physics(gravity=p.gravity, masscart=p.mass_cart, masspole=p.mass_pole, length=p.length)
    x_acc, theta_acc = accelerations(pole, force, physics)
    return Pole(
        x=pole.x + timescale * pole.x_dot,
        x_dot=pole.x_dot + timescale * x_acc,
        theta=_within_a_turn(pole.theta + timescale * pole.theta_dot),
        theta_dot=pole.theta_dot + timescale * theta_acc,
    )


def columns(env, pole: Pole, steps: jax.Array) -> list[jax.Array]:
    """The six numbers of an observation, each float32 ``[B]``."""
    sin, cos = sin_cos(pole.theta)
    scale = env.params.x_threshold
    time = steps.astype(jnp.float32) * np.float32(env.timescale / env.max_time)
    return [pole.x / scale, pole.x_dot / scale, sin, cos, pole.theta_dot, time]


def column_bounds(env) -> tuple[list[float], list[float]]:
    """The least and the greatest values of `columns`."""
    last_time = np.float32(last_step(env.timescale, env.max_time)) * np.float32(env.timescale / env.max_time)
    return [-np.inf, -np.inf, -1, -1, -np.inf, 0], [np.inf, np.inf, 1, 1, np.inf, float(last_time)]


@functools.cache
def last_step(timescale: float, max_time: float) -> int:
    """The step with which the time is above ``max_time``, if it is added up in float64 as bsuite does.

    The sum of 1000 times 0.01 is below 10, that of 3 times 0.1 is above 0.3.
    """
    times = np.cumsum(np.full(int(max_time / timescale) + 2, timescale))
    return int(np.argmax(times > max_time)) + 1


def check_numbers(env) -> None:
    """Raises a ``ValueError`` unless there is a cart with a pole, and an episode of at most ten million steps."""
    for name in ("length", "mass_cart", "x_threshold", "mass_pole", "init_range"):
        value = getattr(env.params, name)
        if not is_concrete(value):
            continue
        value = np.asarray(value)[()]
        if name in ("mass_pole", "init_range"):
            if np.any(value < 0):
                raise ValueError(f"{env}: {name} must be at least 0, got {value}")
        elif np.any(value <= 0):
            raise ValueError(f"{env}: {name} must be positive, got {value}")
    for name in ("timescale", "max_time"):
        value = getattr(env, name)
        if not (isinstance(value, int | float) and 0 < value < np.inf):
            raise ValueError(f"{env}: {name} must be positive and finite, got {value!r}")
    if env.max_time / env.timescale > 1e7:
        raise ValueError(f"{env}: max_time must be at most 1e7 timescales, got {env.max_time} of {env.timescale}")


def _within_a_turn(angle: jax.Array) -> jax.Array:
    # A turn in two parts: products of the first with small whole numbers are exact.
    turns = jnp.round(angle * np.float32(1 / (2 * np.pi)))
    return (angle - turns * np.float32(6.28125)) - turns * np.float32(2 * np.pi - 6.28125)
