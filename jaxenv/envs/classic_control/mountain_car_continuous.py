"""Drive an underpowered car out of a valley with a throttle and little fuel.

Reference: Gymnasium ``MountainCarContinuous-v0`` (tests/envs/classic_control/test_mountain_car_continuous.py).
Physics: Moore (1990), "Efficient Memory-based Learning for Robot Control", Cambridge, UCAM-CL-TR-209.

Observation   float32[2]   position (the hill is sin(3 * position)), velocity per step
Action        float32[1]   throttle; clipped to [-1, 1] for the engine, but not for the fuel cost (see below)
Reward        -0.1 * throttle^2, and 100 on reaching the goal
Starts        at rest, position uniform in [start_low, start_high]
Terminates    position >= goal_position with velocity >= goal_velocity
Time limit    999 (registry)

As in Gymnasium, the fuel cost is computed from the unclipped action. `jaxenv.make` adds `ClipAction`, which clips the
action first, as ALF does, so full throttle costs most. ``clip_action=False`` gives Gymnasium's costs.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.canvas import Canvas
from jaxenv.core import Task, Transition, clip, in_small_kernel
from jaxenv.envs.classic_control.mountain_car import State, at_goal, check_road, draw_valley, roll


@tree.struct
class Params:
    """Physical constants: scalars, or ``[B]`` for one value per lane."""

    power: float = tree.leaf(default=0.0015, doc="gain in velocity from one step at full throttle")
    gravity: float = tree.leaf(default=0.0025, doc="loss of velocity on the steepest slope in one step")
    goal_position: float = 0.45
    goal_velocity: float = 0.0
    start_low: float = -0.6
    start_high: float = -0.4


class MountainCarContinuous(Task):
    """The car in the valley with a throttle; the module docstring is the specification."""

    finite_observation = True
    params: Params = Params()
    min_position: float = tree.static(default=-1.2)
    max_position: float = tree.static(default=0.6)
    max_speed: float = tree.static(default=0.07, above=0)
    action_names = ("throttle",)
    play_fps = 30

    def check(self) -> None:
        check_road(self)

    def initial(self, stream: random.Stream) -> State:
        position = random.uniform(stream, (), self.params.start_low, self.params.start_high)
        return State(position, jnp.zeros_like(position))

    def initial_bounds(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        return (self.params.start_low, 0.0), (self.params.start_high, 0.0)

    def transition(self, state: State, action: jax.Array, stream: random.Stream) -> Transition:
        throttle = action[:, 0]
        state = in_small_kernel(roll, self, state, clip(throttle, -1, 1) * self.params.power)
        arrived = at_goal(self, state)
        reward = jnp.where(arrived, np.float32(100), np.float32(0)) - 0.1 * throttle**2
        return Transition(state, reward, terminated=arrived)

    def observe(self, state: State) -> jax.Array:
        return jnp.stack([state.position, state.velocity], axis=-1)

    def observation_spec(self) -> specs.Bounded:
        high = np.array([self.max_position, self.max_speed], np.float32)
        low = np.array([self.min_position, -self.max_speed], np.float32)
        return specs.Bounded((2,), np.float32, low, high, "observation")

    def action_spec(self) -> specs.Bounded:
        return specs.Bounded((1,), np.float32, -1.0, 1.0, "action")

    # --- the picture -------------------------------------------------------------------------------------------------

    def draw(self, state: State, canvas: Canvas) -> Canvas:
        return draw_valley(self, state, canvas)
