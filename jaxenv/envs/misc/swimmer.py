"""Swim to a goal and keep clear of the urchins on the way.

Reference: Ivy's gym, ``ivy_gym/swimmer.py``, which gymnax's ``Swimmer-misc`` follows (tests/envs/misc/test_swimmer.py).

Observation   float32[2 * num_urchins + 6]   x and y of every urchin, of the swimmer, of its velocity, of the goal
Action        float32[2]                     acceleration along x and y in [-1, 1]; beyond that not limited by itself
Reward        exp(-d^2 / 2), d the distance from the goal after the step, times 1 - exp(-30 e^2) for every urchin, e the
              distance from it: nothing within an urchin, all of it half a length away
Starts        urchins, swimmer and goal uniform in [-1, 1)^2, at rest
Terminates    never
Time limit    500 (registry)

The water has no walls and does not slow the swimmer down, who may leave it all behind.
"""

from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv._checks import is_concrete
from jaxenv.task import Task, Transition

Point: TypeAlias = tuple[jax.Array, jax.Array]


@tree.struct
class Params:
    """Numbers of the physics: scalars, or ``[B]`` for one value per lane."""

    dt: float = 0.05  # s


@tree.struct
class State:
    """Where everything is, float32: single points as an x and a y, each ``[B]``, which compute quicker than pairs."""

    urchins: jax.Array  # [B, num_urchins, 2]
    position: Point
    velocity: Point
    goal: Point


class Swimmer(Task):
    """A swimmer among urchins; see the module."""

    finite_observation = True
    reset_strategy = {"cpu": "cond", "default": "select"}
    smooth = True
    params: Params = Params()
    num_urchins: int = tree.static(default=5)

    def check(self):
        if self.num_urchins < 0:
            raise ValueError(f"{self}: num_urchins must be at least 0, got {self.num_urchins}")
        if is_concrete(self.params.dt) and np.any(np.asarray(self.params.dt) <= 0):
            raise ValueError(f"{self}: dt must be positive, got {self.params.dt}")

    def initial(self, stream):
        n = self.num_urchins
        places = random.uniform(stream, (n + 2, 2), -1.0, 1.0)
        at_rest = jnp.zeros(stream.shape, jnp.float32)
        return State(places[:, :n], _point(places, n), (at_rest, at_rest), _point(places, n + 1))

    def initial_bounds(self):
        reach = (1.0, 1.0, 1.0, 0.0, 0.0, 1.0, 1.0)
        return tuple(-x for x in reach), reach

    def transition(self, state, action, stream):
        dt = self.params.dt
        velocity = tuple(v + dt * action[:, i] for i, v in enumerate(state.velocity))
        position = tuple(x + dt * v for x, v in zip(state.position, velocity, strict=True))
        reward = jnp.exp(-0.5 * _squared_distance(position, state.goal))
        for i in range(self.num_urchins):
            to_urchin = _squared_distance(position, _point(state.urchins, i))
            reward = reward * (1 - jnp.exp(-30.0 * to_urchin))
        state = State(state.urchins, position, velocity, state.goal)
        return Transition(state, reward, terminated=jnp.zeros(reward.shape, bool))

    def observe(self, state):
        moving = jnp.stack([*state.position, *state.velocity, *state.goal], axis=-1)
        urchins = state.urchins.reshape(len(moving), 2 * self.num_urchins)
        return jnp.concatenate([urchins, moving], axis=-1)

    def observation_spec(self):
        high = np.array([1.0] * (2 * self.num_urchins) + [np.inf] * 4 + [1.0, 1.0], np.float32)
        return specs.Bounded(high.shape, np.float32, -high, high, "observation")

    def action_spec(self):
        return specs.Bounded((2,), np.float32, -1.0, 1.0, "action")


def _point(points: jax.Array, i: int) -> Point:
    return points[:, i, 0], points[:, i, 1]


def _squared_distance(a: Point, b: Point) -> jax.Array:
    return (a[0] - b[0]) ** 2 + (a[1] - b[1]) ** 2
