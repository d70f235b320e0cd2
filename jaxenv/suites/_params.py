"""Params of environments written for one lane: structs of numbers, and calls with params per lane."""

import dataclasses
import importlib
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree
from jaxenv.core import registry
from jaxenv.tree import Tree

# Kinds of dtypes that params may have, and the dtypes that they are stored in.
_DTYPES = {"b": np.bool_, "i": np.int32, "u": np.int32, "f": np.float32}


def is_numeric(value: Any) -> bool:
    """Returns whether ``value`` is a number or an array that can be a param."""
    numeric = isinstance(value, bool | int | float | np.generic | np.ndarray | jax.Array)
    return numeric and np.dtype(jnp.result_type(value)).kind in _DTYPES


def params_struct(owner: str, options: tuple[Any, ...], values: Mapping[str, np.ndarray]) -> Any:
    """Builds a struct with one numeric field for each value, its default, which determines rank and kind of dtype.

    Pickle cannot find a class made at run time by its name; it finds the params of ``owner``, "suite:id".
    """
    fields = {name: _field(value) for name, value in values.items()}
    doc = f"Params of {owner}: one value for all lanes, or one per lane."
    members = {"__annotations__": dict.fromkeys(fields, Any), "__doc__": doc, **fields}
    members["__reduce__"] = lambda self: (_restored, (owner, options, values_of(self)))
    cls = tree.struct(type("Params", (), members))
    return cls(**{name: value.astype(_DTYPES[value.dtype.kind]) for name, value in values.items()})


def _restored(owner: str, options: tuple[Any, ...], values: dict[str, Any]) -> Any:
    suite, _, id = owner.partition(":")
    return tree.rebuild(single_of(suite, id, options).params, **values)


def single_of(suite: str, id: str, options: tuple[Any, ...]) -> Any:
    """Returns the `Single` of a configuration."""
    return importlib.import_module(registry.SUITES[suite]).single(id, options)


def _field(value: np.ndarray) -> Any:
    """Declares a numeric field; integers of fewer than 32 bits keep their range, which the suite's code expects."""
    narrow = value.dtype.kind in "iu" and value.dtype.itemsize < 4
    low, high = (np.iinfo(value.dtype).min, np.iinfo(value.dtype).max) if narrow else (None, None)
    return tree.leaf(rank=value.ndim, dtype=_DTYPES[value.dtype.kind], low=low, high=high)


def values_of(params: Any) -> dict[str, Any]:
    """Returns the fields of a struct of params by name."""
    return {field.name: getattr(params, field.name) for field in dataclasses.fields(params)}


def ranks_of(params: Any) -> dict[str, int]:
    """Returns the number of axes of each field whose value is the same for all lanes."""
    return {field.name: field.metadata["rank"] for field in dataclasses.fields(params)}


def map_lanes(
    function: Callable[..., Any], values: Mapping[str, Any], ranks: Mapping[str, int], *arguments: Tree
) -> Tree:
    """Maps ``function(values, *arguments)``, written for one lane, over the lanes of ``arguments``.

    A value with one axis more than its rank holds one value per lane; all others are the same for all lanes.
    """
    per_lane = {name: value for name, value in values.items() if np.ndim(value) > ranks[name]}

    def one_lane(of_lane: dict[str, Any], *arguments: Any) -> Any:
        return function({**values, **of_lane}, *arguments)

    if jax.config.jax_debug_key_reuse:  # type: ignore[attr-defined]
        # Under vmap a branch becomes a selection, which this check counts as a use of the keys that pass through.
        return jax.lax.map(lambda given: one_lane(*given), (per_lane, *arguments))
    return jax.vmap(one_lane)(per_lane, *arguments)
