"""Trains SAC on Pendulum and draws ``learning.gif``: the same task before, early in and after training.

``python docs/pictures/learning.py``. It trains four seeds for about a minute and shows the best one.
"""

import pathlib

import jax
import jax.numpy as jnp
import numpy as np
from PIL import Image

import jaxenv
from jaxenv import canvas
from jaxenv.training import sac

CONFIG = sac.Config(num_eval_episodes=32, num_evaluations=19)  # Pendulum-v1, 20,000 steps
SHOWN = {0: "before training", 1: "2,000 steps", 19: "20,000 steps"}  # by the number of evaluations
SIZE, GAP, LETTER, STEPS, FPS = 200, 14, 11, 200, 25
KEY, SEEDS = 3, 4
PAPER = np.round(canvas.PAPER * 255).astype(np.uint8)


def learners():
    """The learner before training and after the evaluations in ``SHOWN``, of the seed that is best in the end."""
    train = sac.make_train(CONFIG)
    init, iteration = train.init, train.iteration
    advance = jax.jit(jax.vmap(iteration))
    learner = jax.jit(jax.vmap(init))(jax.random.split(jax.random.key(0), SEEDS))
    kept = {0: learner}
    for number in range(1, CONFIG.num_evaluations + 1):
        learner, curve = advance(learner)
        means = np.asarray(curve.returns).mean(axis=1)
        print(f"{int(curve.steps[0]):>9,}", *(f"{mean:6.1f}" for mean in means), flush=True)
        if number in SHOWN:
            kept[number] = learner
    return {number: jax.tree.map(lambda x: x[means.argmax()], one) for number, one in kept.items()}


def played(learner):
    """Pictures uint8 ``[T, H, W, 3]``, the return so far and the number of finished episodes of one lane, ``[T]``."""
    env = jaxenv.make(CONFIG.env_id)
    policy, memory = sac.make_policy(CONFIG, env, learner.params, learner.statistics)

    def step(carry, _):
        state, timestep, total = carry
        shown = env.render(state, SIZE)[0], total[0]
        (state, timestep, _), _ = jaxenv.unroll(env, policy, state, timestep, 1, initial_memory=memory)
        total = jnp.where(timestep.is_first(), 0, total) + timestep.reward
        return (state, timestep, total), shown

    start = (*env.reset(jax.random.key(KEY)), jnp.zeros(1))
    return jax.device_get(jax.jit(lambda: jax.lax.scan(step, start, None, length=STEPS)[1])())


def label(frame, text, centre, top, height, colour):
    """Writes centred text."""
    canvas.write(frame, text, round(centre - canvas.text_width(text, height) / 2), top, height, colour)


films = {number: played(learner) for number, learner in learners().items()}
width = len(SHOWN) * (SIZE + GAP) + GAP
height = SIZE + 5 * LETTER + GAP
images = []
for t in range(STEPS):
    frame = np.empty((height, width, 3), np.uint8)
    frame[:] = PAPER
    for place, (number, text) in enumerate(SHOWN.items()):
        pictures, totals = films[number]
        left = GAP + place * (SIZE + GAP)
        top = 2 * LETTER + GAP // 2
        frame[top : top + SIZE, left : left + SIZE] = pictures[t]
        label(frame, text, left + SIZE / 2, LETTER, LETTER, canvas.INK)
        label(frame, f"return {totals[t]:.0f}", left + SIZE / 2, top + SIZE + LETTER, LETTER, canvas.INK)
    images.append(Image.fromarray(frame))
palette = Image.fromarray(np.concatenate([np.asarray(image) for image in images[::30]])).quantize(64)
pages = [image.quantize(palette=palette, dither=Image.Dither.NONE) for image in images]
path = pathlib.Path(__file__).parent / "learning.gif"
pages[0].save(path, save_all=True, append_images=pages[1:], duration=round(1000 / FPS), loop=0, optimize=True)
print(f"{path.name}  {path.stat().st_size / 1000:,.0f} kB")
