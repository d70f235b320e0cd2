"""Swing a pendulum up and hold it upright with a torque too weak to lift it in one swing.

Reference: Gymnasium ``Pendulum-v1`` (tests/envs/classic_control/test_pendulum.py).

Observation   float32[3]   cos(angle), sin(angle), rate (rad/s); angle 0 is upright
Action        float32[1]   torque (N m) in [-max_torque, max_torque], clipped
Reward        -(angle^2 + 0.1 * rate^2 + 0.001 * torque^2) of the state before the step, angle in [-pi, pi)
Starts        angle uniform in [-start_angle, start_angle], rate uniform in [-start_rate, start_rate]
Terminates    never
Time limit    200 (registry)
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.canvas import BLUE, GREEN, INK, ORANGE, PAPER, Canvas, turn
from jaxenv.core import Range, Task, Transition, clip, in_small_kernel, sin_cos, wrap_angle


@tree.struct
class Params:
    """Physical constants: scalars, or ``[B]`` for one value per lane."""

    gravity: float = tree.leaf(default=10.0, unit="m/s^2")
    mass: float = tree.leaf(default=1.0, unit="kg", above=0)
    length: float = tree.leaf(default=1.0, unit="m", above=0)
    dt: float = tree.leaf(default=0.05, unit="s", above=0, doc="duration of a step")
    start_angle: float = tree.leaf(default=math.pi, unit="rad", low=0, high=math.pi)
    start_rate: float = tree.leaf(default=1.0, unit="rad/s", low=0)


@tree.struct
class State:
    """Angle and angular rate, each float32 ``[B]``. The angle stays in [-pi, pi) to keep its precision."""

    theta: jax.Array  # rad, 0 is upright
    theta_dot: jax.Array  # rad/s


class Pendulum(Task):
    """Pendulum swing-up; the module docstring is the specification."""

    finite_observation = True
    smooth = True
    params: Params = Params()
    max_speed: float = tree.static(default=8.0, above=0, doc="bound on the angular rate, in rad/s")
    max_torque: float = tree.static(default=2.0, above=0, doc="bound on the torque, in N m")
    action_names = ("torque",)
    play_fps = 20

    def check(self) -> None:
        Range(high=self.max_speed).check(f"{self}", "start_rate", self.params.start_rate)

    def initial(self, stream: random.Stream) -> State:
        angle, rate = random.separate_uniforms(stream, 2, -1, 1)
        return State(wrap_angle(angle * self.params.start_angle), rate * self.params.start_rate)

    def initial_bounds(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        angle, rate = self.params.start_angle, self.params.start_rate
        return (-angle, -rate), (angle, rate)

    def transition(self, state: State, action: jax.Array, stream: random.Stream) -> Transition:
        torque = clip(action[:, 0], -self.max_torque, self.max_torque)
        cost = state.theta**2 + 0.1 * state.theta_dot**2 + 0.001 * torque**2
        state = in_small_kernel(_advance, state, torque, self.max_speed, self.params)
        return Transition(state, reward=-cost, terminated=jnp.zeros_like(cost, bool))

    def observe(self, state: State) -> jax.Array:
        sin, cos = sin_cos(state.theta)
        return jnp.stack([cos, sin, state.theta_dot], axis=-1)

    def observation_spec(self) -> specs.Bounded:
        high = np.array([1, 1, self.max_speed], np.float32)
        return specs.Bounded((3,), np.float32, -high, high, "observation")

    def action_spec(self) -> specs.Bounded:
        return specs.Bounded((1,), np.float32, -self.max_torque, self.max_torque, "action")

    def draw(self, state: State, canvas: Canvas) -> Canvas:
        """Paints the pendulum, a mark where upright is, and an arrow for the rate."""
        length, angle = self.params.length, math.pi / 2 + state.theta
        canvas = canvas.view((-1.35, 1.35), (-1.35, 1.35)).zoom(length)
        canvas = canvas.line(0, length + 0.17, 0, length + 0.27, 0.08, GREEN)
        x, y = turn(length, 0.0, angle)
        canvas = canvas.line(0, 0, x, y, 0.2, ORANGE).disc(0, 0, 0.16, INK).disc(0, 0, 0.06, PAPER)
        return canvas.arc(0, 0, 0.5 * length, angle, angle + 0.2 * state.theta_dot, 0.09, BLUE, arrow=True)


def _advance(state: State, torque: jax.Array, max_speed: float, p: Params) -> State:
    sin, _ = sin_cos(state.theta)
    acceleration = 3 * p.gravity / (2 * p.length) * sin + 3 / (p.mass * p.length**2) * torque
    theta_dot = clip(state.theta_dot + acceleration * p.dt, -max_speed, max_speed)
    return State(wrap_angle(state.theta + theta_dot * p.dt), theta_dot)
