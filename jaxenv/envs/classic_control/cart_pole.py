"""Balance a pole on a cart by pushing the cart left or right.

Reference: Gymnasium ``CartPole-v0`` and ``CartPole-v1`` (tests/envs/classic_control/test_cart_pole.py).
Physics: Barto, Sutton and Anderson (1983), doi:10.1109/TSMC.1983.6313077; Florian (2007), Euler integration.

Observation   float32[4]   cart position (m), velocity (m/s), pole angle (rad), rate (rad/s)
Action        int32        0 pushes left, 1 pushes right
Reward        1 for every step, the terminating one included; with sutton_barto_reward 0, and -1 on terminating
Starts        each component uniform in [-start_range, start_range]
Terminates    |position| > position_limit or |angle| > angle_limit
Time limit    500, CartPole-v0 200 (registry)

As in Gymnasium, the bounds of position and angle are twice the limits. With unusual params, such as a force of 1e6, a
step may exceed them.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.canvas import BLUE, BROWN, GREEN, GREY, INK, ORANGE, PAPER, SAND, Canvas, mix
from jaxenv.core import Range, Task, Transition, in_small_kernel, sin_cos


@tree.struct
class Params:
    """Physical constants: scalars, or ``[B]`` for one value per lane."""

    gravity: float = tree.leaf(default=9.8, unit="m/s^2")
    masscart: float = tree.leaf(default=1.0, unit="kg", above=0)
    masspole: float = tree.leaf(default=0.1, unit="kg", low=0)
    length: float = tree.leaf(default=0.5, unit="m", above=0, doc="half the length of the pole")
    force: float = tree.leaf(default=10.0, unit="N")
    tau: float = tree.leaf(default=0.02, unit="s", above=0, doc="duration of a step")
    start_range: float = tree.leaf(default=0.05, low=0, doc="of positions, velocities, angles and rates")

    @property
    def total_mass(self) -> float:
        return self.masscart + self.masspole

    @property
    def polemass_length(self) -> float:
        return self.masspole * self.length


@tree.struct
class State:
    """Positions and velocities of cart and pole, each float32 ``[B]``."""

    x: jax.Array  # m
    x_dot: jax.Array  # m/s
    theta: jax.Array  # rad, 0 is upright
    theta_dot: jax.Array  # rad/s


class CartPole(Task):
    """Pole balancing; the module docstring is the specification."""

    params: Params = Params()
    position_limit: float = tree.static(default=2.4, above=0, doc="distance from the centre that terminates, in m")
    angle_limit: float = tree.static(
        default=12 * 2 * math.pi / 360, above=0, doc="angle from upright at which the task terminates, in rad"
    )
    sutton_barto_reward: bool = tree.static(default=False, doc="whether the reward is 0, and -1 at the end, not 1")
    action_names = ("left", "right")
    play_fps = 20

    def check(self) -> None:
        # Starts must lie within the bounds of the observation.
        widest = 2 * min(self.position_limit, self.angle_limit)
        Range(high=widest).check(f"{self}", "start_range", self.params.start_range)

    def initial(self, stream: random.Stream) -> State:
        return State(*random.separate_uniforms(stream, 4, -self.params.start_range, self.params.start_range))

    def initial_bounds(self) -> tuple[tuple[Any, ...], tuple[Any, ...]] | None:
        reach = self.params.start_range
        return (-reach,) * 4, (reach,) * 4

    def transition(self, state: State, action: jax.Array, stream: random.Stream) -> Transition:
        state = in_small_kernel(_pushed, state, action, self.params)
        fallen = (jnp.abs(state.x) > self.position_limit) | (jnp.abs(state.theta) > self.angle_limit)
        reward = jnp.where(fallen, -1.0, 0.0) if self.sutton_barto_reward else jnp.ones_like(state.x)
        return Transition(state, reward, terminated=fallen)

    def observe(self, state: State) -> jax.Array:
        return jnp.stack([state.x, state.x_dot, state.theta, state.theta_dot], axis=-1)

    def observation_spec(self) -> specs.Bounded:
        high = np.array([2 * self.position_limit, np.inf, 2 * self.angle_limit, np.inf], np.float32)
        return specs.Bounded((4,), np.float32, -high, high, "observation")

    def action_spec(self) -> specs.Bounded:
        return specs.discrete(2, name="action")

    def draw(self, state: State, canvas: Canvas) -> Canvas:
        canvas = canvas.view((-self.position_limit, self.position_limit), (-0.7, 2.3), margin=0.02)
        canvas = canvas.zoom(self.params.length / 1.4)
        canvas = canvas.below(lambda x: 0 * x - 0.42, mix(PAPER, SAND, 0.6)).box(0, -0.42, 99, 0.06, BROWN)
        for end in (-self.position_limit, self.position_limit):
            canvas = canvas.box(end, -0.3, 0.1, 0.3, BROWN, corner=0.03)
        return draw_cart(canvas, state, self.angle_limit, self.params.length, ORANGE)


def _pushed(state: State, action: jax.Array, p: Params) -> State:
    return euler(state, jnp.where(action == 1, p.force, -p.force), p)


def euler(state: State, force: jax.Array, p: Params) -> State:
    """Advances the state by one step of Euler's method under ``force`` (N), float32 ``[B]``."""
    sin, cos = sin_cos(state.theta)
    push = (force + p.polemass_length * state.theta_dot**2 * sin) / p.total_mass
    theta_acc = (p.gravity * sin - cos * push) / (p.length * (4 / 3 - p.masspole * cos**2 / p.total_mass))
    x_acc = push - p.polemass_length * theta_acc * cos / p.total_mass
    return State(
        x=state.x + p.tau * state.x_dot,
        x_dot=state.x_dot + p.tau * x_acc,
        theta=state.theta + p.tau * state.theta_dot,
        theta_dot=state.theta_dot + p.tau * theta_acc,
    )


# --- the picture -----------------------------------------------------------------------------------------------------


def draw_cart(canvas: Canvas, state: State, limit: Any, half_length: Any, colour: Any) -> Canvas:
    """Paints the cart, its wheels on the line y = -0.4, and the pole in a colour, with arrows for the velocities.

    The angles up to ``limit`` on both sides of upright are marked.
    """
    x, y, length, up = state.x, 0.14, 2 * half_length, math.pi / 2
    canvas = canvas.sector(x, y, length + 0.12, up - limit, up + limit, mix(PAPER, GREEN, 0.25))
    canvas = canvas.box(state.x, -0.08, 1.0, 0.44, INK, corner=0.1)
    for side in (-0.28, 0.28):
        canvas = canvas.disc(state.x + side, -0.27, 0.13, GREY).disc(state.x + side, -0.27, 0.05, PAPER)
    ahead = jnp.clip(0.2 * state.x_dot, -0.4, 0.4)
    canvas = canvas.arrow(x - ahead, -0.1, x + ahead, -0.1, 0.1, PAPER)
    sin, cos = sin_cos(state.theta)
    canvas = canvas.line(x, y, x + length * sin, y + length * cos, 0.18, colour).disc(x, y, 0.06, PAPER)
    angle = up - state.theta
    return canvas.arc(x, y, length + 0.25, angle, angle - 0.2 * state.theta_dot, 0.08, BLUE, arrow=True)
