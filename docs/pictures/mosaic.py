"""Draws ``mosaic.png``: every environment after a few random steps. ``python docs/pictures/mosaic.py [ID ...]``."""

import pathlib
import sys

import jax
import numpy as np
from PIL import Image

import jaxenv

SIZE, GAP, COLUMNS = 128, 6, 9
LEFT_OUT = ("CartPole-v0", "MaskedCartPole-v0")  # which look like the next version


def picture(id: str) -> np.ndarray:
    """The picture of one lane, uint8 ``[SIZE, SIZE, 3]``."""
    env = jaxenv.make(id, 2)
    policy = jaxenv.rollout.random_policy(env)
    (state, _, _), _ = jaxenv.unroll(env, policy, *env.reset(jax.random.key(4)), 8)
    return np.asarray(env.render(state, SIZE))[1]


pictures = [picture(id) for id in sys.argv[1:] or jaxenv.ids() if id not in LEFT_OUT]
rows = -(-len(pictures) // COLUMNS)
mosaic = np.full((rows * (SIZE + GAP) - GAP, COLUMNS * (SIZE + GAP) - GAP, 3), 255, np.uint8)
for number, one in enumerate(pictures):
    top, left = (n * (SIZE + GAP) for n in divmod(number, COLUMNS))
    mosaic[top : top + SIZE, left : left + SIZE] = one
image = Image.fromarray(mosaic).quantize(256, dither=Image.Dither.NONE)
image.save(pathlib.Path(__file__).parent / "mosaic.png", optimize=True)
