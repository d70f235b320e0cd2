"""Base class of bsuite's two tasks with a pole on a cart: physics, time, and most of the observation."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import specs, tree
from jaxenv.canvas import BROWN, GREY, SILVER, Canvas
from jaxenv.core import Task, sin_cos
from jaxenv.envs.classic_control.cart_pole import Params as Physics
from jaxenv.envs.classic_control.cart_pole import State as Pole
from jaxenv.envs.classic_control.cart_pole import euler

_TWO_PI = 2 * np.pi
# 2 * pi in two parts. Products of the first with small integers are exact in float32.
_TWO_PI_HIGH, _TWO_PI_LOW = np.float32(6.28125), np.float32(_TWO_PI - 6.28125)


class PoleTask(Task):
    """A pole on a cart, pushed left, not at all or right, in episodes of at most ``max_time`` seconds."""

    # Physical constants, among them gravity, mass_cart, mass_pole, length, force, x_threshold and init_range.
    params: Any = None
    timescale: float = tree.static(default=0.01, above=0, below=np.inf, doc="duration of a step, in s")
    max_time: float = tree.static(default=10.0, above=0, below=np.inf, doc="seconds of an episode, at most 1e7 steps")
    action_names = ("left", "none", "right")
    play_fps = 30

    def check(self) -> None:
        if self.max_time / self.timescale > 1e7:
            rule = "max_time must be at most 1e7 times timescale"
            raise ValueError(f"{self}: {rule}, got {self.max_time} and {self.timescale}")

    def push(self, pole: Pole, action: jax.Array) -> Pole:
        """Advances cart and pole by one step. The angle stays in [-pi, pi]: float32 is most precise near 0."""
        p = self.params
        force = (action - 1).astype(jnp.float32) * p.force
        pole = euler(pole, force, Physics(p.gravity, p.mass_cart, p.mass_pole, p.length, tau=self.timescale))
        return tree.rebuild(pole, theta=_wrap(pole.theta))

    def columns(self, pole: Pole, steps: jax.Array) -> list[jax.Array]:
        """Returns the first six numbers of an observation, each float32 ``[B]``."""
        sin, cos = sin_cos(pole.theta)
        scale = self.params.x_threshold
        time = steps.astype(jnp.float32) * np.float32(self.timescale / self.max_time)
        return [pole.x / scale, pole.x_dot / scale, sin, cos, pole.theta_dot, time]

    def column_bounds(self) -> tuple[list[float], list[float]]:
        """Returns the lower and the upper bounds of `columns`."""
        last_time = np.float32(self.last_step) * np.float32(self.timescale / self.max_time)
        return [-np.inf, -np.inf, -1, -1, -np.inf, 0], [np.inf, np.inf, 1, 1, np.inf, float(last_time)]

    @property
    def last_step(self) -> int:
        """Returns the step after which the time, summed in float64 as in bsuite, exceeds ``max_time``."""
        return last_step(self.timescale, self.max_time)

    def action_spec(self) -> specs.Bounded:
        return specs.discrete(3, name="action")

    # --- the picture -------------------------------------------------------------------------------------------------

    def draw_track(self, state: Any, canvas: Canvas) -> Canvas:
        """Paints the track with its ends, and the elapsed time below."""
        elapsed, end = state.steps.astype(jnp.float32) / self.last_step, self.params.x_threshold
        canvas = canvas.view((0, 1), (0, 1)).gauge(elapsed, 0.03, 0.02, 0.94, 0.033, GREY, SILVER)
        canvas = canvas.view((-3, 3), (-1.5, 1.5), margin=0.03).zoom(end / 3)
        canvas = canvas.line(-end, -0.42, end, -0.42, 0.08, BROWN)
        return canvas.box(-end, -0.42, 0.1, 0.4, BROWN, corner=0.03).box(end, -0.42, 0.1, 0.4, BROWN, corner=0.03)


@functools.lru_cache(maxsize=256)
def last_step(timescale: float, max_time: float) -> int:
    """The step after which a time accumulated in float64, as in bsuite, exceeds ``max_time``.

    In float64, 1000 additions of 0.01 stay below 10, while 3 additions of 0.1 exceed 0.3.
    """
    times = np.cumsum(np.full(int(max_time / timescale) + 2, timescale))
    return int(np.argmax(times > max_time)) + 1


def _wrap(angle: jax.Array) -> jax.Array:
    turns = jnp.round(angle * np.float32(1 / _TWO_PI))
    return (angle - turns * _TWO_PI_HIGH) - turns * _TWO_PI_LOW
