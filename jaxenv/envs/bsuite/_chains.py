"""What the memory chain and the umbrella chain share: fair coins from random words, and a bar for the time."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv.canvas import INK, Canvas
from jaxenv.envs._drawing import timeline


def num_words(num: int) -> int:
    """Returns the number of words that hold ``num`` coins."""
    return -(-num // 32)


def flips(words: Sequence[jax.Array], num: int) -> jax.Array:
    """Returns the first ``num`` bits of ``words`` (each uint32 ``[B]``), lowest bit first: bool ``[B, num]``."""
    places = [np.arange(min(32, num - start), dtype=np.uint32)[None] for start in range(0, num, 32)]
    bits = [(word[:, None] >> place) & np.uint32(1) for word, place in zip(words, places, strict=True)]
    return jnp.concatenate(bits, axis=-1) != 0


def draw_steps_left(canvas: Canvas, time: jax.Array, last: Any) -> Canvas:
    """Paints a bar for the ``time`` passed of ``last`` steps, and the number of remaining steps."""
    last = jnp.asarray(last, jnp.int32)
    canvas = timeline(canvas, 0.8, 7.2, 0.95, time.astype(jnp.float32) / last.astype(jnp.float32))
    return canvas.number(jnp.maximum(last - time, 0), 9.6, 0.6, 0.75, INK, digits=3, align=1)
