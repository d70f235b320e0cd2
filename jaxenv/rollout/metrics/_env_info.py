"""Selects the ``env_info`` entries that `Metrics` measures, and their values in a row."""

import contextlib
from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv.core._sum import Sum
from jaxenv.rollout.metrics._sums import LARGEST

_UNMEASURED = ("task_id", "params", "player", "state")


def check_names(names: Any) -> tuple[str, ...] | None:
    """Returns ``Metrics.env_info`` as a tuple; raises a ``ValueError`` for repeated, empty or wrong names."""
    if names is None:
        return None
    if isinstance(names, str | bytes) or not isinstance(names, Iterable):
        raise ValueError(f"Metrics: env_info must be a sequence of names, got {names!r}")
    names = tuple(names)
    for name in names:
        path, *suffix = name.split("@") if isinstance(name, str) else ("",)
        if not path or suffix not in ([], ["step"], ["max"]):
            raise ValueError(f"Metrics: env_info names must end in @step, @max or neither, got {name!r}")
        if names.count(name) > 1:
            raise ValueError(f"Metrics: env_info must not repeat a name, got {name!r} twice")
    return names


def select(env_info: Any, names: tuple[str, ...] | None, num_axes: int) -> dict[str, Any]:
    """Returns the entries by their full names, and ``"abnormal"`` if there is one. It is idempotent.

    Without names they are all numbers, see `_numbers`.
    """
    if not isinstance(env_info, dict):
        if names:
            raise ValueError(
                f"Metrics: the rows have no env_info with an entry {names[0]!r}, keep it in unroll(fields=...)"
            )
        return {}
    selected = {"abnormal": env_info["abnormal"]} if "abnormal" in env_info else {}
    return selected | (_numbers(env_info, num_axes) if names is None else {n: _entry(env_info, n) for n in names})


def _numbers(env_info: dict[str, Any], num_axes: int) -> dict[str, Any]:
    """Returns the integer and float entries with one number per lane, by dotted path; none in ``same_step`` mode.

    The task and the params of an episode, the player and the state are left out: their sums over steps measure nothing.
    In ``same_step`` mode some entries may describe the next episode on LAST rows, and the row does not say which.
    """
    if "final_observation" in env_info:
        return {}
    measured = {name: x for name, x in env_info.items() if name not in _UNMEASURED}
    leaves = ((tree.path_name(path), x) for path, x in tree.flatten_with_path(measured)[0])
    return {name: x for name, x in leaves if len(x.shape) == num_axes and _is_number(x.dtype)}


def _is_number(dtype: Any) -> bool:
    return jnp.issubdtype(dtype, np.integer) or jnp.issubdtype(dtype, np.floating)


def _entry(env_info: dict[str, Any], name: str) -> Any:
    if name in env_info:  # selected before
        return env_info[name]
    with contextlib.suppress(ValueError):
        return tree.get_field(env_info, name)  # a key may itself end in a suffix
    try:
        return tree.get_field(env_info, name.partition("@")[0])
    except ValueError as error:
        raise ValueError(f"Metrics: env_info {error}") from None


def initial_value(name: str, shape: tuple[int, ...]) -> Sum | jax.Array:
    """Returns the running value of an entry before the first step: a sum, or a maximum."""
    return jnp.full(shape, -LARGEST) if name.endswith("@max") else Sum.zeros(shape)


def add_where(name: str, x: jax.Array, mask: jax.Array, value: Any) -> Sum | jax.Array:
    """Returns the running value after one more step, where ``mask`` counts its ``x``."""
    if name.endswith("@max"):
        return jnp.where(mask, jnp.maximum(value, x), value)
    return value.add(jnp.where(mask, x, np.float32(0)))


def episode_value(name: str, count: jax.Array, value: Any) -> jax.Array:
    """Returns the value of a finished episode, from its running value over ``count`` steps."""
    if name.endswith("@max"):
        return value
    return value.value / jnp.maximum(count, 1).astype(jnp.float32) if name.endswith("@step") else value.value
