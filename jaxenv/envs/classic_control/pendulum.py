"""Swing a pendulum up and hold it there with a torque that is too weak to lift it in one go.

Reference: Gymnasium ``Pendulum-v1`` (tests/envs/classic_control/test_pendulum.py).

Observation   float32[3]   cos(angle), sin(angle), rate (rad/s); angle 0 is upright
Action        float32[1]   torque (N m) in [-max_torque, max_torque], clipped
Reward        -(angle^2 + 0.1 * rate^2 + 0.001 * torque^2), of the state before the step, angle in [-pi, pi)
Starts        angle uniform in [-start_angle, start_angle], rate in [-start_rate, start_rate]
Terminates    never
Time limit    200 (registry)
"""

import math

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv._numeric import clip, sin_cos
from jaxenv.task import Task, Transition


@tree.struct
class Params:
    """Numbers of the physics: scalars, or ``[B]`` for one value per lane."""

    gravity: float = 10.0  # m/s^2
    mass: float = 1.0  # kg
    length: float = 1.0  # m
    dt: float = 0.05  # s between two steps
    start_angle: float = math.pi
    start_rate: float = 1.0


@tree.struct
class State:
    """The pendulum, each float32 ``[B]``. The angle is kept in [-pi, pi), so that long episodes lose no precision."""

    theta: jax.Array  # rad, 0 is upright
    theta_dot: jax.Array  # rad/s


class Pendulum(Task):
    """Pendulum swing-up; see the module."""

    finite_observation = True
    smooth = True
    params: Params = Params()
    max_speed: float = tree.static(default=8.0)
    max_torque: float = tree.static(default=2.0)

    def initial(self, stream):
        angle, rate = random.separate_uniforms(stream, 2, -1, 1)
        return State(_wrap(angle * self.params.start_angle), rate * self.params.start_rate)

    def initial_bounds(self):
        angle, rate = self.params.start_angle, self.params.start_rate
        return (-angle, -rate), (angle, rate)

    def transition(self, state, action, stream):
        p = self.params
        torque = clip(action[:, 0], -self.max_torque, self.max_torque)
        cost = state.theta**2 + 0.1 * state.theta_dot**2 + 0.001 * torque**2
        sin, _ = sin_cos(state.theta)
        push = 3 * p.gravity / (2 * p.length) * sin + 3 / (p.mass * p.length**2) * torque
        theta_dot = clip(state.theta_dot + push * p.dt, -self.max_speed, self.max_speed)
        theta = _wrap(state.theta + theta_dot * p.dt)
        return Transition(State(theta, theta_dot), reward=-cost, terminated=jnp.zeros_like(cost, bool))

    def observe(self, state):
        sin, cos = sin_cos(state.theta)
        return jnp.stack([cos, sin, state.theta_dot], axis=-1)

    def observation_spec(self):
        high = np.array([1, 1, self.max_speed], np.float32)
        return specs.Bounded((3,), np.float32, -high, high, "observation")

    def action_spec(self):
        return specs.Bounded((1,), np.float32, -self.max_torque, self.max_torque, "action")


def _wrap(angle: jax.Array) -> jax.Array:
    """The same angle in [-pi, pi), for angles a few turns away."""
    return angle - 2 * math.pi * jnp.floor((angle + math.pi) / (2 * math.pi))
