"""Checks the rows, lanes and priorities given to a replay buffer, while the call is traced."""

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv._util.checks import Range, check_array, check_kind, is_concrete
from jaxenv.data.replay.replay_state import row_types
from jaxenv.rollout import Experience


def without_env_id(owner: str, rows: Experience) -> Experience:
    """Removes ``env_id`` from rows ``[T, B, ...]``; the place of a row in the buffer determines it."""
    check_kind(owner, "rows", rows, Experience, " as unroll returns it")
    if isinstance(rows.timestep, tuple) or isinstance(rows.timestep.step_type, tuple):
        raise ValueError(f"{owner}: timestep.step_type is missing, keep it in unroll(fields=...)")
    unset: Any = ()
    return dataclasses.replace(rows, timestep=dataclasses.replace(rows.timestep, env_id=unset))


def check_template(owner: str, rows: Experience, num_envs: int) -> None:
    """Raises a ``ValueError`` unless every leaf of the rows for ``init`` leads with time and ``num_envs`` lanes."""
    for path, x in tree.flatten_with_path(rows)[0]:
        if len(x.shape) < 2 or x.shape[1] != num_envs:
            rule = f"{tree.path_name(path)} must lead with time and {num_envs} lanes"
            raise ValueError(f"{owner}: {rule}, got shape {x.shape}")


def check_added_rows(owner: str, rows: Experience, buffer: Experience, num_lanes: int, capacity: int) -> None:
    """Raises a ``ValueError`` if structure, shapes or dtypes differ from the buffer's, or there are too many rows."""
    row = row_types(buffer)
    given, stored = (dict(tree.flatten_with_path(x)[0]) for x in (rows, row))
    if tree.structure(rows) != tree.structure(row):
        different = sorted(tree.path_name(path) for path in given.keys() ^ stored.keys())
        fault = "the rows have another structure than those in the buffer, different"
        raise ValueError(f"{owner}: {fault}: {', '.join(different) or 'types of nodes'}")
    num_rows = jnp.shape(rows.timestep.step_type)[0]
    for path, x in given.items():
        name, shape = tree.path_name(path), (num_rows, num_lanes, *stored[path].shape)
        if jnp.shape(x) != shape:
            raise ValueError(f"{owner}: {name} must have shape {shape}, got {jnp.shape(x)}")
        if jnp.result_type(x) != stored[path].dtype:
            raise ValueError(f"{owner}: {name} must be {stored[path].dtype}, got {jnp.result_type(x)}")
    if num_rows > capacity:
        raise ValueError(f"{owner}: rows must be at most as many as the capacity of {capacity}, got {num_rows}")


def check_priorities(owner: str, shape: tuple[int, ...], priority: Any, valid: Any) -> None:
    """Raises a ``ValueError`` unless there is a priority, and a flag if given, per window.

    Known priorities must be finite and at least 0 where ``valid``.
    """
    check_array(owner, "priority", priority)
    for name, given in (("priority", priority), ("valid", valid)):
        if given is not None and jnp.shape(given) != shape:
            raise ValueError(f"{owner}: {name} must have shape {shape}, got {jnp.shape(given)}")
    if valid is not None and jnp.result_type(valid) != jnp.bool_:
        raise ValueError(f"{owner}: valid must be bool, got {jnp.result_type(valid)}")
    if valid is None:
        Range(low=0, below=math.inf).check(owner, "priority", priority, rank=1)
    elif is_concrete(priority) and is_concrete(valid):
        Range(low=0, below=math.inf).check(owner, "priority", np.where(valid, priority, 0), rank=1)


def distinct_lanes(owner: str, env_id: Any, num_envs: int) -> jax.Array:
    """Returns distinct lanes as int32 ``[K]``.

    Concrete values raise a ``ValueError`` if they are repeated or out of range. Traced values out of range, and all but
    the last of repeated ones, become distinct lanes from ``num_envs`` on: writes to them are dropped.
    """
    check_array(owner, "env_id", env_id)
    lanes = jnp.asarray(env_id)
    if lanes.ndim != 1 or not jnp.issubdtype(lanes.dtype, jnp.integer):
        raise ValueError(f"{owner}: env_id must be integers [K], got {lanes.dtype}{list(lanes.shape)}")
    if is_concrete(env_id):
        values = np.asarray(env_id)
        if values.size and (values.min() < 0 or values.max() >= num_envs):
            raise ValueError(f"{owner}: env_id must be in 0 .. {num_envs - 1}, got {values.tolist()}")
        if len(np.unique(values)) < values.size:
            raise ValueError(f"{owner}: env_id must name each lane once, got {values.tolist()}")
        return lanes.astype(jnp.int32)
    lanes, order = lanes.astype(jnp.int32), np.arange(lanes.shape[0], dtype=np.int32)
    is_known = (lanes >= 0) & (lanes < np.int32(num_envs))
    # A negative index would count from the end.
    lane = jnp.where(is_known, lanes, np.int32(num_envs))
    last = tree.vary_like(lane, jnp.full(num_envs, np.int32(-1))).at[lane].max(order, mode="drop")
    return jnp.where(is_known & (last.at[lane].get(mode="clip") == order), lane, np.int32(num_envs) + order)
