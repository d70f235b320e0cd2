"""Checks, casts and clips of incoming actions, and what rows show of them."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import specs, tree
from jaxenv.core.timestep import TimeStep
from jaxenv.tree import Tree
from jaxenv.tree._structure import mismatch

# By the kind of a spec's dtype: the dtypes that fit it, in JAX and in words. All others are floats.
_KINDS = {"b": (jnp.bool_, "bools"), "i": (jnp.integer, "integers"), "u": (jnp.integer, "integers")}


def conform(spec: Tree, action: Tree, num_lanes: int, owner: str) -> Tree:
    """Checks a batch of actions at trace time and casts it to the spec's dtypes; bounds are not applied.

    An integer spec accepts any integer dtype, a float spec any float dtype. An integer outside the range of the spec's
    dtype saturates instead of wrapping around. Structure, shape, batch size and kind of dtype must be the spec's.
    """
    leaf_specs, structure = jax.tree.flatten_with_path(spec)
    if (fault := mismatch(spec, action, "action")) is not None:
        remedy = ": actions of several agents are one array, [lanes, agents, ...]" if specs.is_spec(spec) else ""
        remedy = remedy if isinstance(action, dict) else _remedy(action)
        raise ValueError(f"{owner}: {fault}, as in the action spec{remedy}")
    leaves = []
    for (path, s), given in zip(leaf_specs, jax.tree.leaves(action), strict=True):
        name = f"{owner}: action {tree.path_name(path)}".rstrip()
        shape, dtype = jnp.shape(given), getattr(given, "dtype", jnp.result_type(given))
        if shape != (num_lanes, *s.shape):
            rule = f"shape {(num_lanes, *s.shape)} (one {s} per lane of the state)"
            raise ValueError(f"{name} must have {rule}, got {shape}")
        kind, plural = _KINDS.get(s.dtype.kind, (jnp.floating, "floats"))
        if not jnp.issubdtype(dtype, kind):
            cast = f": action.astype({str(s.dtype)!r})" if dtype == jnp.bool_ else ""
            raise ValueError(f"{name} must be {plural}, such as {s.dtype}, got {dtype}{cast}")
        if s.dtype.kind in "iu" and not np.can_cast(dtype, s.dtype):
            given = saturated(given, s.dtype)
        leaves.append(jax.lax.convert_element_type(given, s.dtype))
    return jax.tree.unflatten(structure, leaves)


def _remedy(action: Any) -> str:
    if isinstance(action, list):
        return ": jax.numpy.array makes an array of a list"
    if isinstance(action, tuple) and not hasattr(action, "_fields"):
        return ": a policy that returns more than the action returns PolicyStep(action, memory, info)"
    return ""


def saturated(x: Any, dtype: np.dtype) -> Any:
    """Returns integers clipped to the range of ``dtype``, in their own dtype: none wraps around when it is cast."""
    own, target = np.iinfo(x.dtype), np.iinfo(dtype)
    clip: Any = np.clip if isinstance(x, np.ndarray | np.generic) else jnp.clip
    return clip(x, x.dtype.type(max(own.min, target.min)), x.dtype.type(min(own.max, target.max)))


def discrete_bounds(spec: Tree) -> tuple[Any, ...]:
    """Returns what `are_legal` needs of each leaf: ``None``, or its name and its bounds, as numbers where possible.

    ``None`` marks a leaf that is not an integer with bounds.
    """
    found: list[Any] = []
    for path, s in jax.tree.flatten_with_path(spec)[0]:
        if not (isinstance(s, specs.Bounded) and s.is_discrete and s.dtype.kind in "iu"):
            found.append(None)
            continue
        low, high = np.asarray(s.minimum), np.asarray(s.maximum)
        if low.size and (low == low.flat[0]).all() and (high == high.flat[0]).all():
            low, high = int(low.flat[0]), int(high.flat[0])  # type: ignore[assignment]
        found.append((f"action {tree.path_name(path)}".rstrip(), low, high))
    return tuple(found)


def are_legal(bounds: tuple[Any, ...], action: Tree) -> bool:
    """Returns whether no discrete action is out of range; checks only what needs no wait for a device.

    The host reads NumPy arrays and arrays of JAX's CPU back end. All others are clipped, as in compiled code. This runs
    at every eager step, so it compares only the extremes of an action whose bounds are all equal.
    """
    leaves = jax.tree.leaves(action)
    if len(leaves) != len(bounds):
        return True  # `conform` explains it
    for found, leaf in zip(bounds, leaves, strict=True):
        if found is None or leaf.dtype.kind not in "iu" or not leaf.size:
            continue
        if isinstance(leaf, jax.Array) and not (
            leaf.is_fully_addressable and all(device.platform == "cpu" for device in leaf.devices())
        ):
            continue
        _, low, high = found
        x = np.asarray(leaf)
        if isinstance(low, int):
            if np.minimum.reduce(x, axis=None) < low or np.maximum.reduce(x, axis=None) > high:
                return False
        elif x.shape[1:] == low.shape and ((x < low) | (x > high)).any():
            return False
    return True


def check_values(bounds: tuple[Any, ...], action: Tree, used: np.ndarray, owner: Any) -> None:
    """Raises a ``ValueError`` for a discrete action out of range in a lane whose action is ``used``, bool ``[B]``."""
    for found, leaf in zip(bounds, jax.tree.leaves(action), strict=True):
        if found is None or leaf.shape[:1] != used.shape:
            continue
        name, low, high = found
        x = np.asarray(leaf)
        wrong = ((x < low) | (x > high)) & used.reshape(-1, *(1,) * (x.ndim - 1))
        if wrong.any():
            lane, *place = np.argwhere(wrong)[0].tolist()
            low, high = (np.broadcast_to(bound, x.shape)[(lane, *place)] for bound in (low, high))
            where = f"lane {lane}" + (f" at {place}" if place else "")
            raise ValueError(f"{owner}: {name} must be from {low} to {high}, got {x[(lane, *place)]} in {where}")


def clip_discrete(spec: Tree, action: Tree) -> Tree:
    """Clips discrete actions to their spec; continuous ones pass through (see ``wrappers.ClipAction``)."""

    def clip(s: specs.Bounded, a: jax.Array) -> jax.Array:
        if isinstance(s, specs.Bounded) and s.is_discrete and s.dtype.kind != "b":
            return jnp.clip(a, specs.aligned(s.minimum, a.ndim), specs.aligned(s.maximum, a.ndim))
        return a

    return jax.tree.map(clip, spec, action)


def finite(values: Tree) -> Tree:
    """Replaces NaN and infinities in arrays by 0."""
    return jax.tree.map(
        lambda x: jnp.where(jnp.isfinite(x), x, jnp.zeros_like(x)) if jnp.issubdtype(x.dtype, jnp.inexact) else x,
        values,
    )


def with_prev_action(env: Any, timestep: TimeStep, given: Tree) -> TimeStep:
    """Puts the agent's action in ``prev_action``: non-finite numbers become 0, and FIRST rows hold zeros."""
    given = finite(given)
    if env.autoreset is not None:
        given = tree.where(timestep.is_first(), jax.tree.map(jnp.zeros_like, given), given)
    return dataclasses.replace(timestep, prev_action=given)


def toward(action: jax.Array, forth: int | np.integer, back: int | np.integer) -> jax.Array:
    """Returns 1 where the action is ``forth``, -1 where it is ``back``, else 0: int32 ``[B]``."""
    return (action == forth).astype(jnp.int32) - (action == back).astype(jnp.int32)
