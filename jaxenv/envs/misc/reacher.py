"""Bring the tip of a multi-joint arm to a goal by torques on its joints.

Reference: Ivy's gym, ``ivy_gym/reacher.py``, the source of gymnax's ``Reacher-misc`` (tests/envs/misc/test_reacher.py).

Observation   float32[3 * num_joints + 2]   cosines and sines of the angles, rates (rad/s), x and y of the goal
Action        float32[num_joints]           torque on each joint, in [-1, 1]; the task itself does not clip it
Reward        exp(-d^2), where d is the distance between tip and goal after the step
Starts        angles uniform in [-pi, pi), rates in [-1, 1), the goal in the square [-num_joints, num_joints)^2
Terminates    never
Time limit    100 (registry)
env_info      reward_dist: float32, the reward; reward_ctrl: float32, minus the sum of the squared torques, a control
              cost that is not part of the reward

Segments have length 1, and their angles are measured from the x axis, so a joint turns only its own segment. There is
neither inertia nor friction. As in the original, one goal in five is out of reach, in a corner of the square.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.canvas import BLUE, GREEN, INK, ORANGE, PAPER, Canvas, turn
from jaxenv.core import Task, Transition, clip, sin_cos


@tree.struct
class Params:
    """Physical constants: scalars, or ``[B]`` for one value per lane."""

    torque_scale: float = tree.leaf(default=1.0, unit="rad/s^2", doc="for an action of 1")
    dt: float = tree.leaf(default=0.05, unit="s", above=0, doc="duration of a step")


@tree.struct
class State:
    """The arm and its goal. Separate arrays float32 ``[B]`` per joint and coordinate are faster than ``[B, 2]``."""

    angles: tuple[jax.Array, ...]  # rad
    rates: tuple[jax.Array, ...]  # rad/s
    goal: tuple[jax.Array, jax.Array]  # x, y


class Reacher(Task):
    """An arm that reaches for a goal; the module docstring is the specification."""

    finite_observation = True
    # Only the time limit ends an episode, so on most steps no lane ends, and then all lanes end together.
    reset_strategy = {"cpu": "cond", "default": "select"}
    summed_entries = frozenset({"reward_ctrl", "reward_dist"})
    smooth = True
    params: Params = Params()
    num_joints: int = tree.static(default=2, low=1, doc="number of joints and segments")
    play_fps = 15

    @property
    def action_names(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(f"joint {joint + 1}" for joint in range(self.num_joints))

    def initial(self, stream: random.Stream) -> State:
        n = self.num_joints
        start = random.separate_uniforms(stream, 2 * n + 2, -1.0, 1.0)
        return State(
            angles=tuple(x * np.float32(math.pi) for x in start[:n]),
            rates=tuple(start[n : 2 * n]),
            goal=(start[-2] * np.float32(n), start[-1] * np.float32(n)),
        )

    def initial_bounds(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        n = self.num_joints
        reach = (math.pi,) * n + (1.0,) * n + (float(n),) * 2
        return tuple(-x for x in reach), reach

    def transition(self, state: State, action: jax.Array, stream: random.Stream) -> Transition:
        p = self.params
        rates = tuple(rate + p.dt * (p.torque_scale * action[:, i]) for i, rate in enumerate(state.rates))
        angles = tuple(angle + p.dt * rate for angle, rate in zip(state.angles, rates, strict=True))
        sines, cosines = zip(*map(sin_cos, angles), strict=True)  # the end of the last segment is their sum
        x, y = sum(cosines[1:], cosines[0]), sum(sines[1:], sines[0])
        goal_x, goal_y = state.goal
        reward = jnp.exp(-((x - goal_x) ** 2 + (y - goal_y) ** 2))
        cost = sum(action[:, i] ** 2 for i in range(self.num_joints))
        terms = {"reward_dist": reward, "reward_ctrl": -cost}
        return Transition(State(angles, rates, state.goal), reward, jnp.zeros(reward.shape, bool), terms)

    def observe(self, state: State) -> jax.Array:
        sines, cosines = zip(*map(sin_cos, state.angles), strict=True)
        return jnp.stack([*cosines, *sines, *state.rates, *state.goal], axis=-1)

    def observation_spec(self) -> specs.Bounded:
        n = self.num_joints
        high = np.array([1.0] * (2 * n) + [np.inf] * n + [n, n], np.float32)
        return specs.Bounded((3 * n + 2,), np.float32, -high, high, "observation")

    def action_spec(self) -> specs.Bounded:
        return specs.Bounded((self.num_joints,), np.float32, -1.0, 1.0, "action")

    def draw(self, state: State, canvas: Canvas) -> Canvas:
        """Paints the arm, its goal, and at each joint an arrow for the rate of the segment."""
        n, size = self.num_joints, 0.08 * self.num_joints
        canvas = canvas.view((-n, n), (-n, n), margin=0.07)
        canvas = canvas.disc(*state.goal, 0.6 * size, GREEN).ring(*state.goal, 1.4 * size, 0.4 * size, GREEN)
        points = [(jnp.zeros_like(state.goal[0]), jnp.zeros_like(state.goal[0]))]
        for angle in state.angles:
            (x, y), (right, up) = points[-1], turn(1.0, 0.0, angle)
            points.append((x + right, y + up))
        canvas = canvas.disc(0, 0, size, INK).path(points, 1.3 * size, INK)
        for point, angle, rate in zip(points, state.angles, state.rates, strict=False):
            canvas = canvas.disc(*point, 0.4 * size, PAPER)
            canvas = canvas.arc(*point, 0.45, angle, angle + clip(0.5 * rate, -3, 3), 0.5 * size, BLUE, arrow=True)
        return canvas.disc(*points[-1], 0.65 * size, ORANGE)
