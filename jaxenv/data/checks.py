"""Which rows and lanes a replay buffer takes; everything else is refused when it is traced, by the name of the leaf."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import leaves, tree
from jaxenv.data import ring
from jaxenv.rollout import Experience


def stored(name: str, rows: Experience) -> Experience:
    """The rows ``[T, B, ...]`` without lane numbers, which follow from the place."""
    if not isinstance(rows, Experience):
        raise ValueError(f"{name}: rows must be an Experience as unroll returns it, got {type(rows).__name__}")
    if isinstance(rows.timestep, tuple) or isinstance(rows.timestep.step_type, tuple):
        raise ValueError(f"{name}: timestep.step_type is missing, keep it in unroll(fields=...)")
    return dataclasses.replace(rows, timestep=dataclasses.replace(rows.timestep, env_id=()))


def new_rows(name: str, rows: Experience, num_envs: int) -> None:
    """Refuses rows to make a buffer for that do not lead with time and the lanes."""
    for path, x in tree.flatten_with_path(rows)[0]:
        if len(x.shape) < 2 or x.shape[1] != num_envs:
            raise ValueError(
                f"{name}: {tree.path_name(path)} must lead with time and {num_envs} lanes, got shape {x.shape}"
            )


def more_rows(name: str, rows: Experience, buffer: Experience, lanes: int, capacity: int) -> int:
    """Refuses rows of another structure, shape or dtype than the buffer's, or too many; gives their number."""
    new, there = (dict(tree.flatten_with_path(x)[0]) for x in (rows, buffer))
    if tree.structure(rows) != tree.structure(buffer):
        odd = sorted(tree.path_name(path) for path in new.keys() ^ there.keys())
        raise ValueError(
            f"{name}: rows have another structure than the buffer, different: {', '.join(odd) or 'kinds of nodes'}"
        )
    count = jnp.shape(rows.timestep.step_type)[0]
    for path, x in new.items():
        place, shape = tree.path_name(path), (count, lanes, *ring.row_shape(there[path]))
        if jnp.shape(x) != shape:
            raise ValueError(f"{name}: {place} must have shape {shape}, got {jnp.shape(x)}")
        if jnp.result_type(x) != there[path].dtype:
            raise ValueError(f"{name}: {place} must be {there[path].dtype}, got {jnp.result_type(x)}")
    if count > capacity:
        raise ValueError(f"{name}: {count} rows are more than the capacity of {capacity}")
    return count


def lanes(name: str, env_id: Any, num_envs: int) -> jax.Array:
    """Distinct lanes as int32 ``[K]``; repeated and unknown ones are refused where their numbers are known."""
    found = jnp.asarray(env_id)
    if found.ndim != 1 or not jnp.issubdtype(found.dtype, jnp.integer):
        raise ValueError(f"{name}: env_id must be integers [K], got {found.dtype}{list(found.shape)}")
    if leaves.is_concrete(env_id):
        known = np.asarray(env_id)
        if known.size and (known.min() < 0 or known.max() >= num_envs):
            raise ValueError(f"{name}: env_id must be in 0 .. {num_envs - 1}, got {known.tolist()}")
        if len(np.unique(known)) < known.size:
            raise ValueError(f"{name}: env_id must name each lane once, got {known.tolist()}")
    found = found.astype(jnp.int32)
    # A negative number would count from the end.
    return jnp.where(found < 0, np.int32(num_envs), found)
