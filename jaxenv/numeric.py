"""Elementwise arithmetic that a compiler cannot make wrong."""

from typing import Any

import jax
import jax.numpy as jnp


def clip(x: jax.Array, low: Any, high: Any) -> jax.Array:
    """``x`` within [low, high], in its dtype; NaN stays NaN. Bounds broadcast to ``x``.

    ``jnp.clip`` has the wrong gradient where the compiler computes ``x`` twice and rounds differently (XLA's CPU back
    end contracts products and sums in one consumer and not in another): its derivative asks whether result and argument
    are equal. That of ``clamp`` asks on which side of the bounds the argument lies.
    """
    low, high = (jnp.broadcast_to(jnp.asarray(bound, x.dtype), x.shape) for bound in (low, high))
    return jax.lax.clamp(low, x, high)
