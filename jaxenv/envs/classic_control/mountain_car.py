"""Drive an underpowered car out of a valley with three actions: push left, push right, coast.

Reference: Gymnasium ``MountainCar-v0`` (tests/envs/classic_control/test_mountain_car.py).
Physics: Moore (1990), "Efficient Memory-based Learning for Robot Control", Cambridge, UCAM-CL-TR-209.

Observation   float32[2]   position (the hill is sin(3 * position)), velocity per step
Action        int32        0 pushes left, 1 coasts, 2 pushes right
Reward        -1 for every step, the terminating one included
Starts        at rest, position uniform in [start_low, start_high]
Terminates    position >= goal_position with velocity >= goal_velocity
Time limit    200 (registry)
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.canvas import BLUE, BROWN, GREEN, INK, ORANGE, PAPER, SAND, Canvas, mix, turn
from jaxenv.core import Range, Task, Transition, check_order, clip, in_small_kernel, sin_cos


@tree.struct
class Params:
    """Physical constants: scalars, or ``[B]`` for one value per lane."""

    force: float = tree.leaf(default=0.001, doc="gain in velocity from one push")
    gravity: float = tree.leaf(default=0.0025, doc="loss of velocity on the steepest slope in one step")
    goal_position: float = 0.5
    goal_velocity: float = 0.0
    start_low: float = -0.6
    start_high: float = -0.4


@tree.struct
class State:
    """Position and velocity of the car, each float32 ``[B]``."""

    position: jax.Array
    velocity: jax.Array


class Valley(Task):
    """The road between two hills, which MountainCar, MountainCarContinuous and bsuite's MountainCar share."""

    params: Any = None
    min_position: float = tree.static(default=-1.2, doc="position of the left wall")
    max_position: float = tree.static(default=0.6, doc="position of the right end of the road")
    max_speed: float = tree.static(default=0.07, above=0, doc="bound on the velocity")
    play_fps = 30

    def check(self) -> None:
        p, owner = self.params, f"{self}"
        check_order(owner, "min_position", self.min_position, "max_position", self.max_position, strict=True)
        road = Range(low=self.min_position, high=self.max_position)
        road.check(owner, "start_low", p.start_low)
        road.check(owner, "start_high", p.start_high)
        check_order(owner, "start_low", p.start_low, "start_high", p.start_high)

    def initial(self, stream: random.Stream) -> Any:
        position = random.uniform(stream, (), self.params.start_low, self.params.start_high)
        return State(position, jnp.zeros_like(position))

    def initial_bounds(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        return (self.params.start_low, 0.0), (self.params.start_high, 0.0)

    def observe(self, state: Any) -> jax.Array:
        return jnp.stack([state.position, state.velocity], axis=-1)

    def observation_spec(self) -> specs.Bounded:
        high = np.array([self.max_position, self.max_speed], np.float32)
        low = np.array([self.min_position, -self.max_speed], np.float32)
        return specs.Bounded((2,), np.float32, low, high, "observation")

    def draw(self, state: Any, canvas: Canvas) -> Canvas:
        """Paints the road with its left wall, the flag at the goal, and the car with an arrow for its velocity.

        The height of the hill is 0.45 * sin(3 * position), as in Gymnasium's picture.
        """
        canvas = canvas.view((self.min_position, self.max_position), (-0.6, 0.8), margin=0.05)
        canvas = canvas.box(self.min_position - 5, 0.0, 10, 1.2, BROWN)
        canvas = canvas.below(_height, BROWN)
        canvas = canvas.below(lambda x: _height(x) - 0.03 * jnp.sqrt(1 + _slope(x) ** 2), mix(PAPER, SAND, 0.6))
        goal = self.params.goal_position
        with jax.ensure_compile_time_eval():  # the flag is known while tracing unless lanes have different goals
            foot = _height(goal)
            canvas = canvas.line(goal, foot, goal, foot + 0.32, 0.025, INK)
            canvas = canvas.polygon([(goal, foot + 0.33), (goal, foot + 0.19), (goal + 0.16, foot + 0.26)], GREEN)

        x, y, angle = state.position, _height(state.position), jnp.arctan(_slope(state.position))

        def at(along: Any, up: Any) -> tuple[jax.Array, jax.Array]:
            across, above = turn(along, up, angle)
            return x + across, y + above

        canvas = canvas.box(*at(0.0, 0.095), 0.3, 0.09, ORANGE, angle, corner=0.035)
        canvas = canvas.box(*at(0.0, 0.14), 0.16, 0.12, ORANGE, angle, corner=0.05)
        for wheel in (-0.085, 0.085):
            canvas = canvas.disc(*at(wheel, 0.05), 0.055, INK).disc(*at(wheel, 0.05), 0.02, PAPER)
        return canvas.arrow(*at(-3 * state.velocity, 0.28), *at(3 * state.velocity, 0.28), 0.04, BLUE)


class MountainCar(Valley):
    """The car in the valley with three actions; the module docstring is the specification."""

    params: Params = Params()
    action_names = ("left", "coast", "right")

    def transition(self, state: State, action: jax.Array, stream: random.Stream) -> Transition:
        push = (action - 1).astype(jnp.float32) * self.params.force
        state = in_small_kernel(roll, self, state, push)
        return Transition(state, reward=-jnp.ones_like(state.position), terminated=at_goal(self, state))

    def action_spec(self) -> specs.Bounded:
        return specs.discrete(3, name="action")


def roll(env: Valley, state: State, push: jax.Array) -> State:
    """Moves the car by one step. Its velocity is bounded, and the left wall stops it."""
    _, cos = sin_cos(3 * state.position)
    velocity = state.velocity + push - env.params.gravity * cos
    velocity = clip(velocity, -env.max_speed, env.max_speed)
    position = clip(state.position + velocity, env.min_position, env.max_position)
    stopped = (position == np.float32(env.min_position)) & (velocity < 0)
    return State(position, jnp.where(stopped, np.float32(0), velocity))


def at_goal(env: Valley, state: State) -> jax.Array:
    """Returns whether the car is at the goal with sufficient velocity: bool ``[B]``."""
    return (state.position >= env.params.goal_position) & (state.velocity >= env.params.goal_velocity)


# --- the picture -----------------------------------------------------------------------------------------------------


def _height(x: Any) -> jax.Array:
    return 0.45 * jnp.sin(3 * x)


def _slope(x: Any) -> jax.Array:
    return 1.35 * jnp.cos(3 * x)
