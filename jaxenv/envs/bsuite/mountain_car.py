"""Drive an underpowered car out of a valley with three actions: bsuite's version of the task.

Reference: bsuite 0.3.6, ``environments/mountain_car.py`` (tests/envs/bsuite/test_mountain_car.py).
Paper: Osband et al. (2020), "Behaviour Suite for Reinforcement Learning", arXiv:1908.03568. Physics: Moore (1990),
"Efficient Memory-based Learning for Robot Control", Cambridge, UCAM-CL-TR-209.

Observation   float32[1, 3]   position (the hill is sin(3 * position)), velocity per step, steps divided by max_steps
Action        int32           0 pushes left, 1 coasts, 2 pushes right
Reward        -1 for every step, the terminating one included
Starts        at rest, position uniform in [start_low, start_high]
Terminates    position >= goal_position, or with step max_steps, which bsuite reports as a termination
Time limit    none
env_info      raw_return: float32, sum of all rewards, accumulated over the episodes of a lane
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.canvas import GREY, SILVER, Canvas
from jaxenv.core import Transition, in_small_kernel
from jaxenv.envs.classic_control import mountain_car


@tree.struct
class Params:
    """Physical constants: scalars, or ``[B]`` for one value per lane."""

    force: float = tree.leaf(default=0.001, doc="gain in velocity from one push")
    gravity: float = tree.leaf(default=0.0025, doc="loss of velocity on the steepest slope in one step")
    goal_position: float = 0.5
    start_low: float = -0.6
    start_high: float = -0.4


@tree.struct
class State:
    """The car and two counters, each int32 ``[B]``."""

    car: mountain_car.State
    steps: jax.Array  # of this episode
    total_steps: jax.Array  # of all episodes


class MountainCar(mountain_car.Valley):
    """bsuite's car in the valley; the module docstring is the specification."""

    params: Params = Params()
    max_steps: int = tree.static(default=1000, low=1, doc="number of steps after which an episode terminates")
    action_names = ("left", "coast", "right")

    def initial(self, stream: random.Stream) -> State:
        position = random.uniform(stream, (), self.params.start_low, self.params.start_high)
        zero = jnp.zeros(stream.shape, jnp.int32)
        return State(mountain_car.State(position, jnp.zeros_like(position)), zero, zero)

    def initial_bounds(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        return (self.params.start_low, 0, 0, 0), (self.params.start_high, 0, 0, 0)

    def carry(self, old: State, new: State) -> State:
        return tree.rebuild(new, total_steps=old.total_steps)

    def transition(self, state: State, action: jax.Array, stream: random.Stream) -> Transition:
        # Gymnasium's physics, wall included; the goal requires no velocity.
        push = (action - 1).astype(jnp.float32) * self.params.force
        car = in_small_kernel(mountain_car.roll, self, state.car, push)
        steps = state.steps + 1
        ended = (car.position >= self.params.goal_position) | (steps >= self.max_steps)
        return Transition(State(car, steps, state.total_steps + 1), -jnp.ones_like(car.position), terminated=ended)

    def state_info(self, state: State) -> dict[str, jax.Array]:
        return {"raw_return": -state.total_steps.astype(jnp.float32)}

    def observe(self, state: State) -> jax.Array:
        time = state.steps.astype(jnp.float32) / np.float32(self.max_steps)
        return jnp.stack([state.car.position, state.car.velocity, time], axis=-1)[:, None]

    def observation_spec(self) -> specs.Bounded:
        high = np.array([[self.max_position, self.max_speed, 1]], np.float32)
        low = np.array([[self.min_position, -self.max_speed, 0]], np.float32)
        return specs.Bounded((1, 3), np.float32, low, high, "observation")

    def action_spec(self) -> specs.Bounded:
        return specs.discrete(3, name="action")

    def draw(self, state: State, canvas: Canvas) -> Canvas:
        """Paints the valley and, at the bottom, a bar for the elapsed steps."""
        canvas = super().draw(state.car, canvas).view((0, 1), (0, 1))
        return canvas.gauge(state.steps.astype(jnp.float32) / self.max_steps, 0.03, 0.02, 0.94, 0.033, GREY, SILVER)
