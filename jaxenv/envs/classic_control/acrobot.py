"""Swing the free end of a two-link chain above a line, with a motor in the middle joint only.

Reference: Gymnasium ``Acrobot-v1`` (tests/envs/classic_control/test_acrobot.py).
Physics: Sutton (1996), NIPS 8, as corrected in Sutton and Barto's book. A step is one fourth-order Runge-Kutta step.

Observation   float32[6]   cos and sin of angle 1, cos and sin of angle 2 (relative to link 1), rates 1 and 2 (rad/s)
Action        int32        torque -1, 0 or 1 times ``torque`` (N m) on the middle joint
Reward        -1 for every step, 0 for the terminating one
Starts        hanging down, angles and rates uniform in [-start_range, start_range]
Terminates    -cos(angle 1) - cos(angle 1 + angle 2) > 1
Time limit    500 (registry)
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.canvas import BLUE, GOLD, GREEN, INK, ORANGE, PAPER, Canvas, mix, turn
from jaxenv.core import Range, Task, Transition, check_choice, clip, in_small_kernel, sin_cos, wrap_angle


@tree.struct
class Params:
    """Physical constants: scalars, or ``[B]`` for one value per lane."""

    gravity: float = tree.leaf(default=9.8, unit="m/s^2")
    length_1: float = tree.leaf(default=1.0, unit="m", above=0, doc="the upper link")
    mass_1: float = tree.leaf(default=1.0, unit="kg", above=0)
    mass_2: float = tree.leaf(default=1.0, unit="kg", above=0)
    com_1: float = tree.leaf(default=0.5, unit="m", low=0, doc="from the joint to the centre of mass")
    com_2: float = tree.leaf(default=0.5, unit="m", low=0)
    inertia: float = tree.leaf(default=1.0, unit="kg m^2", above=0, doc="of each link")
    torque: float = tree.leaf(default=1.0, unit="N m")
    dt: float = tree.leaf(default=0.2, unit="s", above=0, doc="duration of a step")
    start_range: float = tree.leaf(default=0.1, low=0, high=math.pi, doc="of angles and rates")


@tree.struct
class State:
    """Angles and angular rates of the two links, each float32 ``[B]``. Angles lie in [-pi, pi)."""

    theta_1: jax.Array  # rad, 0 is hanging down
    theta_2: jax.Array  # rad, relative to the upper link
    rate_1: jax.Array  # rad/s
    rate_2: jax.Array  # rad/s


class Acrobot(Task):
    """Two-link swing-up; the module docstring is the specification."""

    params: Params = Params()
    max_rate_1: float = tree.static(default=4 * math.pi, above=0, doc="bound on the rate of the upper link, in rad/s")
    max_rate_2: float = tree.static(default=9 * math.pi, above=0, doc="bound on the rate of the lower link, in rad/s")
    dynamics: str = tree.static(default="book", doc='``"book"`` as in Sutton and Barto, ``"nips"`` as in the paper')
    action_names = ("torque -1", "torque 0", "torque 1")
    play_fps = 10

    def check(self) -> None:
        check_choice(f"{self}", "dynamics", self.dynamics, ("book", "nips"))
        widest = min(self.max_rate_1, self.max_rate_2)
        Range(high=widest).check(f"{self}", "start_range", self.params.start_range)

    def initial(self, stream: random.Stream) -> State:
        return State(*random.separate_uniforms(stream, 4, -self.params.start_range, self.params.start_range))

    def initial_bounds(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        reach = self.params.start_range
        return (-reach,) * 4, (reach,) * 4

    def transition(self, state: State, action: jax.Array, stream: random.Stream) -> Transition:
        state, above = in_small_kernel(_swung, self, state, action)
        return Transition(state, reward=jnp.where(above, np.float32(0), np.float32(-1)), terminated=above)

    def observe(self, state: State) -> jax.Array:
        (sin_1, cos_1), (sin_2, cos_2) = sin_cos(state.theta_1), sin_cos(state.theta_2)
        return jnp.stack([cos_1, sin_1, cos_2, sin_2, state.rate_1, state.rate_2], axis=-1)

    def observation_spec(self) -> specs.Bounded:
        high = np.array([1, 1, 1, 1, self.max_rate_1, self.max_rate_2], np.float32)
        return specs.Bounded((6,), np.float32, -high, high, "observation")

    def action_spec(self) -> specs.Bounded:
        return specs.discrete(3, name="action")

    def draw(self, state: State, canvas: Canvas) -> Canvas:
        """Paints both links 1 m long, as in the condition of the goal: the tip is above the line at a height of 1 m."""
        canvas = canvas.view((-2, 2), (-2, 2), margin=0.04).box(0, 51, 999, 100, mix(PAPER, GREEN, 0.25))
        canvas = canvas.box(0, 1, 999, 0.06, GREEN)
        # Angles counterclockwise from the right.
        first, both = state.theta_1 - math.pi / 2, state.theta_1 + state.theta_2 - math.pi / 2
        x, y = turn(1.0, 0.0, first)
        tip_x, tip_y = (middle + end for middle, end in zip((x, y), turn(1.0, 0.0, both), strict=True))
        canvas = canvas.line(0, 0, x, y, 0.22, INK).line(x, y, tip_x, tip_y, 0.22, ORANGE)
        canvas = canvas.disc(0, 0, 0.06, PAPER).disc(x, y, 0.16, GOLD).disc(x, y, 0.06, PAPER)
        for joint_x, joint_y, angle, rate in ((0, 0, first, state.rate_1), (x, y, both, state.rate_1 + state.rate_2)):
            ahead = clip(0.2 * rate, -3, 3)
            canvas = canvas.arc(joint_x, joint_y, 0.45, angle, angle + ahead, 0.09, BLUE, arrow=True)
        return canvas


def _swung(env: Acrobot, state: State, action: jax.Array) -> tuple[State, jax.Array]:
    """Returns the state after a step, and whether the tip is above the line."""
    torque = (action - 1).astype(jnp.float32) * env.params.torque
    state = _runge_kutta(lambda s: _derivative(s, torque, env.params, env.dynamics), state, env.params.dt)
    rate_1, rate_2 = (clip(x, -y, y) for x, y in ((state.rate_1, env.max_rate_1), (state.rate_2, env.max_rate_2)))
    state = State(wrap_angle(state.theta_1), wrap_angle(state.theta_2), rate_1, rate_2)
    return state, -sin_cos(state.theta_1)[1] - sin_cos(state.theta_1 + state.theta_2)[1] > 1


def _derivative(s: State, torque: jax.Array, p: Params, dynamics: str) -> State:
    sin_2, cos_2 = sin_cos(s.theta_2)
    coupling = p.mass_2 * p.length_1 * p.com_2
    d_1 = p.mass_1 * p.com_1**2 + p.mass_2 * (p.length_1**2 + p.com_2**2) + 2 * coupling * cos_2 + 2 * p.inertia
    d_2 = p.mass_2 * p.com_2**2 + coupling * cos_2 + p.inertia
    phi_2 = p.mass_2 * p.com_2 * p.gravity * sin_cos(s.theta_1 + s.theta_2)[0]
    phi_1 = (
        -coupling * s.rate_2 * (s.rate_2 + 2 * s.rate_1) * sin_2
        + (p.mass_1 * p.com_1 + p.mass_2 * p.length_1) * p.gravity * sin_cos(s.theta_1)[0]
        + phi_2
    )
    centrifugal = coupling * s.rate_1**2 * sin_2 if dynamics == "book" else np.float32(0)
    numerator = torque + d_2 / d_1 * phi_1 - centrifugal - phi_2
    acceleration_2 = numerator / (p.mass_2 * p.com_2**2 + p.inertia - d_2**2 / d_1)
    acceleration_1 = -(d_2 * acceleration_2 + phi_1) / d_1
    return State(s.rate_1, s.rate_2, acceleration_1, acceleration_2)


def _runge_kutta(derivative: Callable[[State], State], state: State, dt: Any) -> State:
    def advanced(k: State, h: jax.Array) -> State:
        return jax.tree.map(lambda x, v: x + h * v, state, k)

    k1 = derivative(state)
    k2 = derivative(advanced(k1, dt / 2))
    k3 = derivative(advanced(k2, dt / 2))
    k4 = derivative(advanced(k3, dt))
    return jax.tree.map(lambda x, a, b, c, d: x + dt / 6 * (a + 2 * b + 2 * c + d), state, k1, k2, k3, k4)
