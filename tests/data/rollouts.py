"""A rollout of three lanes out of phase, for tests of transitions and trajectories."""

import functools

import jax
import numpy as np

import jaxenv
from jaxenv.testing import Counting
from jaxenv.wrappers import AutoReset, TimeLimit

# Lengths of each lane's episodes. The limit of 3 steps ends those of the middle lane, the task ends the others.
LENGTHS = np.array([[2, 3], [9, 9], [3, 1]])


@functools.cache
def unrolled(mode, num_steps=10):
    """The rows of a policy that reads the observation only, and the row after them, as NumPy arrays."""
    env = AutoReset(TimeLimit(Counting(LENGTHS, stride=10, num_envs=3), 3), mode)

    @jax.jit
    def rows():
        state, timestep = env.reset(jax.random.key(0))
        policy = lambda timestep, stream: (timestep.observation * 7 + 1) % 10  # noqa: E731
        (_, last, _), experience = jaxenv.unroll(env, policy, state, timestep, num_steps)
        return experience, last

    return jax.device_get(rows())


def lane(x, i):
    return x[:, i].tolist()
