"""Trajectories written down by hand, and their metrics."""

import functools

import jax
import numpy as np

from jaxenv.core.timestep import TimeStep
from jaxenv.rollout import to_host


def trajectory(step_type, reward=None, discount=None, **env_info):
    """Rows ``[6, 3]`` from one string of F, M, L per lane; a T is an L with discount 1.

    Rows and lanes that are missing are filled with FIRST rows, which are not steps, so that all trajectories share one
    compiled function.
    """
    lanes, steps = len(step_type), len(step_type[0])
    size = max(steps, 6), max(lanes, 3)

    def padded(x, fill=0):
        x = np.moveaxis(np.asarray(x), 0, 1)
        return np.pad(x, [(0, size[0] - steps), (0, size[1] - lanes)] + [(0, 0)] * (x.ndim - 2), constant_values=fill)

    kinds = np.array([list(lane) for lane in step_type])
    codes = np.select([kinds == "F", kinds == "M"], [0, 1], 2).astype(np.int32)
    return TimeStep(
        step_type=padded(codes),
        reward=padded(np.asarray(codes > 0 if reward is None else reward, np.float32)),
        discount=padded(np.asarray(kinds != "L" if discount is None else discount, np.float32), 1),
        env_info={name: padded(x) for name, x in env_info.items()},
    )


def initial_state(metrics, rows):
    return metrics.init(jax.tree.map(lambda x: x[0], rows))


@functools.cache
def compiled(metrics):
    """A function from a trajectory to its metrics, on the device."""

    def compute(rows):
        return metrics.compute(metrics.totals(metrics.update_rows(initial_state(metrics, rows), rows)))

    return jax.jit(compute)


def computed(metrics, rows):
    return to_host(compiled(metrics)(rows))
