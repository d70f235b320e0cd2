"""Checks common arguments of functions of trajectories: rows, auto-reset modes, coefficients, keys."""

import contextlib
from typing import Any, Literal, TypeAlias, get_args

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, tree
from jaxenv._util.checks import Range, check_choice, check_kind, is_known_array
from jaxenv.core.timestep import StepType, TimeStep, check_timestep
from jaxenv.rollout import Experience

TrajectoryMode: TypeAlias = Literal["next_step", "same_step"]


def check_mode(
    owner: str, timestep: TimeStep, mode: Any, last: TimeStep | None = None, remedy: str = "pass mode='same_step'"
) -> None:
    """Raises a ``ValueError`` for an unknown mode, and if the rows were made in the other mode.

    Only rows made in ``same_step`` mode hold ``env_info["final_observation"]``. `jaxenv.unroll` may have left it out of
    the rows, but not of the row after them. Outside of traces, ``next_step`` mode is recognised by a FIRST row after
    every LAST row.
    """
    check_choice(owner, "mode", mode, get_args(TrajectoryMode))
    for name, row in (("the rows hold", timestep), ("last holds", last)):
        if mode == "next_step" and row is not None and "final_observation" in row.env_info:
            raise ValueError(f"{owner}: {name} env_info['final_observation'], {remedy}")
    if mode == "same_step" and is_known_array(timestep.step_type) and np.ndim(timestep.step_type) == 2:
        step_type = np.asarray(timestep.step_type)
        ended, first = step_type[:-1] == StepType.LAST, step_type[1:] == StepType.FIRST
        if ended.any() and first[ended].all():
            rule = "the rows must be made in same_step mode, got a FIRST row after every LAST row"
            raise ValueError(f"{owner}: {rule}: leave out final_values and mode for next_step mode")


def check_timesteps(owner: str, timestep: Any, last: Any) -> None:
    """Raises a ``ValueError`` unless both are TimeSteps."""
    check_timestep(owner, "timestep", timestep)
    check_timestep(owner, "last", last)


def check_rows(owner: str, timestep: TimeStep, last: TimeStep) -> None:
    """Raises a ``ValueError`` if a required field is missing, or shapes in ``timestep`` and ``last`` do not match."""
    check_timesteps(owner, timestep, last)
    batch = jnp.shape(timestep.step_type)[1:]
    for field in ("step_type", "reward", "discount"):
        x, y = getattr(timestep, field), getattr(last, field)
        if isinstance(x, tuple):
            raise ValueError(f"{owner}: timestep.{field} is missing, keep it in unroll(fields=...)")
        if jnp.shape(x)[:1] != jnp.shape(timestep.step_type)[:1] or jnp.shape(x)[1:][: len(batch)] != batch:
            fault = f"timestep.{field} has shape {jnp.shape(x)}, timestep.step_type {jnp.shape(timestep.step_type)}"
            raise ValueError(f"{owner}: {fault}: both must lead with [T, B]")
        if jnp.shape(y) != jnp.shape(x)[1:]:
            rule = f"last.{field} must have the shape {jnp.shape(x)[1:]} of a row"
            raise ValueError(f"{owner}: {rule}, got {jnp.shape(y)}")


def rows_of(owner: str, experience: Experience, last: TimeStep, mode: TrajectoryMode) -> TimeStep:
    """Returns the TimeSteps ``[T, B]`` of an unroll; raises a ``ValueError`` if ``last`` or the mode does not fit."""
    check_kind(owner, "experience", experience, Experience, " as unroll returns it")
    check_rows(owner, experience.timestep, last)
    check_mode(owner, experience.timestep, mode, last)
    return experience.timestep


def check_fraction(owner: str, name: str, value: Any) -> None:
    """Raises a ``ValueError`` for concrete numbers outside [0, 1], and for anything that is not a number."""
    as_number(owner, name, value)
    Range(0, 1).check(owner, name, value)


def coefficient(owner: str, name: str, value: Any, timestep: TimeStep) -> jax.Array:
    """Casts a number in [0, 1], or one per lane ``[B]``, to float32 that broadcasts to the reward."""
    batch, rank = jnp.shape(timestep.step_type)[1:], jnp.ndim(timestep.reward)
    number = as_number(owner, name, value)
    if number.shape not in ((), batch):
        raise ValueError(f"{owner}: {name} must be one number or have shape {batch}, got {number.shape}")
    check_fraction(owner, name, value)
    return tree.expand(number[None], rank) if number.ndim else number


def as_number(owner: str, name: str, value: Any) -> jax.Array:
    """Casts numbers to float32; raises a ``ValueError`` for anything else."""
    with contextlib.suppress(TypeError, ValueError):
        if not isinstance(value, bool | None):
            return jnp.asarray(value, jnp.float32)
    raise ValueError(f"{owner}: {name} must be a number, got {value!r}")


def single_stream(owner: str, key: Any) -> random.Stream:
    """Returns the stream of one key; raises a ``ValueError`` for a batch of keys."""
    if not isinstance(key, random.Stream):
        random.check_typed(key, f"{owner}: key")
    stream = random.stream(key)
    if stream.shape != ():
        raise ValueError(f"{owner}: key must be one key or a stream of shape (), got shape {stream.shape}")
    return stream
