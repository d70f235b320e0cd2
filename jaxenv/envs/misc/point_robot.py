"""Find a hidden goal on a half-circle by moving in the plane.

Task: Rakelly, Zhou, Quillen, Finn and Levine (2019), "Efficient off-policy meta-reinforcement learning via
probabilistic context variables", arXiv:1903.08254 (sparse 2D navigation); Dorfman, Shenfeld and Tamar (2020), "Offline
meta learning of exploration", arXiv:2008.02598 (semi-circle). The originals are classes inside training code:
tests/envs/misc/test_point_robot.py compares this task with a plain implementation of their rules.

Observation   float32[6]   position x, y; last reward; last action x, y; time
Action        float32[2]   displacement along x and y, clipped to [-max_force, max_force]
Reward        1 within goal_radius of the goal, else 0; with dense_reward minus the distance to it; both after the step
Starts        the goal uniform on the half-circle of circle_radius above the origin; the agent at a uniform radius and
              angle within the half-circle, or with center_init at the origin
Terminates    never
Time limit    100 (registry)
env_info      goal_reached: bool, whether the step ended within goal_radius

With ``respawn`` an agent within goal_radius is moved to a new random start. ``compat="gymnax"`` does the same, and
takes reward and goal_reached from the position before the step, as gymnax 1.0.1 does. The time in the observation
ranges from -1 at the start to 1 at step t_max, or with normalize_time=False counts steps.
"""

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.canvas import GREEN, GREY, PAPER, SILVER, Canvas, mix
from jaxenv.core import Task, Transition, check_choice, clip, sin_cos
from jaxenv.envs.misc._agent import draw_agent
from jaxenv.envs.misc._time_feature import time_bounds, time_feature


@tree.struct
class Params:
    """Lengths in units of the plane: scalars, or ``[B]`` for one value per lane."""

    circle_radius: float = tree.leaf(default=1.0, low=0)
    goal_radius: float = tree.leaf(default=0.2, low=0)
    t_max: float = tree.leaf(default=100.0, unit="steps", above=0, doc="the step at which the normalized time is 1")


@tree.struct
class State:
    """Positions of agent and goal, and the last step. Each float32 ``[B]`` unless stated otherwise."""

    x: jax.Array
    y: jax.Array
    goal_x: jax.Array
    goal_y: jax.Array
    last_action: jax.Array  # float32[B, 2]
    last_reward: jax.Array
    time: jax.Array  # int32[B], steps taken


