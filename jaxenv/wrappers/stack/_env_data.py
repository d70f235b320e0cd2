"""Whole environments as plain data that JSON can store: id, params, options and wrappers."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from jaxenv import wrappers
from jaxenv.core import registry
from jaxenv.core._checks.given import check_lanes
from jaxenv.core.environment import Environment, check_environment
from jaxenv.core.levels import given_places
from jaxenv.wrappers.stack._make import num_games
from jaxenv.wrappers.stack._wrapper_data import plain

_FIELDS = ("id", "num_envs", "params", "wrappers")


def to_data(env: Environment) -> dict[str, Any]:
    """Converts an environment made from a registered id to plain data, from which `from_data` rebuilds it.

    ``id`` and ``num_envs`` are arguments of `make`. ``params`` holds the params and constructor arguments that differ
    from the registered ones; an array with one value per lane (``[B]``) becomes a list. ``wrappers`` holds the whole
    stack, innermost first, with time limit and restarts, as `jaxenv.wrappers.to_data` returns it.

    Raises:
        ValueError: for an environment whose name is not a registered id of its class (a suite's, a `Multitask`), a
            wrapper that is neither of this library nor registered, a value that is not plain data, or levels that
            ``with_level`` gave.

    >>> import jaxenv
    >>> data = jaxenv.to_data(jaxenv.make("CartPole-v1", num_envs=2, gravity=[5.0, 9.5]))
    >>> data["id"], data["num_envs"], data["params"], data["wrappers"][0][0]
    ('CartPole-v1', 2, {'gravity': [5.0, 9.5]}, 'TimeLimit')
    """
    check_environment("to_data", env)
    task = env.unwrapped
    spec = registry.spec(env.name) if env.name in registry.ids() else None
    if spec is None or spec.environment is not type(task):
        rule = f"{env.name!r} must be the registered id of its class, {type(task).__name__}"
        raise ValueError(f"to_data: {rule}: store the arguments of jaxenv.make instead")
    if given_places(env) is not None:
        raise ValueError(f"to_data: {env} starts in given levels: store env without them, and the levels by data.save")
    return {
        "id": env.name,
        "num_envs": env.num_envs,
        "params": _changes(type(task).__name__, task, spec.make(env.num_envs)),
        "wrappers": wrappers.to_data(env),
    }


def from_data(data: Mapping[str, Any], modules: Sequence[str] = ()) -> Environment:
    """Rebuilds the environment that `to_data` described: the same stack, params and number of lanes ``B``.

    Ids and names of wrappers are looked up among the registered ones: data cannot cause an import of other code.

    Args:
        data: a result of `to_data`.
        modules: modules to import first, such as ``["my_package.tasks"]``, which register environments or wrappers.

    Raises:
        ValueError: for data of another form, an unknown id or wrapper, an id ``"module:ID"`` whose module is neither
            imported nor one of ``modules``, or a value that an environment or wrapper refuses.
    """
    if not isinstance(data, Mapping):
        raise ValueError(f"from_data: data must be a dict of {', '.join(_FIELDS)}, got {data!r}")
    if set(data) != set(_FIELDS):
        wrong = {"missing": [n for n in _FIELDS if n not in data], "unknown": [n for n in data if n not in _FIELDS]}
        found = " and ".join(f"{kind} {', '.join(map(repr, names))}" for kind, names in wrong.items() if names)
        raise ValueError(f"from_data: data must be a dict of {', '.join(_FIELDS)}: {found}")
    if not isinstance(data["id"], str) or not isinstance(data["params"], Mapping):
        raise ValueError(f"from_data: id must be text and params a dict, got {data['id']!r} and {data['params']!r}")
    if "num_envs" in data["params"]:
        raise ValueError("from_data: params must not hold num_envs, which is a separate entry")
    registry.check_from_data("from_data", data["id"], modules)
    spec = registry.spec(data["id"])
    try:
        env = spec.make(num_games(spec, data["num_envs"], data["wrappers"], data["params"]), **data["params"])
    except TypeError as fault:
        raise ValueError(f"from_data: {spec.id}: {fault}") from None
    env = wrappers.from_data(env, data["wrappers"])
    check_lanes(env, data["num_envs"])
    return env


def _changes(owner: str, obj: Any, registered: Any) -> dict[str, Any]:
    """Returns the fields of an environment or of its params that differ from the registered ones, as plain data."""
    changes: dict[str, Any] = {}
    for field in dataclasses.fields(obj):
        value, default = getattr(obj, field.name), getattr(registered, field.name)
        if field.name == "params":
            changes |= _changes(owner, value, default)
        elif field.init and field.name not in ("num_envs", "name") and not _same(value, default):
            changes[field.name] = plain(f"to_data: {owner}'s {field.name}", value)
    return changes


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, jax.Array | np.ndarray) or isinstance(b, jax.Array | np.ndarray):
        return bool(np.shape(a) == np.shape(b) and np.all(a == b))
    return bool(a == b)
