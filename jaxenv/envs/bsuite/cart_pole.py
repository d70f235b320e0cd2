"""Balance a pole on a cart by pushing the cart left, right or not at all: bsuite's version of the task.

Reference: bsuite 0.3.6, ``environments/cartpole.py`` (tests/envs/bsuite/test_cart_pole.py).
Paper: Osband et al. (2020), "Behaviour Suite for Reinforcement Learning", arXiv:1908.03568. Physics: Barto, Sutton
and Anderson (1983), doi:10.1109/TSMC.1983.6313077, Euler integration.

Observation   float32[1, 6]   cart position and velocity divided by x_threshold, sine and cosine of the pole's angle,
                              its rate (rad/s), elapsed time divided by max_time
Action        int32           0 pushes left, 1 does not push, 2 pushes right
Reward        1 while the pole stands and the cart is on its track, else 0
Starts        position, velocity, angle and rate uniform in [-init_range, init_range]
Terminates    with a reward of 0, or when the time exceeds max_time (step 1001), which bsuite reports as a termination
Time limit    none
env_info      raw_return: float32, sum of all rewards; best_episode: float32, highest return of a finished episode;
              both accumulate over the episodes of a lane
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, specs, tree
from jaxenv.canvas import ORANGE, Canvas
from jaxenv.core import Transition, in_small_kernel, sin_cos
from jaxenv.envs.bsuite._pole_task import Pole, PoleTask
from jaxenv.envs.classic_control.cart_pole import draw_cart


@tree.struct
class Params:
    """Physical constants and thresholds: scalars, or ``[B]`` for one value per lane."""

    gravity: float = tree.leaf(default=9.8, unit="m/s^2")
    mass_cart: float = tree.leaf(default=1.0, unit="kg", above=0)
    mass_pole: float = tree.leaf(default=0.1, unit="kg", low=0)
    length: float = tree.leaf(default=0.5, unit="m", above=0, doc="half the length of the pole")
    force: float = tree.leaf(default=10.0, unit="N")
    height_threshold: float = tree.leaf(default=0.8, doc="cosine of the angle above which the pole stands")
    x_threshold: float = tree.leaf(default=3.0, unit="m", above=0)
    init_range: float = tree.leaf(default=0.05, low=0, doc="of positions, velocities, angles and rates")


@tree.struct
class State:
    """Rewards are counted as integers, whose sum stays exact over any number of steps."""

    pole: Pole
    steps: jax.Array  # int32[B], of this episode
    total_reward: jax.Array  # int32[B], of all episodes
    best_episode: jax.Array  # int32[B]


class CartPole(PoleTask):
    """bsuite's pole balancing; the module docstring is the specification."""

    params: Params = Params()

    def initial(self, stream: random.Stream) -> State:
        reach, zero = self.params.init_range, jnp.zeros(stream.shape, jnp.int32)
        return State(Pole(*random.separate_uniforms(stream, 4, -reach, reach)), zero, zero, zero)

    def initial_bounds(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        reach = self.params.init_range
        return (*(-reach,) * 4, 0, 0, 0), (*(reach,) * 4, 0, 0, 0)

    def carry(self, old: State, new: State) -> State:
        return tree.rebuild(new, total_reward=old.total_reward, best_episode=old.best_episode)

    def transition(self, state: State, action: jax.Array, stream: random.Stream) -> Transition:
        pole = in_small_kernel(type(self).push, self, state.pole, action)
        upright = sin_cos(pole.theta)[1] > self.params.height_threshold
        stands = upright & (jnp.abs(pole.x) < self.params.x_threshold)
        reward, steps = stands.astype(jnp.int32), state.steps + 1
        ended = ~stands | (steps >= self.last_step)
        # Every earlier step had a reward of 1, so the return of the episode is state.steps + reward.
        best = jnp.where(ended, jnp.maximum(state.best_episode, state.steps + reward), state.best_episode)
        state = State(pole, steps, state.total_reward + reward, best)
        return Transition(state, reward.astype(jnp.float32), terminated=ended)

    def state_info(self, state: State) -> dict[str, jax.Array]:
        counters = {"raw_return": state.total_reward, "best_episode": state.best_episode}
        return {name: x.astype(jnp.float32) for name, x in counters.items()}

    def observe(self, state: State) -> jax.Array:
        return jnp.stack(self.columns(state.pole, state.steps), axis=-1)[:, None]

    def observation_spec(self) -> specs.Bounded:
        low, high = self.column_bounds()
        return specs.Bounded((1, 6), np.float32, np.array([low]), np.array([high]), "observation")

    def draw(self, state: State, canvas: Canvas) -> Canvas:
        p = self.params
        limit = jnp.arccos(jnp.clip(p.height_threshold, -1.0, 1.0))
        return draw_cart(self.draw_track(state, canvas), state.pole, limit, p.length, ORANGE)