class PointRobot(Task):
    """The point on the plane; the module docstring is the specification."""

    finite_observation = True
    # Only the time limit ends an episode, so on most steps no lane ends, and then all lanes end together.
    reset_strategy = {"cpu": "cond", "default": "select"}
    params: Params = Params()
    max_force: float = tree.static(default=0.1, above=0, below=math.inf, doc="largest displacement along either axis")
    dense_reward: bool = tree.static(default=False, doc="whether the reward is minus the distance to the goal")
    center_init: bool = tree.static(default=False, doc="whether the agent starts at the origin, as in the papers")
    normalize_time: bool = tree.static(default=True, doc="whether the observed time is from -1 to 1, not a count")
    respawn: bool = tree.static(default=False, doc="whether an agent that has reached the goal is moved to a new start")
    compat: str = tree.static(default="", doc='``"gymnax"`` for the rules of gymnax 1.0.1, or empty')
    action_names = ("x", "y")
    summed_entries = frozenset({"goal_reached"})
    play_fps = 10

    @property
    def smooth(self) -> bool:  # type: ignore[override]
        # The sparse reward and the move to a new start are discontinuous.
        return self.dense_reward and not self._respawns

    @property
    def _respawns(self) -> bool:
        return self.respawn or self.compat == "gymnax"

    def check(self) -> None:
        check_choice(f"{self}", "compat", self.compat, ("", "gymnax"))

    def initial(self, stream: random.Stream) -> State:
        angle, *start = random.separate_uniforms(stream, 1 if self.center_init else 3)
        goal = _polar(self.params.circle_radius, math.pi * angle)
        zero = jnp.zeros(stream.shape, jnp.float32)
        return State(
            *self._start(start, zero),
            *goal,
            last_action=jnp.zeros((*stream.shape, 2), jnp.float32),
            last_reward=zero,
            time=jnp.zeros(stream.shape, jnp.int32),
        )

    def transition(self, state: State, action: jax.Array, stream: random.Stream) -> Transition:
        action = clip(action, -self.max_force, self.max_force)
        x, y = state.x + action[:, 0], state.y + action[:, 1]
        from_x, from_y = (state.x, state.y) if self.compat == "gymnax" else (x, y)
        distance = _length(state.goal_x - from_x, state.goal_y - from_y)
        reached = distance <= self.params.goal_radius
        reward = -distance if self.dense_reward else reached.astype(jnp.float32)
        if self._respawns:
            fractions = () if self.center_init else random.separate_uniforms(stream, 2)
            start_x, start_y = self._start(fractions, jnp.zeros_like(x))
            x, y = jnp.where(reached, start_x, x), jnp.where(reached, start_y, y)
        state = tree.rebuild(state, x=x, y=y, last_action=action, last_reward=reward, time=state.time + 1)
        return Transition(state, reward, jnp.zeros_like(reached), {"goal_reached": reached})

    def observe(self, state: State) -> jax.Array:
        time = time_feature(state.time, self.params.t_max, self.normalize_time)
        last_x, last_y = state.last_action[:, 0], state.last_action[:, 1]
        return jnp.stack([state.x, state.y, state.last_reward, last_x, last_y, time], axis=-1)

    def observation_spec(self) -> specs.Bounded:
        first, last = time_bounds(self.normalize_time)
        reward_low, reward_high = (-np.inf, 0.0) if self.dense_reward else (0.0, 1.0)
        low = [-np.inf, -np.inf, reward_low, -self.max_force, -self.max_force, first]
        high = [np.inf, np.inf, reward_high, self.max_force, self.max_force, last]
        return specs.Bounded((6,), np.float32, low, high, "observation")

    def action_spec(self) -> specs.Bounded:
        return specs.Bounded((2,), np.float32, -self.max_force, self.max_force, "action")

    def _start(self, fractions: Sequence[jax.Array], origin: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Returns the initial position: ``origin``, or fractions (``[B]`` each) of the radius and of a half-turn."""
        if not fractions:
            return origin, origin
        radius, angle = fractions
        return _polar(self.params.circle_radius * radius, math.pi * angle)

    def draw(self, state: State, canvas: Canvas) -> Canvas:
        """Paints the half-circle of goals, the goal's disc, the agent with its last action, and the elapsed time."""
        p, time = self.params, state.time.astype(jnp.float32)
        canvas = canvas.view((-1.5, 1.5), (-1, 2))
        canvas = canvas.gauge(time / p.t_max, -1.4, -0.93, 2.8, 0.1, GREY, SILVER)
        # A larger half-circle is shown smaller, so that it fits.
        size = 1 / jnp.maximum(p.circle_radius, 1.0)
        canvas = canvas.arc(0, 0, size * p.circle_radius, 0, math.pi, 0.03, SILVER)
        goal_x, goal_y = size * state.goal_x, size * state.goal_y
        canvas = canvas.disc(goal_x, goal_y, size * p.goal_radius, mix(PAPER, GREEN, 0.4))
        canvas = canvas.disc(goal_x, goal_y, 0.05, GREEN)
        across, up = state.last_action[:, 0], state.last_action[:, 1]
        return draw_agent(canvas, size * state.x, size * state.y, 3 * size * across, 3 * size * up)


def _polar(radius: Any, angle: jax.Array) -> tuple[jax.Array, jax.Array]:
    sin, cos = sin_cos(angle)
    return radius * cos, radius * sin


def _length(x: jax.Array, y: jax.Array) -> jax.Array:
    """Returns the length of a vector, with gradient 0 at length 0."""
    square = x * x + y * y
    positive = square != 0  # true for NaN, which must not count as distance 0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, square, 1.0)), 0.0)
