"""Maps of all rows of replayed windows as one batch."""

import dataclasses
from collections.abc import Callable

import jax

from jaxenv.core.timestep import TimeStep
from jaxenv.data.replay.batch import Batch


def flatten_windows(batch: Batch) -> TimeStep:
    """All rows of windows ``[N, L, ...]``: ``[N * L, ...]``."""
    number, length = _shape(batch)
    return jax.tree.map(lambda x: x.reshape(number * length, *x.shape[2:]), batch.experience.timestep)


def map_windows(fn: Callable[[TimeStep], TimeStep], batch: Batch) -> Batch:
    """Applies a function of rows ``[R, ...]`` to all rows of windows ``[N, L, ...]``."""
    rows = fn(flatten_windows(batch))
    return with_timestep(batch, jax.tree.map(lambda x: x.reshape(*_shape(batch), *x.shape[1:]), rows))


def with_timestep(batch: Batch, timestep: TimeStep) -> Batch:
    """The windows with other rows."""
    return dataclasses.replace(batch, experience=dataclasses.replace(batch.experience, timestep=timestep))


def _shape(batch: Batch) -> tuple[int, int]:
    return jax.tree.leaves(batch.experience.timestep)[0].shape[:2]
