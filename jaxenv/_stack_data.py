"""Stacks of wrappers as plain data, names and arguments, that JSON can store."""

import dataclasses
import importlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jaxenv._checks import is_concrete
from jaxenv.environment import Environment
from jaxenv.wrapper import Wrapper, layers

# The module in which names without a module are looked up. It exports this module's functions, so it is imported late.
_PUBLIC = "jaxenv.wrappers"


def to_data(env: Environment) -> list[tuple[str, dict[str, Any]]]:
    """The wrappers of a stack, innermost first, as names and constructor arguments for ``make(wrappers=...)``.

    Arguments are numbers, strings, ``None``, and lists and dicts of these; an array with one value per lane (``[B]``)
    becomes a list. A wrapper that is not in ``jaxenv.wrappers`` is named ``"module:Class"``.

    Raises:
        ValueError: for an argument that is not plain data, such as a function; the message names wrapper and argument.

    >>> import jaxenv
    >>> env = jaxenv.wrappers.AutoReset(jaxenv.wrappers.TimeLimit(jaxenv.spec("Pendulum-v1").make(), 200))
    >>> jaxenv.wrappers.to_data(env)[0]
    ('TimeLimit', {'duration': 200, 'terminal': False})
    """
    found = []
    for layer in reversed(layers(env)[:-1]):
        arguments = {
            field.name: _plain(type(layer).__name__, field.name, getattr(layer, field.name))
            for field in dataclasses.fields(layer)
            if field.init and field.name not in ("env", "num_envs", "name")
        }
        found.append((_name(type(layer)), arguments))
    return found


def from_data(env: Environment, data: Sequence[tuple[str, dict[str, Any]]]) -> Environment:
    """Wraps ``env`` in the wrappers of ``data``, innermost first, as `to_data` returns them.

    Values per lane must have the shape ``[B]`` of the lanes of ``env``.

    Raises:
        ValueError: for a name that is not a wrapper, or an argument that the wrapper refuses.
    """
    for name, arguments in data:
        env = build(env, name, arguments, "from_data")
    return env


def build(env: Environment, name: str, arguments: Mapping[str, Any], owner: str) -> Environment:
    """Wraps ``env`` in the wrapper called ``name``; errors about unknown or missing arguments start with ``owner``."""
    cls = wrapper_class(name, owner)
    known = {f.name: f for f in dataclasses.fields(cls) if f.init and f.name != "env"}
    required = {n for n, f in known.items() if f.default is f.default_factory is dataclasses.MISSING}
    for what, names in (("does not take", arguments.keys() - known.keys()), ("needs", required - arguments.keys())):
        if names:
            raise ValueError(
                f"{owner}: {name} {what} {sorted(names)[0]!r}, its arguments are {', '.join(known) or '(none)'}"
            )
    return cls(env, **arguments)


def wrapper_class(name: str, owner: str) -> type[Wrapper]:
    """The wrapper called ``name`` in ``jaxenv.wrappers``, or ``"module:Class"``; errors start with ``owner``."""
    module, _, qualified = name.rpartition(":")
    try:
        found: Any = importlib.import_module(module or _PUBLIC)
        for part in qualified.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError):
        found = None
    if not (isinstance(found, type) and issubclass(found, Wrapper)):
        public = vars(importlib.import_module(_PUBLIC)).items()
        known = sorted(n for n, c in public if isinstance(c, type) and issubclass(c, Wrapper))
        raise ValueError(f"{owner}: no wrapper {name!r}, the wrappers are {', '.join(known)}, or 'module:Class'")
    return found


def _name(cls: type) -> str:
    if getattr(importlib.import_module(_PUBLIC), cls.__name__, None) is cls:
        return cls.__name__
    return f"{cls.__module__}:{cls.__qualname__}"


def _plain(owner: str, name: str, value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, dict):
        return {key: _plain(owner, name, x) for key, x in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(owner, name, x) for x in value]
    if is_concrete(value) and np.asarray(value).dtype.kind in "biuf":
        return np.asarray(value).tolist()
    raise ValueError(f"to_data: {owner}'s {name} is not plain data: {value!r}")
