"""The unfinished episode of each lane, and which entries of ``env_info`` are measured."""

import contextlib
import functools
from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv.core._moments import Sum
from jaxenv.core.timestep import TimeStep
from jaxenv.rollout.statistic import LARGEST

_UNMEASURED = ("task_id", "params", "player", "state")


@tree.struct
class DiscountedReturns:
    """Discounted returns of the rows of an unfinished episode, from its rewards so far."""

    start: jax.Array  # float32[B] (or [B, R]), the discounted return of the FIRST row
    total: jax.Array  # float32[B] (or [B, R]), the sum of the discounted returns of all rows
    start_weight: jax.Array  # float32[B], the weight of the next reward in start
    total_weight: jax.Array  # float32[B], its weight in total, except for the row right before it

    @classmethod
    def zeros(cls, lanes: tuple[int, ...], reward: tuple[int, ...]) -> "DiscountedReturns":
        """Returns discounted returns of episodes without steps."""
        zeros = jnp.zeros(reward, jnp.float32)
        return cls(zeros, zeros, jnp.ones(lanes, jnp.float32), jnp.zeros(lanes, jnp.float32))

    def add(self, row: TimeStep, reward: jax.Array, gamma: np.float32) -> "DiscountedReturns":
        """Adds a row ``[B]``; ``reward`` is 0 where it is FIRST."""
        # The discounted return of row t is the sum over later rewards r[l] of gamma^(l-t-1) d[t+1] ... d[l-1] r[l].
        # The weight of r[l] is therefore 1 in the row before it, and in each earlier row gamma * d[l-1] times the
        # weight of r[l-1].
        first, ndim = row.is_first(), reward.ndim
        weight = self.total_weight + np.float32(1)
        rate = gamma * row.discount
        return DiscountedReturns(
            start=self.start + tree.expand(self.start_weight, ndim) * reward,
            total=self.total + tree.expand(weight, ndim) * reward,
            start_weight=jnp.where(first, self.start_weight, self.start_weight * rate),
            total_weight=jnp.where(first, self.total_weight, weight * rate),
        )


@tree.struct
class Episode:
    """The unfinished episode of each lane."""

    is_whole: jax.Array  # bool[B], whether its start was seen
    return_: Sum  # the sum of its rewards, [B] (or [B, R])
    length: jax.Array  # int32[B], the number of its steps
    discounted: Any  # `DiscountedReturns`, or () without gamma
    # For each measured name of env_info the `Sum` or maximum (float32[B, ...]) of its finite values, in the structure
    # of the entry.
    entries: dict[str, Any]
    entry_counts: dict[str, Any]  # the number of those values, int32 leaves of the same shapes

    @classmethod
    def zeros(cls, row: TimeStep, gamma: float | None, is_whole: jax.Array) -> "Episode":
        """Returns episodes without steps, for selected rows of these shapes."""
        lanes, reward = row.step_type.shape, row.reward.shape
        entries = {name: entry for name, entry in row.env_info.items() if name != "abnormal"}
        return cls(
            is_whole=is_whole,
            return_=Sum.zeros(reward),
            length=jnp.zeros(lanes, jnp.int32),
            discounted=() if gamma is None else DiscountedReturns.zeros(lanes, reward),
            entries={
                name: jax.tree.map(lambda x, name=name: _initial_value(name, x.shape), entry)
                for name, entry in entries.items()
            },
            entry_counts=jax.tree.map(lambda x: jnp.zeros(x.shape, jnp.int32), entries),
        )

    def add(self, row: TimeStep, gamma: float | None) -> "Episode":
        """Adds a row ``[B]``; a FIRST row is not a step."""
        moved = ~row.is_first()
        reward = jnp.where(tree.expand(moved, row.reward.ndim), row.reward, np.float32(0))

        given = {name: row.env_info[name] for name in self.entries}
        given = jax.tree.map(lambda x: x.astype(jnp.float32), given)
        valid = jax.tree.map(lambda x: jnp.isfinite(x) & tree.expand(moved, x.ndim), given)
        return Episode(
            is_whole=self.is_whole,
            return_=self.return_.add(reward),
            length=self.length + moved.astype(jnp.int32),
            discounted=() if gamma is None else self.discounted.add(row, reward, np.float32(gamma)),
            entries={
                name: jax.tree.map(functools.partial(_add_where, name), given[name], valid[name], entry)
                for name, entry in self.entries.items()
            },
            entry_counts=jax.tree.map(lambda count, mask: count + mask.astype(jnp.int32), self.entry_counts, valid),
        )

    def values(self) -> dict[str, Any]:
        """Returns the values of ``entries`` for episodes that end here."""
        return {
            name: jax.tree.map(functools.partial(_episode_value, name), self.entry_counts[name], entry)
            for name, entry in self.entries.items()
        }


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


def selected(env_info: Any, names: tuple[str, ...] | None, num_axes: int) -> dict[str, Any]:
    """Returns the entries by their full names, and ``"abnormal"`` if there is one. It is idempotent.

    Without names they are all numbers, see `_numbers`.
    """
    if not isinstance(env_info, dict):
        if names:
            fault = f"the rows have no env_info with an entry {names[0]!r}"
            raise ValueError(f"Metrics: {fault}, keep it in unroll(fields=...)")
        return {}
    found = {"abnormal": env_info["abnormal"]} if "abnormal" in env_info else {}
    return found | (_numbers(env_info, num_axes) if names is None else {n: _entry(env_info, n) for n in names})


def _numbers(env_info: dict[str, Any], num_axes: int) -> dict[str, Any]:
    """Returns the integer and float entries with one number per lane, by dotted path; none in ``same_step`` mode.

    The task and the params of an episode, the player and the state are left out: their sums over steps measure nothing.
    In ``same_step`` mode some entries may describe the next episode on LAST rows, and the row does not say which.
    """
    if "final_observation" in env_info:
        return {}
    measured = {name: x for name, x in env_info.items() if name not in _UNMEASURED}
    leaves = ((tree.path_name(path), x) for path, x in jax.tree.leaves_with_path(measured) if len(x.shape) == num_axes)
    return {name: x for name, x in leaves if any(jnp.issubdtype(x.dtype, kind) for kind in (np.integer, np.floating))}


def _entry(env_info: dict[str, Any], name: str) -> Any:
    if name in env_info:  # selected before
        return env_info[name]
    with contextlib.suppress(ValueError):
        return tree.get_field(env_info, name)  # a key may itself end in a suffix
    try:
        return tree.get_field(env_info, name.partition("@")[0])
    except ValueError as error:
        raise ValueError(f"Metrics: env_info {error}") from None


def _initial_value(name: str, shape: tuple[int, ...]) -> Sum | jax.Array:
    """Returns the running value of an entry before the first step: a sum, or a maximum."""
    return jnp.full(shape, -LARGEST) if name.endswith("@max") else Sum.zeros(shape)


def _add_where(name: str, x: jax.Array, mask: jax.Array, value: Any) -> Sum | jax.Array:
    """Returns the running value after one more step, where ``mask`` counts its ``x``."""
    if name.endswith("@max"):
        return jnp.where(mask, jnp.maximum(value, x), value)
    return value.add(jnp.where(mask, x, np.float32(0)))


def _episode_value(name: str, count: jax.Array, value: Any) -> jax.Array:
    """Returns the value of a finished episode, from its running value over ``count`` steps."""
    if name.endswith("@max"):
        return value
    return value.value / jnp.maximum(count, 1).astype(jnp.float32) if name.endswith("@step") else value.value
