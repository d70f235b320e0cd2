"""Draws bandits: a bar for each arm."""

from typing import Any

import jax
import jax.numpy as jnp

from jaxenv.canvas import GREY, INK, PAPER, RED, TEAL, Canvas, mix

_LEFT, _WIDTH = 0.7, 8.6  # of the row of bars; the picture is 10 wide and 10 high
_MIN_TEXT = 4  # pixels, the least height of a legible number
_BOTTOM, _HEIGHT = 2.6, 6.7


class Arms:
    """Places the bars of ``num`` arms, for values from ``low`` to ``high``, numbers or float32 ``[B]``."""

    def __init__(self, num: int, low: Any, high: Any):
        self.num, self.low, self.high, self.slot = num, low, high, _WIDTH / num

    def x(self, arm: Any) -> Any:
        """Returns the x of the middle of an arm's bar."""
        return _LEFT + (arm + 0.5) * self.slot

    def y(self, value: Any) -> Any:
        """Returns the y at which a bar of this value ends."""
        return _BOTTOM + _HEIGHT * (value - self.low) / (self.high - self.low)

    def draw(self, canvas: Canvas, means: jax.Array) -> Canvas:
        """Paints the bars of ``means``, float32 ``[B, num]``; the bars of the best arms are green."""
        best = means == jnp.max(means, axis=-1, keepdims=True)
        canvas = canvas.view((0, 10), (0, 10)).box(5, self.y(0.0), 9.4, 0.08, INK, corner=0.04)
        zero, height = self.y(0.0), min(0.8, 0.5 * self.slot)
        for arm in range(self.num):
            y = jnp.clip(self.y(means[:, arm]), 2.0, 9.7)
            place = self.x(arm), (y + zero) / 2, min(0.72 * self.slot, 2.2), jnp.maximum(jnp.abs(y - zero), 0.2)
            canvas = canvas.box(*place, mix(PAPER, GREY, 0.8)).box(*place, TEAL, alpha=best[:, arm])
            if height * canvas.scale >= _MIN_TEXT:
                canvas = canvas.text(str(arm), self.x(arm), 1.2, height, INK, align=0.5)
        return canvas

    def draw_pull(self, canvas: Canvas, arm: jax.Array, reward: jax.Array, pulled: jax.Array) -> Canvas:
        """Paints the last reward, float32 ``[B]``, above its arm, int32 ``[B]``, in the lanes of ``pulled``."""
        x, y = self.x(arm.astype(jnp.float32)), jnp.clip(self.y(reward), 2.0, 9.7)
        return canvas.disc(x, y, 0.5, PAPER, pulled).disc(x, y, 0.4, RED, pulled)
