"""Stacks of wrappers as plain data, names and arguments, which JSON can hold."""

import dataclasses
import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np

import jaxenv.wrappers
from jaxenv._checks import is_concrete
from jaxenv.environment import Environment
from jaxenv.wrapper import Wrapper, layers


def to_data(env: Environment) -> list[tuple[str, dict[str, Any]]]:
    """The wrappers of a stack, innermost first: names and constructor arguments, as ``make(wrappers=...)`` takes them.

    Arguments are numbers, text, ``None``, and lists and dicts of those; one value per lane (``[B]``) is a list. A
    wrapper that is not in ``jaxenv.wrappers`` is named ``"module:Class"``.

    Raises:
        ValueError: for an argument that is no data, a function say; the message names wrapper and argument.

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
    """The environment inside the wrappers that ``to_data`` wrote down, innermost first; shapes as they were there.

    Raises:
        ValueError: for a name that is no wrapper, or whatever the wrapper refuses.
    """
    for name, arguments in data:
        env = wrapper_class(name, "from_data")(env, **arguments)
    return env


def _name(cls: type) -> str:
    if getattr(jaxenv.wrappers, cls.__name__, None) is cls:
        return cls.__name__
    return f"{cls.__module__}:{cls.__qualname__}"


def wrapper_class(name: str, owner: str) -> type[Wrapper]:
    """The wrapper called ``name`` in ``jaxenv.wrappers``, or ``"module:Class"``; errors name the ``owner``."""
    module, _, qualified = name.rpartition(":")
    try:
        found: Any = importlib.import_module(module) if module else jaxenv.wrappers
        for part in qualified.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError):
        found = None
    if not (isinstance(found, type) and issubclass(found, Wrapper)):
        known = sorted(n for n, c in vars(jaxenv.wrappers).items() if isinstance(c, type) and issubclass(c, Wrapper))
        raise ValueError(f"{owner}: no wrapper {name!r}, the wrappers are {', '.join(known)}, or 'module:Class'")
    return found


def _plain(owner: str, name: str, value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, dict):
        return {key: _plain(owner, name, x) for key, x in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(owner, name, x) for x in value]
    if is_concrete(value) and np.asarray(value).dtype.kind in "biuf":
        return np.asarray(value).tolist()
    raise ValueError(f"to_data: {owner}'s {name} is no data: {value!r}")
