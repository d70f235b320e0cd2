"""Swing a pole on a cart up from below and hold it upright, at a cost for every push.

Reference: bsuite 0.3.6, ``experiments/cartpole_swingup/cartpole_swingup.py``
(tests/envs/bsuite/test_cart_pole_swingup.py).
Paper: Osband et al. (2020), "Behaviour Suite for Reinforcement Learning", arXiv:1908.03568.

Observation   float32[1, 8]   cart position and velocity divided by x_threshold, sine and cosine of the pole's angle,
                              its rate (rad/s), elapsed time divided by max_time, 1 if |position| is below its reward
                              threshold, else -1, and the same for |rate|
Action        int32           0 pushes left, 1 does not push, 2 pushes right
Reward        1 while the pole is upright: cosine of its angle > height_threshold, |rate| < theta_dot_threshold and
              |position| < x_reward_threshold; minus move_cost for a push
Starts        position, velocity, angle and rate uniform within init_range of hanging at rest in the centre
Terminates    |position| > x_threshold, or when the time exceeds max_time (step 1001), a termination as in bsuite
Time limit    none
env_info      raw_return: float32, sum of all rewards; total_upright: float32, steps upright; best_episode: float32,
              highest return of a finished episode, at least 0; all accumulate over the episodes of a lane

bsuite's twenty settings fit in one batch: ``height_threshold=np.arange(20) / 20, x_reward_threshold=1 - np.arange(20) /
20`` with ``num_envs=20``.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.canvas import GREEN, ORANGE, Canvas
from jaxenv.core import Transition, in_small_kernel, moments, sin_cos
from jaxenv.envs.bsuite._pole_task import Pole, PoleTask
from jaxenv.envs.classic_control.cart_pole import draw_cart


@tree.struct
class Params:
    """Physical constants, thresholds and costs: scalars, or ``[B]`` for one value per lane."""

    gravity: float = tree.leaf(default=9.8, unit="m/s^2")
    mass_cart: float = tree.leaf(default=1.0, unit="kg", above=0)
    mass_pole: float = tree.leaf(default=0.1, unit="kg", low=0)
    length: float = tree.leaf(default=0.5, unit="m", above=0, doc="half the length of the pole")
    force: float = tree.leaf(default=10.0, unit="N")
    height_threshold: float = tree.leaf(default=0.5, doc="cosine of the angle")
    theta_dot_threshold: float = tree.leaf(default=1.0, unit="rad/s", low=0)
    x_reward_threshold: float = tree.leaf(default=1.0, unit="m", low=0)
    move_cost: float = 0.1
    x_threshold: float = tree.leaf(default=3.0, unit="m", above=0)
    init_range: float = tree.leaf(default=0.05, low=0, doc="of positions, velocities, angles and rates")


@tree.struct
class Cost:
    """Compensated sum of the costs of pushes, ``total + rest``, each float32 ``[B]``, exact over many steps.

    A count of pushes would not suffice, because ``move_cost`` may change between steps.
    """

    total: jax.Array
    rest: jax.Array  # the rounding error of total

    def plus(self, cost: jax.Array) -> "Cost":
        """Adds one cost to the sum."""
        return Cost(*moments.add(self.total, self.rest, cost))


@tree.struct
class State:
    """Steps upright are counted as integers, whose sum stays exact. All counters are ``[B]``."""

    pole: Pole
    steps: jax.Array  # int32, of this episode
    upright: jax.Array  # int32, steps upright in this episode
    cost: Cost  # of this episode
    total_upright: jax.Array  # int32, of all episodes
    total_cost: Cost
    best_episode: jax.Array  # float32


class CartPoleSwingup(PoleTask):
    """bsuite's swing-up; the module docstring is the specification."""

    params: Params = Params()

    def initial(self, stream: random.Stream) -> State:
        reach, zero = self.params.init_range, jnp.zeros(stream.shape, jnp.int32)
        x, x_dot, theta, theta_dot = random.separate_uniforms(stream, 4, -reach, reach)
        pole = Pole(x, x_dot, np.float32(np.pi) + theta, theta_dot)
        none = jnp.zeros(stream.shape, jnp.float32)
        return State(pole, zero, zero, Cost(none, none), zero, Cost(none, none), none)

    def initial_bounds(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        reach, rest = self.params.init_range, (0,) * 8
        return (-reach, -reach, np.pi - reach, -reach, *rest), (reach, reach, np.pi + reach, reach, *rest)

    def carry(self, old: State, new: State) -> State:
        return tree.rebuild(
            new, total_upright=old.total_upright, total_cost=old.total_cost, best_episode=old.best_episode
        )

    def transition(self, state: State, action: jax.Array, stream: random.Stream) -> Transition:
        p, pole = self.params, in_small_kernel(type(self).push, self, state.pole, action)
        upright = _is_upright(pole, p).astype(jnp.int32)
        cost = p.move_cost * (action != 1).astype(jnp.float32)
        state = tree.rebuild(
            state,
            pole=pole,
            steps=state.steps + 1,
            upright=state.upright + upright,
            cost=state.cost.plus(cost),
            total_upright=state.total_upright + upright,
            total_cost=state.total_cost.plus(cost),
        )
        ended = (jnp.abs(pole.x) > p.x_threshold) | (state.steps >= self.last_step)
        # Counting starts from 0, so a negative return is never recorded.
        best = jnp.maximum(state.best_episode, _return(state.upright, state.cost))
        state = tree.rebuild(state, best_episode=jnp.where(ended, best, state.best_episode))
        return Transition(state, upright.astype(jnp.float32) - cost, terminated=ended)

    def state_info(self, state: State) -> dict[str, jax.Array]:
        return {
            "raw_return": _return(state.total_upright, state.total_cost),
            "total_upright": state.total_upright.astype(jnp.float32),
            "best_episode": state.best_episode,
        }

    def observe(self, state: State) -> jax.Array:
        flags = [jnp.where(flag, np.float32(1), np.float32(-1)) for flag in _within(state.pole, self.params)]
        return jnp.stack([*self.columns(state.pole, state.steps), *flags], axis=-1)[:, None]

    def observation_spec(self) -> specs.Bounded:
        low, high = self.column_bounds()
        return specs.Bounded((1, 8), np.float32, np.array([[*low, -1, -1]]), np.array([[*high, 1, 1]]), "observation")

    def draw(self, state: State, canvas: Canvas) -> Canvas:
        """Paints the pole, green while it is upright, and marks the angles and the part of the track that count."""
        p, pole = self.params, state.pole
        canvas = self.draw_track(state, canvas)
        canvas = canvas.line(-p.x_reward_threshold, -0.42, p.x_reward_threshold, -0.42, 0.16, GREEN)
        limit = jnp.arccos(jnp.clip(p.height_threshold, -1.0, 1.0))
        colour = jnp.where(_is_upright(pole, p)[:, None], GREEN[None], ORANGE[None])
        return draw_cart(canvas, pole, limit, p.length, colour)


def _is_upright(pole: Pole, p: Params) -> jax.Array:
    _, cos = sin_cos(pole.theta)
    central, slow = _within(pole, p)
    return (cos > p.height_threshold) & central & slow


def _within(pole: Pole, p: Params) -> tuple[jax.Array, jax.Array]:
    """Returns whether position and rate are below their reward thresholds."""
    return jnp.abs(pole.x) < p.x_reward_threshold, jnp.abs(pole.theta_dot) < p.theta_dot_threshold


def _return(upright: jax.Array, cost: Cost) -> jax.Array:
    """Returns the sum of rewards, given the steps upright and the cost of pushes."""
    return upright.astype(jnp.float32) - cost.total - cost.rest
