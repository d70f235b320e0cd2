"""Swim to a goal while avoiding urchins.

Reference: Ivy's gym, ``ivy_gym/swimmer.py``, the source of gymnax's ``Swimmer-misc`` (tests/envs/misc/test_swimmer.py).

Observation   float32[2 * num_urchins + 6]   x and y of every urchin, of the position, the velocity and the goal
Action        float32[2]                     acceleration along x and y, in [-1, 1]; the task itself does not clip it
Reward        exp(-d^2 / 2), where d is the distance to the goal after the step, times 1 - exp(-30 e^2) for every urchin
              at distance e: 0 at an urchin, nearly unaffected at half a unit of length
Starts        at rest; urchins, swimmer and goal uniform in [-1, 1)^2
Terminates    never
Time limit    500 (registry)

There are no walls and no drag, so the swimmer may leave the square.
"""

import math
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.canvas import GREEN, PURPLE, SKY, Canvas, turn
from jaxenv.core import Task, Transition
from jaxenv.envs.misc._agent import draw_agent

Point: TypeAlias = tuple[jax.Array, jax.Array]


@tree.struct
class Params:
    """Physical constants: scalars, or ``[B]`` for one value per lane."""

    dt: float = tree.leaf(default=0.05, unit="s", above=0, doc="duration of a step")


@tree.struct
class State:
    """Positions and velocity, float32. Single points are pairs of arrays ``[B]``, which are faster than ``[B, 2]``."""

    urchins: jax.Array  # [B, num_urchins, 2]
    position: Point
    velocity: Point
    goal: Point


class Swimmer(Task):
    """A swimmer among urchins; the module docstring is the specification."""

    finite_observation = True
    # Only the time limit ends an episode, so on most steps no lane ends, and then all lanes end together.
    reset_strategy = {"cpu": "cond", "default": "select"}
    smooth = True
    params: Params = Params()
    num_urchins: int = tree.static(default=5, low=0, doc="number of urchins")
    action_names = ("x", "y")
    play_fps = 15

    def initial(self, stream: random.Stream) -> State:
        n = self.num_urchins
        places = random.uniform(stream, (n + 2, 2), -1.0, 1.0)
        at_rest = jnp.zeros(stream.shape, jnp.float32)
        return State(places[:, :n], _point(places, n), (at_rest, at_rest), _point(places, n + 1))

    def initial_bounds(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        reach = (1.0, 1.0, 1.0, 0.0, 0.0, 1.0, 1.0)
        return tuple(-x for x in reach), reach

    def transition(self, state: State, action: jax.Array, stream: random.Stream) -> Transition:
        dt = self.params.dt
        velocity: Any = tuple(v + dt * action[:, i] for i, v in enumerate(state.velocity))
        position: Any = tuple(x + dt * v for x, v in zip(state.position, velocity, strict=True))
        reward = jnp.exp(-0.5 * _squared_distance(position, state.goal))
        for i in range(self.num_urchins):
            to_urchin = _squared_distance(position, _point(state.urchins, i))
            reward = reward * (1 - jnp.exp(-30.0 * to_urchin))
        state = State(state.urchins, position, velocity, state.goal)
        return Transition(state, reward, terminated=jnp.zeros(reward.shape, bool))

    def observe(self, state: State) -> jax.Array:
        moving = jnp.stack([*state.position, *state.velocity, *state.goal], axis=-1)
        urchins = state.urchins.reshape(moving.shape[0], 2 * self.num_urchins)
        return jnp.concatenate([urchins, moving], axis=-1)

    def observation_spec(self) -> specs.Bounded:
        high = np.array([1.0] * (2 * self.num_urchins) + [np.inf] * 4 + [1.0, 1.0], np.float32)
        return specs.Bounded(high.shape, np.float32, -high, high, "observation")

    def action_spec(self) -> specs.Bounded:
        return specs.Bounded((2,), np.float32, -1.0, 1.0, "action")

    def draw(self, state: State, canvas: Canvas) -> Canvas:
        """Paints urchins with halos at whose edge the reward is halved, and the swimmer with its velocity."""
        canvas = canvas.fill(SKY).view((-1.6, 1.6), (-1.6, 1.6))
        canvas = canvas.disc(*state.goal, 0.07, GREEN).ring(*state.goal, 0.16, 0.045, GREEN)
        for i in range(self.num_urchins):
            canvas = _draw_urchin(canvas, *_point(state.urchins, i))
        return draw_agent(canvas, *state.position, *state.velocity)


def _point(points: jax.Array, i: int) -> Point:
    return points[:, i, 0], points[:, i, 1]


def _squared_distance(a: Point, b: Point) -> jax.Array:
    return (a[0] - b[0]) ** 2 + (a[1] - b[1]) ** 2


# --- the picture -----------------------------------------------------------------------------------------------------


def _draw_urchin(canvas: Canvas, x: jax.Array, y: jax.Array) -> Canvas:
    canvas = canvas.disc(x, y, 0.152, PURPLE, alpha=0.3)
    for i in range(4):
        across, up = turn(0.13, 0.0, i * math.pi / 4)
        canvas = canvas.line(x - across, y - up, x + across, y + up, 0.025, PURPLE)
    return canvas.disc(x, y, 0.08, PURPLE)
