"""Draws ``catalogue/ID.png``: each environment after random steps. ``python docs/pictures/catalogue.py [ID ...]``.

The catalogue of the documentation shows them. A test asks for one picture per id.
"""

import pathlib
import sys

import jax
import numpy as np
from PIL import Image

import jaxenv

SIZE, COLOURS, STEPS, BUSY_STEPS, BUSY_LANES = 256, 128, 8, 60, 64
FOLDER = pathlib.Path(__file__).parent / "catalogue"
# Games whose screen is nearly empty after a few steps: the step and lane with the most objects are shown.
BUSY = ("Asterix-MinAtar", "Seaquest-MinAtar")
# Games whose board fills slowly.
LONG = ("Go-9x9-v0", "Hex-11x11-v0")


def picture(id: str) -> np.ndarray:
    """The picture of one lane, uint8 ``[SIZE, SIZE, 3]``."""
    env = jaxenv.make(id, BUSY_LANES if id in BUSY else 2)
    policy = jaxenv.rollout.random_policy(env)
    state, timestep = env.reset(jax.random.key(4))
    if id not in BUSY:
        (state, _, _), _ = jaxenv.unroll(env, policy, state, timestep, BUSY_STEPS if id in LONG else STEPS)
        return np.asarray(env.render(state, SIZE))[1]
    advance = jax.jit(lambda state, timestep: jaxenv.unroll(env, policy, state, timestep, 1)[0])
    best, busiest, lane = -1, state, 0
    for _ in range(BUSY_STEPS):
        state, timestep, _ = advance(state, timestep)
        objects = np.asarray(timestep.observation).sum((1, 2, 3))
        if objects.max() > best:
            best, busiest, lane = objects.max(), state, int(objects.argmax())
    return np.asarray(env.render(busiest, SIZE))[lane]


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for id in sys.argv[1:] or jaxenv.ids():
        image = Image.fromarray(picture(id)).quantize(COLOURS, dither=Image.Dither.NONE)
        image.save(FOLDER / f"{id}.png", optimize=True)
