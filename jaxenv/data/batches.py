"""What a replay buffer gives: windows of rows, and what learners do with them before they learn."""

from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, tree
from jaxenv.data import checks
from jaxenv.data.rows import StreamMode, check_stream
from jaxenv.rollout import Experience
from jaxenv.timestep import StepType, TimeStep

T = TypeVar("T")


@tree.struct
class Batch:
    """Windows of L consecutive rows of one lane each, as they were added.

    Attributes:
        experience: leaves ``[N, L, ...]``; ``timestep.env_id`` is filled in from the lane, it is never stored.
        env_id: int32 ``[N]``, the lane a window comes from.
        position: int32 ``[N]``, the position of its first row. The rows of a lane are numbered from 0 since ``init``,
            for ever.
        weight: float32 ``[N]``, importance weights: what a window's loss is multiplied by. 1 where sampling is uniform.
    """

    experience: Experience
    env_id: jax.Array
    position: jax.Array
    weight: jax.Array

    @property
    def length(self) -> int:
        """L, rows in a window."""
        return self.experience.timestep.step_type.shape[1]

    def split(self) -> tuple[Experience, TimeStep]:
        """Rows ``[L - 1, N, ...]`` and the TimeStep ``[N, ...]`` after them: time first, as `jaxenv.unroll` gives them.

        Raises:
            ValueError: if the windows have one row.
        """
        if self.length < 2:
            raise ValueError("Batch.split: windows need at least 2 rows, got 1")
        rows = jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), self.experience)
        return jax.tree.map(lambda x: x[:-1], rows), jax.tree.map(lambda x: x[-1], rows.timestep)

    def windows(self, length: int) -> "Batch":
        """Cuts every window into windows of ``length`` rows, one after the other: leaves ``[N * L / length, length]``.

        Raises:
            ValueError: if ``length`` does not divide L; the message names the nearest that does.
        """
        if length < 1 or self.length % length:
            near = _nearest_divisor(self.length, length)
            raise ValueError(f"Batch.windows: length must divide the {self.length} rows, got {length}; {near} does")
        parts = self.length // length
        offset = np.arange(parts, dtype=np.int32) * np.int32(length)
        return Batch(
            jax.tree.map(lambda x: x.reshape(-1, length, *x.shape[2:]), self.experience),
            jnp.repeat(self.env_id, parts),
            (self.position[:, None] + offset[None]).reshape(-1),
            jnp.repeat(self.weight, parts),
        )


def episode_mask(timestep: TimeStep, mode: StreamMode = "next_step") -> jax.Array:
    """Rows of the same episode as the first row of their window, bool ``[N, L]``.

    A row belongs to the episode of its observation: in ``same_step`` streams a LAST row begins the next one.

    Args:
        timestep: windows ``[N, L]``; ``step_type`` is read.
        mode: of the stream's ``AutoReset``.

    >>> from jaxenv import TimeStep
    >>> episode_mask(TimeStep(step_type=np.array([[1, 2, 0, 1], [2, 0, 1, 2]]))).tolist()
    [[True, True, False, False], [True, False, False, False]]
    """
    check_stream("episode_mask", timestep, mode)
    step_type = jnp.asarray(timestep.step_type)
    starts = step_type == np.int32(StepType.FIRST)
    if mode == "same_step":
        starts |= step_type == np.int32(StepType.LAST)
    begun = jax.lax.cumsum(starts[:, 1:].astype(jnp.int32), axis=1) > 0
    return jnp.concatenate([jnp.ones_like(starts[:, :1]), ~begun], axis=1)


def minibatches(
    key: jax.Array | random.Stream, batch: T, num_minibatches: int | None = None, *, size: int | None = None
) -> T:
    """Shuffles the leading axis of every leaf alike and cuts it: ``[N, ...]`` to ``[num_minibatches, size, ...]``.

    Nothing is dropped or used twice.

    Args:
        key: one typed key, or a stream of shape ``()``.
        batch: any tree of arrays that lead with the same N.
        num_minibatches: how many; it must divide N.
        size: instead of it, how large they should be: there are ``N // size`` of at least that size, 8 of 33 for 32 of
            264. Their number must divide N.

    Raises:
        ValueError: if N cannot be cut equally; the message names the nearest number that can.

    >>> import jax
    >>> rows = jax.numpy.arange(264)
    >>> minibatches(jax.random.key(0), {"rows": rows}, size=32)["rows"].shape
    (8, 33)
    """
    shapes = {jnp.shape(x)[:1] for x in jax.tree.leaves(batch)}
    if len(shapes) != 1 or () in shapes:
        raise ValueError(f"minibatches: all leaves must lead with the same number of rows, got {sorted(shapes)}")
    ((count,),) = shapes
    if (num_minibatches is None) == (size is None):
        raise ValueError("minibatches: pass either num_minibatches or size")
    for name, value in (("num_minibatches", num_minibatches), ("size", size)):
        if value is not None and not checks.is_whole(value, -(2**31)):
            raise ValueError(f"minibatches: {name} must be a whole number, got {value!r}")
    if size is not None:
        if not 1 <= size <= count:
            raise ValueError(f"minibatches: size must be in 1 .. {count}, got {size}")
        number = count // size
        asked = f"size {size} asks for {number} minibatches"
    else:
        number = int(num_minibatches or 0)
        asked = f"num_minibatches is {num_minibatches}"
    if number < 1 or count % number:
        near = _nearest_divisor(count, number)
        raise ValueError(f"minibatches: {count} rows cannot be cut equally: {asked}; {near} of {count // near} can")
    order = random.permutation(checks.one_stream("minibatches", key), count)
    return jax.tree.map(lambda x: jnp.take(x, order, axis=0, mode="clip").reshape(number, -1, *x.shape[1:]), batch)


def _nearest_divisor(total: int, wanted: int) -> int:
    return min((n for n in range(1, total + 1) if total % n == 0), key=lambda n: abs(n - wanted))
