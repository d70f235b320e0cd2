"""Windows of consecutive rows from a replay buffer."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv._util.checks import check_integer
from jaxenv.core.timestep import StepType, TimeStep
from jaxenv.data.rows import TrajectoryMode, check_mode, nearest_divisor
from jaxenv.rollout import Experience


@tree.struct
class Batch:
    """N windows of L consecutive rows of one lane each, as they were added.

    Attributes:
        experience: leaves ``[N, L, ...]``. ``timestep.env_id`` is restored from the lane; it is never stored.
        env_id: int32 ``[N]``, the lane of each window.
        position: int32 ``[N]``, the position of its first row. The rows of a lane are numbered from 0 since ``init``.
        weight: float32 ``[N]``, importance weights by which losses are multiplied; 1 if sampling is uniform.
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
        """Returns rows ``[L - 1, N, ...]`` and the TimeStep ``[N, ...]`` after them, as `jaxenv.unroll` does."""
        if self.length < 2:
            raise ValueError("Batch.split: windows must have at least 2 rows, got 1")
        rows = jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), self.experience)
        return jax.tree.map(lambda x: x[:-1], rows), jax.tree.map(lambda x: x[-1], rows.timestep)

    def windows(self, length: int) -> "Batch":
        """Splits every window into consecutive windows of ``length`` rows: leaves ``[N * L / length, length]``."""
        check_integer("Batch.windows", "length", length, 1)
        if self.length % length:
            near = nearest_divisor(self.length, length)
            raise ValueError(f"Batch.windows: length must divide the {self.length} rows, got {length}; {near} does")
        parts = self.length // length
        offset = np.arange(parts, dtype=np.int32) * np.int32(length)
        return Batch(
            jax.tree.map(lambda x: x.reshape(-1, length, *x.shape[2:]), self.experience),
            jnp.repeat(self.env_id, parts),
            (self.position[:, None] + offset[None]).reshape(-1),
            jnp.repeat(self.weight, parts),
        )


def episode_mask(timestep: TimeStep, mode: TrajectoryMode = "next_step") -> jax.Array:
    """Marks the rows in the same episode as the first row of their window, bool ``[N, L]``.

    A row belongs to the episode of its observation: in ``same_step`` mode a LAST row starts the next episode. The
    ``step_type`` of ``batch.experience.timestep`` is read; rows that ``batch.split()`` returned lead with time instead.

    >>> from jaxenv import TimeStep
    >>> episode_mask(TimeStep(step_type=np.array([[1, 2, 0, 1], [2, 0, 1, 2]]))).tolist()
    [[True, True, False, False], [True, False, False, False]]
    """
    if not isinstance(timestep, TimeStep):
        raise ValueError(f"episode_mask: timestep must be a TimeStep, got {type(timestep).__name__}")
    if jnp.ndim(timestep.step_type) != 2:
        got = f"step_type of shape {jnp.shape(timestep.step_type)}"
        raise ValueError(f"episode_mask: timestep must hold windows [N, L], got {got}")
    check_mode("episode_mask", timestep, mode)
    step_type = jnp.asarray(timestep.step_type)
    starts = step_type == np.int32(StepType.FIRST)
    if mode == "same_step":
        starts |= step_type == np.int32(StepType.LAST)
    is_later_episode = jax.lax.cumsum(starts[:, 1:].astype(jnp.int32), axis=1) > 0
    return jnp.concatenate([jnp.ones_like(starts[:, :1]), ~is_later_episode], axis=1)
