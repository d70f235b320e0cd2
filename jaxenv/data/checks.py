"""Which rows, lanes and states a replay buffer takes; everything else is refused when it is traced, by its name."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import _xla, random, tree
from jaxenv._checks import is_concrete
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
    """Distinct lanes as int32 ``[K]``.

    Repeated and unknown ones are refused where their numbers are known. Elsewhere what is unknown, and all but the last
    of what is repeated, become lanes from ``num_envs`` on, no two the same: what is written to them is dropped.
    """
    found = jnp.asarray(env_id)
    if found.ndim != 1 or not jnp.issubdtype(found.dtype, jnp.integer):
        raise ValueError(f"{name}: env_id must be integers [K], got {found.dtype}{list(found.shape)}")
    if is_concrete(env_id):
        known = np.asarray(env_id)
        if known.size and (known.min() < 0 or known.max() >= num_envs):
            raise ValueError(f"{name}: env_id must be in 0 .. {num_envs - 1}, got {known.tolist()}")
        if len(np.unique(known)) < known.size:
            raise ValueError(f"{name}: env_id must name each lane once, got {known.tolist()}")
        return found.astype(jnp.int32)
    found, order = found.astype(jnp.int32), np.arange(found.shape[0], dtype=np.int32)
    there = (found >= 0) & (found < np.int32(num_envs))
    # A negative number would count from the end.
    lane = jnp.where(there, found, np.int32(num_envs))
    newest = _xla.vary_like(lane, jnp.full(num_envs, np.int32(-1))).at[lane].max(order, mode="drop")
    return jnp.where(there & (newest.at[lane].get(mode="clip") == order), lane, np.int32(num_envs) + order)


def is_whole(value: Any, least: int) -> bool:
    """Whether a static argument is a whole number of at least ``least``."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(value >= least)


def is_number(value: Any) -> bool:
    """Whether a static argument is a real number."""
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def one_stream(name: str, key: Any) -> random.Stream:
    """The stream of one key."""
    stream = random.stream(key)
    if stream.shape != ():
        raise ValueError(f"{name}: key must be one key or a stream of shape (), got shape {stream.shape}")
    return stream


def made_for(name: str, wanted: dict[str, Any], found: dict[str, Any]) -> None:
    """Refuses the state of another buffer, by the first argument in which the two differ."""
    for argument, value in found.items():
        if wanted[argument] != value:
            raise ValueError(
                f"{name}: the state is that of a Replay with {argument}={value}, this one has {wanted[argument]}"
            )
