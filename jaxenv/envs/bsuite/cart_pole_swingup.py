"""Swing a pole on a cart up from below and hold it there, at a cost for every push.

Reference: bsuite 0.3.6, ``experiments/cartpole_swingup/cartpole_swingup.py``
(tests/envs/bsuite/test_cart_pole_swingup.py).
Paper: Osband et al. (2020), "Behaviour Suite for Reinforcement Learning", arXiv:1908.03568.

Observation   float32[1, 8]   cart position and velocity over x_threshold, sine and cosine of the pole's angle,
                              its rate (rad/s), time since the start over max_time, 1 if |position| is below its
                              threshold of reward, else -1, and the same of |rate|
Action        int32           0 pushes left, 1 does not push, 2 pushes right
Reward        1 while the pole is upright: cosine of its angle > height_threshold, |rate| < theta_dot_threshold and
              |position| < x_reward_threshold; less move_cost for a push
Starts        position, velocity, angle and rate uniform within init_range of rest below the cart
Terminates    |position| > x_threshold, or time > max_time, step 1001: to bsuite that is an end of the task, too
Time limit    none
env_info      raw_return: float32, sum of all rewards; total_upright: float32, steps upright; best_episode: float32,
              highest return of an episode that ended, at least 0; all outlive episodes

bsuite's twenty settings are one batch: ``height_threshold=np.arange(20) / 20, x_reward_threshold=1 - np.arange(20) /
20`` for ``num_envs=20``.
"""

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import _moments, random, specs, tree
from jaxenv._numeric import sin_cos
from jaxenv.envs.bsuite.cart_pole import Pole, check_numbers, column_bounds, columns, last_step, push
from jaxenv.task import Task, Transition


@tree.struct
class Params:
    """Numbers of the physics and of the task: scalars, or ``[B]`` for one value per lane."""

    gravity: float = 9.8  # m/s^2
    mass_cart: float = 1.0  # kg
    mass_pole: float = 0.1  # kg
    length: float = 0.5  # m, half the pole
    force: float = 10.0  # N
    height_threshold: float = 0.5  # cosine of the angle
    theta_dot_threshold: float = 1.0  # rad/s
    x_reward_threshold: float = 1.0  # m
    move_cost: float = 0.1
    x_threshold: float = 3.0  # m
    init_range: float = 0.05


@tree.struct
class Cost:
    """What pushes have cost, at whatever ``move_cost`` was in force: a sum that stays exact over a long life.

    Each float32 ``[B]``; the sum is ``total + rest``.
    """

    total: jax.Array
    rest: jax.Array  # what total lost to rounding

    def plus(self, paid: jax.Array) -> "Cost":
        """The sum with one more cost."""
        return Cost(*_moments.add(self.total, self.rest, paid))


@tree.struct
class State:
    """What is rewarded is counted in integers: they add up exactly, however long a lane lives. All but the pole [B]."""

    pole: Pole
    steps: jax.Array  # int32, of this episode
    upright: jax.Array  # int32, steps upright in this episode
    cost: Cost  # of this episode
    total_upright: jax.Array  # int32, of all episodes
    total_cost: Cost
    best_episode: jax.Array  # float32


class CartPoleSwingup(Task):
    """bsuite's swing-up; see the module.

    Attributes:
        timescale: s between two steps.
        max_time: s.
    """

    params: Params = Params()
    timescale: float = tree.static(default=0.01)
    max_time: float = tree.static(default=10.0)

    def check(self):
        check_numbers(self)

    def initial(self, stream):
        reach, zero = self.params.init_range, jnp.zeros(stream.shape, jnp.int32)
        x, x_dot, theta, theta_dot = random.separate_uniforms(stream, 4, -reach, reach)
        pole = Pole(x, x_dot, np.float32(np.pi) + theta, theta_dot)
        none = jnp.zeros(stream.shape, jnp.float32)
        return State(pole, zero, zero, Cost(none, none), zero, Cost(none, none), none)

    def initial_bounds(self):
        reach, rest = self.params.init_range, (0,) * 8
        return (-reach, -reach, np.pi - reach, -reach, *rest), (reach, reach, np.pi + reach, reach, *rest)

    def carry(self, old, new):
        return tree.rebuild(
            new, total_upright=old.total_upright, total_cost=old.total_cost, best_episode=old.best_episode
        )

    def transition(self, state, action, stream):
        p, pole = self.params, push(state.pole, action, self.timescale, self.params)
        _, cos = sin_cos(pole.theta)
        upright = (cos > p.height_threshold) & _central(pole, p) & _slow(pole, p)
        upright, paid = upright.astype(jnp.int32), p.move_cost * (action != 1).astype(jnp.float32)
        steps = state.steps + 1
        ended = (jnp.abs(pole.x) > p.x_threshold) | (steps >= last_step(self.timescale, self.max_time))
        after = tree.rebuild(
            state,
            pole=pole,
            steps=steps,
            upright=state.upright + upright,
            cost=state.cost.plus(paid),
            total_upright=state.total_upright + upright,
            total_cost=state.total_cost.plus(paid),
        )
        # It starts from 0, so that a return below shows nowhere.
        best = jnp.maximum(state.best_episode, _sum(after.upright, after.cost))
        after = tree.rebuild(after, best_episode=jnp.where(ended, best, state.best_episode))
        return Transition(after, upright.astype(jnp.float32) - paid, terminated=ended)

    def state_info(self, state):
        return {
            "raw_return": _sum(state.total_upright, state.total_cost),
            "total_upright": state.total_upright.astype(jnp.float32),
            "best_episode": state.best_episode,
        }

    def observe(self, state):
        flags = [
            jnp.where(flag, np.float32(1), np.float32(-1))
            for flag in (_central(state.pole, self.params), _slow(state.pole, self.params))
        ]
        return jnp.stack([*columns(self, state.pole, state.steps), *flags], axis=-1)[:, None]

    def observation_spec(self):
        low, high = column_bounds(self)
        return specs.Bounded((1, 8), np.float32, np.array([[*low, -1, -1]]), np.array([[*high, 1, 1]]), "observation")

    def action_spec(self):
        return specs.discrete(3, name="action")


def _central(pole: Pole, p: Params) -> jax.Array:
    return jnp.abs(pole.x) < p.x_reward_threshold


def _slow(pole: Pole, p: Params) -> jax.Array:
    return jnp.abs(pole.theta_dot) < p.theta_dot_threshold


def _sum(upright: jax.Array, cost: Cost) -> jax.Array:
    """The sum of rewards of so many steps upright and of pushes at this cost."""
    return upright.astype(jnp.float32) - cost.total - cost.rest
