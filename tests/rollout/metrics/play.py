"""A rollout whose lanes terminate and are truncated out of phase, measured as a whole and in two halves."""

import functools
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxenv.rollout import Metrics, random_policy, unroll
from jaxenv.testing import Counting
from jaxenv.wrappers import AutoReset, TimeLimit
from tests.rollout.metrics.trajectories import initial_state

MODES = ["next_step", "same_step"]
STEPS = 58
GAMMA = 0.9
FIELDS = ["step_type", "reward", "discount"]
METRICS = Metrics(gamma=GAMMA)

update_rows = jax.jit(METRICS.update_rows)
totals = jax.jit(METRICS.totals)
compute = jax.jit(METRICS.compute)


class Measured(NamedTuple):
    rows: Any
    state: Any
    totals: Any
    metrics: Any
    first_half: Any = None
    second_half: Any = None


def measure(state, rows):
    state = update_rows(state, rows)
    return Measured(rows, state, totals(state), compute(totals(state)))


@functools.cache
def play(mode):
    lengths = np.array([[2, 7, 3], [9, 1, 4], [5, 5, 6], [3, 3, 3]])
    env = AutoReset(TimeLimit(Counting(lengths, num_envs=4), np.array([4, 3, 5, 3])), mode)
    run = jax.jit(lambda key: unroll(env, random_policy(env), *env.reset(key), STEPS, fields=FIELDS)[1].timestep)
    rows = jax.device_get(run(jax.random.key(0)))
    start = initial_state(METRICS, rows)
    first = measure(start, jax.tree.map(lambda x: x[: STEPS // 2], rows))
    second = measure(METRICS.clear_finished(first.state), jax.tree.map(lambda x: x[STEPS // 2 :], rows))
    return measure(start, rows)._replace(first_half=first, second_half=second)
