"""Blocks of rows that identify themselves, and buffers filled with them."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np

import jaxenv
from jaxenv.core.timestep import TimeStep
from jaxenv.data import Replay
from jaxenv.rollout import Experience
from jaxenv.testing import Counting
from jaxenv.wrappers import AutoReset

FIRST, MID, LAST = 0, 1, 2


def block(first, count, lanes=3, step_type=None):
    """Rows that identify themselves: the observation is 1000 * lane + position, in ``count`` and as bytes.

    Args:
        first: position of the first row, one number or one per lane.
        count: number of rows.
        lanes: the number of lanes, or their numbers.
        step_type: ``[T, K]``; MID by default.
    """
    lanes = np.arange(lanes) if isinstance(lanes, int) else np.asarray(lanes)
    number = 1000 * lanes + np.asarray(first) + np.arange(count)[:, None]
    image = np.stack([number % 251, number % 241], -1).astype(np.uint8)
    step_type = np.full(number.shape, MID) if step_type is None else np.asarray(step_type)
    timestep = TimeStep(
        step_type.astype(np.int32),
        number.astype(np.float32),
        observation={"count": number.astype(np.int32), "image": image},
        env_id=np.broadcast_to(lanes, number.shape).astype(np.int32),
    )
    return Experience(timestep, (number % 7).astype(np.int32))


def flagged(rows, generator):
    """The rows with an image and a mask of random flags, and one flag per row."""
    shapes = {"image": (3, 5, 2), "mask": (9,), "flag": ()}
    lanes = rows.timestep.step_type.shape
    flags = {name: generator.random((*lanes, *shape)) < 0.5 for name, shape in shapes.items()}
    return dataclasses.replace(rows, timestep=dataclasses.replace(rows.timestep, env_info=flags))


init = jax.jit(Replay.init, static_argnums=0)
add = jax.jit(Replay.add, static_argnums=0)
sample = jax.jit(Replay.sample, static_argnums=(0, 3, 4))


@functools.cache
def filled(replay, count):
    """A buffer after ``count`` rows of every lane, added one at a time; compiled once for each buffer."""

    @jax.jit
    def fill():
        rows = jax.tree.map(jnp.asarray, block(0, count, replay.num_envs))
        state = replay.init(rows)
        add_row = lambda state, row: (replay.add(state, jax.tree.map(lambda x: x[None], row)), None)  # noqa: E731
        return jax.lax.scan(add_row, state, rows)[0]

    return fill()


def sample_many(replay, state, batch_size, length=2, draws=200):
    """Lanes and positions of many samples, ``[draws, N]`` each."""

    @jax.jit
    def sample(state, keys):
        batch = jax.lax.map(lambda key: replay.sample(state, key, batch_size, length), keys)
        return batch.env_id, batch.position, batch.experience

    return jax.device_get(sample(state, jax.random.split(jax.random.key(0), draws)))


def stored_rows(replay, state):
    """Lane and position of every stored row."""
    sizes, earliest = (np.broadcast_to(x, replay.num_envs) for x in (replay.size(state), replay.earliest(state)))
    return {(i, p) for i in range(replay.num_envs) for p in range(earliest[i], earliest[i] + sizes[i])}


def unequal_lanes(replay):
    """Lane 0 has wrapped around, lane 1 holds 4 rows, lane 2 none."""

    @jax.jit
    def fill():
        state = replay.init(block(0, 1))
        for first, count, lane in ((0, 5, 0), (0, 4, 1), (5, 4, 0)):
            state = replay.add(state, block(first, count, [lane]), np.array([lane]))
        return state

    return fill()


LENGTHS = np.array([[2, 3], [4, 1], [3, 3]])


@functools.cache
def played(mode, count=24):
    """Rows of three lanes out of phase, the row after them, and a buffer that holds the newest 16."""
    env = AutoReset(Counting(LENGTHS, stride=10, num_envs=3), mode)
    replay = Replay(16, 3, index_episodes=mode == "next_step")

    @jax.jit
    def run():
        state, timestep = env.reset(jax.random.key(0))
        policy = lambda timestep, stream: (timestep.observation * 7 + 1) % 10  # noqa: E731
        (_, last, _), rows = jaxenv.unroll(env, policy, state, timestep, count)
        buffer = replay.init(rows)
        for i in range(0, count, 8):
            buffer = replay.add(buffer, jax.tree.map(lambda x, i=i: x[i : i + 8], rows))
        return rows, last, buffer

    return replay, *jax.device_get(run())
