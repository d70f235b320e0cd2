"""Episodes that end by the task, by the limit, and by both at once, for tests of what adapters report."""

import numpy as np

from jaxenv.testing import Counting
from jaxenv.wrappers import AutoReset, TimeLimit

LIMIT = 3
LENGTHS = np.array([[3], [5], [2], [4]])  # both at once, the limit, the task, the limit
LANES = len(LENGTHS)
# By step, from 1 to LIMIT: both kinds of end exclude each other, and a termination wins.
TERMINATED = np.array([[0, 0, 0, 0], [0, 0, 1, 0], [1, 0, 0, 0]], bool)
TRUNCATED = np.array([[0, 0, 0, 0], [0, 0, 0, 0], [0, 1, 0, 1]], bool)


def ending(mode=None):
    """All four lanes, in a mode of AutoReset."""
    env = TimeLimit(Counting(LENGTHS, num_envs=LANES), LIMIT)
    return env if mode is None else AutoReset(env, mode)


def ending_alone(lane):
    """One of the lanes."""
    return TimeLimit(Counting(LENGTHS[lane]), LIMIT)
