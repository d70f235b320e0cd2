"""The T rows of an unroll and the one after them, which together hold T transitions.

An action's reward, discount and observation arrive with the next row, so that transition t leads from row t to row
t + 1, and the last one to the TimeStep that `jaxenv.unroll` returns beside the rows.
"""

from collections.abc import Callable
from typing import Any, Literal, TypeAlias, TypeVar, get_args

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv._checks import is_concrete
from jaxenv.timestep import StepType, TimeStep

T = TypeVar("T")
StreamMode: TypeAlias = Literal["next_step", "same_step"]


def with_last(timestep: T, last: T) -> T:
    """Appends the TimeStep that follows: leaves ``[T, B, ...]`` and ``[B, ...]`` to ``[T + 1, B, ...]``.

    Works for any tree whose leaves are in ``last`` too, which may hold more (``unroll(fields=...)`` keeps a part).

    Raises:
        ValueError: for a leaf that ``last`` lacks or that has another shape there.

    >>> import jax.numpy as jnp
    >>> with_last(jnp.array([[1, 2], [3, 4]]), jnp.array([5, 6])).tolist()
    [[1, 2], [3, 4], [5, 6]]
    """
    return _joined(timestep, last, lambda x, end: jnp.concatenate([x, end[None]]))


def next_rows(timestep: T, last: T) -> T:
    """Row t + 1 in place of row t, leaves ``[T, B, ...]``; ``last`` comes in at the end."""
    # Not a slice of `with_last`: the compiler writes all of that to memory before it takes the slice.
    return _joined(timestep, last, lambda x, end: jnp.concatenate([x[1:], end[None]])[: x.shape[0]])


def _joined(timestep: T, last: T, join: Callable[[jax.Array, jax.Array], jax.Array]) -> T:
    found = dict(tree.flatten_with_path(last)[0])

    def joined(path, x):
        if path not in found or jnp.shape(found[path]) != jnp.shape(x)[1:]:
            there = f"has shape {jnp.shape(found[path])}" if path in found else "is missing"
            raise ValueError(
                f"with_last: {tree.path_name(path) or 'the leaf'} {there} in last, rows are {jnp.shape(x)[1:]}"
            )
        return join(x, found[path])

    return jax.tree_util.tree_map_with_path(joined, timestep)


def transition_mask(timestep: TimeStep, last: TimeStep, mode: StreamMode = "next_step") -> jax.Array:
    """Rows whose action led to the next row, bool ``[T, B]``: those that a learner learns from.

    Three kinds of row are no beginning of a transition: LAST rows of a ``next_step`` stream, whose action is ignored;
    rows before a FIRST row, such as one at which ``reset_where`` broke an episode off; and rows before an abnormal one
    (``env_info["abnormal"]``, which `GuardNonFinite` sets), whose reward and observation are made up.

    Args:
        timestep: rows ``[T, B]``; ``step_type`` is read, and ``env_info["abnormal"]`` where it is there.
        last: the row after them, ``[B]``.
        mode: ``"next_step"`` for streams in which a FIRST row follows a LAST one, ``"same_step"`` for streams whose
            LAST rows already show the next episode's first observation.

    Raises:
        ValueError: for an unknown mode, or ``"next_step"`` for rows that hold ``env_info["final_observation"]``. Rows
            without ``env_info`` (``unroll(fields=...)``) do not tell their mode.
    """
    check_timesteps("transition_mask", timestep, last)
    check_stream("transition_mask", timestep, mode)
    mask = next_rows(timestep.step_type, last.step_type) != np.int32(StepType.FIRST)
    if mode == "next_step":
        mask &= timestep.step_type != np.int32(StepType.LAST)
    if "abnormal" in timestep.env_info:
        mask &= ~next_rows(timestep.env_info["abnormal"], last.env_info["abnormal"])
    return mask


# --- checks ----------------------------------------------------------------------------------------------------------


def check_mode(name: str, mode: Any) -> None:
    """Refuses what is not the mode of a stream."""
    if mode not in get_args(StreamMode):
        raise ValueError(f"{name}: mode must be 'next_step' or 'same_step', got {mode!r}")


def check_stream(name: str, timestep: TimeStep, mode: Any, remedy: str = "pass mode='same_step'") -> None:
    """Refuses an unknown mode, and rows of a ``same_step`` stream taken for ``next_step`` ones, where they tell."""
    check_mode(name, mode)
    if mode == "next_step" and "final_observation" in timestep.env_info:
        raise ValueError(f"{name}: the rows hold env_info['final_observation'], {remedy}")


def check_timesteps(name: str, timestep: Any, last: Any) -> None:
    """Refuses what is no TimeStep."""
    for argument, x in (("timestep", timestep), ("last", last)):
        if not isinstance(x, TimeStep):
            raise ValueError(f"{name}: {argument} must be a TimeStep, got {type(x).__name__}")


def check_steps(name: str, n: Any) -> int:
    """A number of steps as int; refuses what is none."""
    if isinstance(n, bool) or not isinstance(n, int | np.integer):
        raise ValueError(f"{name}: n must be a whole number, got {n!r}")
    if n < 1:
        raise ValueError(f"{name}: n must be at least 1, got {n}")
    return int(n)


def check_rows(name: str, timestep: TimeStep, last: TimeStep) -> None:
    """Refuses rows without the fields that returns read, and a last row that does not belong to them."""
    check_timesteps(name, timestep, last)
    batch = jnp.shape(timestep.step_type)[1:]
    for field in ("step_type", "reward", "discount"):
        x, y = getattr(timestep, field), getattr(last, field)
        if isinstance(x, tuple):
            raise ValueError(f"{name}: timestep.{field} is missing, keep it in unroll(fields=...)")
        if jnp.shape(x)[:1] != jnp.shape(timestep.step_type)[:1] or jnp.shape(x)[1:][: len(batch)] != batch:
            raise ValueError(
                f"{name}: timestep.{field} has shape {jnp.shape(x)}, "
                f"timestep.step_type {jnp.shape(timestep.step_type)}: both lead with [T, B]"
            )
        if jnp.shape(y) != jnp.shape(x)[1:]:
            raise ValueError(
                f"{name}: last.{field} must have the shape {jnp.shape(x)[1:]} of a row, got {jnp.shape(y)}"
            )


def coefficient(name: str, argument: str, value: Any, timestep: TimeStep) -> jax.Array:
    """A number in [0, 1], or one per lane ``[B]``, as float32 that multiplies arrays in the shape of the reward."""
    batch, rank = jnp.shape(timestep.step_type)[1:], jnp.ndim(timestep.reward)
    number = as_number(name, argument, value)
    if number.shape not in ((), batch):
        raise ValueError(f"{name}: {argument} must be one number or have shape {batch}, got {number.shape}")
    if is_concrete(value) and not np.all((np.asarray(value) >= 0) & (np.asarray(value) <= 1)):
        raise ValueError(f"{name}: {argument} must be in [0, 1], got {value}")
    return tree.expand(number[None], rank) if number.ndim else number


def as_number(name: str, argument: str, value: Any) -> jax.Array:
    """Numbers as float32; refuses what is none."""
    try:
        return jnp.asarray(value, jnp.float32)
    except (TypeError, ValueError):
        raise ValueError(f"{name}: {argument} must be a number, got {value!r}") from None
