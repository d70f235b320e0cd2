"""Trajectories in the layout of TF-Agents."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv.core.timestep import StepType, TimeStep
from jaxenv.data._checks import TrajectoryMode, rows_of
from jaxenv.data._with_last import next_rows
from jaxenv.rollout import Experience


@tree.struct
class Trajectory:
    """Rows in the layout of TF-Agents' ``Trajectory``: leaves ``[T, B, ...]``.

    Observation, action and ``step_type`` are those of row t; reward, discount and ``next_step_type`` those of row
    t + 1, which the action of row t led to.
    """

    step_type: Any
    observation: Any
    action: Any
    policy_info: Any
    next_step_type: Any
    reward: Any
    discount: Any

    def is_first(self) -> jax.Array:
        """Rows that start an episode, bool in the shape of ``step_type``."""
        return self.step_type == np.int32(StepType.FIRST)

    def is_mid(self) -> jax.Array:
        """Rows with more rows of the episode on either side."""
        middle = np.int32(StepType.MID)
        return (self.step_type == middle) & (self.next_step_type == middle)

    def is_last(self) -> jax.Array:
        """Rows whose action ended the episode."""
        return self.next_step_type == np.int32(StepType.LAST)

    def is_boundary(self) -> jax.Array:
        """Rows that lead from the end of an episode to the start of the next: reward 0, discount 1, no step."""
        return self.step_type == np.int32(StepType.LAST)


def to_trajectory(experience: Experience, last: TimeStep, mode: TrajectoryMode = "next_step") -> Trajectory:
    """Converts the rows of an unroll to TF-Agents' layout: leaves ``[T, B, ...]``.

    LAST rows made in ``next_step`` mode are kept as boundaries. LAST rows made in ``same_step`` mode become FIRST: they
    start an episode, and the layout has no field for the observation that ended the previous one. A learner that reads
    next observations from the next row (TF-Agents' ``to_transition``) must not bootstrap truncated rows of such a
    trajectory; use `to_transitions` there.

    Args:
        experience: rows ``[T, B, ...]``.
        last: the TimeStep after them, as `jaxenv.unroll` returns it.
        mode: the ``AutoReset`` mode in which the rows were made.

    Raises:
        ValueError: if the mode or ``last`` does not fit the rows.
    """
    rows = rows_of("to_trajectory", experience, last, mode)
    starts = rows.is_last() if mode == "same_step" else jnp.zeros_like(rows.is_last())
    return Trajectory(
        step_type=jnp.where(starts, np.int32(StepType.FIRST), rows.step_type),
        observation=rows.observation,
        action=experience.action,
        policy_info=experience.policy_info,
        next_step_type=next_rows("to_trajectory", rows.step_type, last.step_type),
        reward=next_rows("to_trajectory", rows.reward, last.reward),
        discount=next_rows("to_trajectory", rows.discount, last.discount),
    )
