"""A mask of the rows that start a transition."""

import jax
import numpy as np

from jaxenv.core.timestep import StepType, TimeStep
from jaxenv.data._checks import TrajectoryMode, check_mode, check_timesteps
from jaxenv.data._with_last import next_rows


def transition_mask(timestep: TimeStep, last: TimeStep, mode: TrajectoryMode = "next_step") -> jax.Array:
    """Rows whose action led to the next row, bool ``[T, B]``: the transitions that a learner learns from.

    Reward, discount and observation of an action arrive with the next row, so transition t leads from row t to row
    t + 1, and the last one to ``last``. Three kinds of rows start no transition:

    - LAST rows in ``next_step`` mode, whose action is ignored;
    - rows before a FIRST row, such as one at which ``reset_where`` interrupted an episode;
    - rows before an abnormal one (``env_info["abnormal"]``, set by `GuardNonFinite` or by the task itself), whose
      reward and observation are replacements.

    Args:
        timestep: rows ``[T, B]``; ``step_type`` is read, and ``env_info["abnormal"]`` where present.
        last: the row after them, ``[B]``.
        mode: the ``AutoReset`` mode in which the rows were made: ``"next_step"`` if a FIRST row follows each LAST row,
            ``"same_step"`` if LAST rows already show the first observation of the next episode.

    Raises:
        ValueError: for an unknown mode, ``"next_step"`` where the rows or ``last`` hold
            ``env_info["final_observation"]``, or ``env_info["abnormal"]`` in only one of them.
    """
    check_timesteps("transition_mask", timestep, last)
    check_mode("transition_mask", timestep, mode, last)
    mask = next_rows("transition_mask", timestep.step_type, last.step_type) != np.int32(StepType.FIRST)
    if mode == "next_step":
        mask &= timestep.step_type != np.int32(StepType.LAST)
    kept, after = ("abnormal" in row.env_info for row in (timestep, last))
    if kept != after:
        lacks, remedy = ("last", "") if kept else ("the rows", ": keep env_info.abnormal in unroll(fields=...)")
        raise ValueError(f"transition_mask: env_info['abnormal'] must be in both, {lacks} must have it{remedy}")
    if kept:
        mask &= ~next_rows("transition_mask", timestep.env_info["abnormal"], last.env_info["abnormal"])
    return mask
