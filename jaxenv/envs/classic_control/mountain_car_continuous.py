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

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.core import Transition, clip, in_small_kernel
from jaxenv.envs.classic_control.mountain_car import State, Valley, at_goal, roll


@tree.struct
class Params:
    """Physical constants: scalars, or ``[B]`` for one value per lane."""

    power: float = tree.leaf(default=0.0015, doc="gain in velocity from one step at full throttle")
    gravity: float = tree.leaf(default=0.0025, doc="loss of velocity on the steepest slope in one step")
    goal_position: float = 0.45
    goal_velocity: float = 0.0
    start_low: float = -0.6
    start_high: float = -0.4


class MountainCarContinuous(Valley):
    """The car in the valley with a throttle; the module docstring is the specification."""

    finite_observation = True
    params: Params = Params()
    action_names = ("throttle",)

    def transition(self, state: State, action: jax.Array, stream: random.Stream) -> Transition:
        throttle = action[:, 0]
        state = in_small_kernel(roll, self, state, clip(throttle, -1, 1) * self.params.power)
        arrived = at_goal(self, state)
        reward = jnp.where(arrived, np.float32(100), np.float32(0)) - 0.1 * throttle**2
        return Transition(state, reward, terminated=arrived)

    def action_spec(self) -> specs.Bounded:
        return specs.Bounded((1,), np.float32, -1.0, 1.0, "action")
