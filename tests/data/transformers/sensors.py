"""An environment with several sensors, its rows, and windows of them, for tests of several transformers."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

import jaxenv
from jaxenv import data, specs
from jaxenv.core.timestep import TimeStep
from jaxenv.rollout import Experience
from jaxenv.testing import Counting
from jaxenv.wrappers import AutoReset

# Lengths of each lane's episodes: those of the middle lane end first.
LENGTHS = np.array([[5, 9], [2, 3], [9, 4]])


class Sensors(Counting):
    """Counting with an observation of four ranks and three dtypes; the reward is the action."""

    def observe(self, state):
        count = super().observe(state)
        number = count.astype(jnp.float32)
        return {
            "count": count,
            "place": jnp.stack([number, -number], axis=-1),
            "grid": number[:, None, None] + jnp.zeros((1, 2, 3), jnp.float32),
            "camera": (count[:, None, None, None] * 7 + jnp.zeros((1, 2, 1, 3), jnp.int32)).astype(jnp.uint8),
        }

    def observation_spec(self):
        return {
            "count": specs.Array((), np.int32),
            "place": specs.Bounded((2,), np.float32, [0, -1000], [1000, 0]),
            "grid": specs.Array((2, 3), np.float32),
            "camera": specs.Bounded((2, 1, 3), np.uint8, 0, 255),
        }


def sensors(mode="next_step"):
    return AutoReset(Sensors(LENGTHS, stride=20, num_envs=3), mode)


@functools.cache
def unrolled(mode="next_step", num_steps=24):
    """The rows of a policy that reads the observation only, and the row after them, as NumPy arrays."""
    env = sensors(mode)

    @jax.jit
    def rows():
        policy = lambda timestep, stream: (timestep.observation["count"] * 7 + 1) % 10  # noqa: E731
        (_, last, _), experience = jaxenv.unroll(env, policy, *env.reset(jax.random.key(0)), num_steps)
        return experience, last

    return jax.device_get(rows())


def windows(experience, env_id, position, length):
    """Windows of rows whose positions start at 0."""
    env_id, position = np.array(env_id, np.int32), np.array(position, np.int32)
    row = position[:, None] + np.arange(length)
    rows = jax.tree.map(lambda x: jnp.asarray(x[row, env_id[:, None]]), experience)
    return data.Batch(rows, jnp.asarray(env_id), jnp.asarray(position), jnp.ones(len(env_id), jnp.float32))


def row(reward=(0.0, 1.0, 5.0), step_type=(0, 1, 2), observation=(), env_info=None):
    """One row of three lanes, FIRST, MID and LAST."""
    return TimeStep(
        jnp.array(step_type, jnp.int32),
        jnp.array(reward, jnp.float32),
        jnp.ones(len(step_type), jnp.float32),
        observation,
        env_id=jnp.arange(len(step_type), dtype=jnp.int32),
        env_info={} if env_info is None else env_info,
    )


def batch_of(timestep):
    """The row of every lane as a window of length 1."""
    rows = jax.tree.map(lambda x: x[:, None], timestep)
    count = timestep.step_type.shape[0]
    number = jnp.arange(count, dtype=jnp.int32)
    return data.Batch(Experience(rows), number, jnp.zeros_like(number), jnp.ones(count, jnp.float32))
