"""Serialisation of struct classes by ``jax.export``, which writes the trees of arguments and results into its files.

A file names each class by module and qualified name, so the reading process must have imported the class. A class that
is defined again, for example by a notebook cell, is another class: its name gets a number, and the reading process must
have defined it as often. Static fields are written as JSON; no code is stored.
"""

import collections
import json
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from jax import export

C = TypeVar("C", bound=type)

# JAX accepts one class per name and cannot replace it.
_definitions: collections.Counter[str] = collections.Counter()


def register(cls: C, statics: tuple[str, ...], build: Callable[..., Any]) -> C:
    """Lets ``jax.export`` write and read trees with nodes of a class.

    Its auxiliary data are the values of ``statics``; ``build`` makes an object from these and its children.
    """
    name = f"{cls.__module__}.{cls.__qualname__}"
    _definitions[name] += 1
    number = _definitions[name]
    export.register_pytree_node_serialization(
        cls,
        serialized_name=name if number == 1 else f"{name}.{number}",
        serialize_auxdata=lambda values: _encode(cls.__qualname__, statics, values),
        deserialize_auxdata=lambda data: tuple(_decoded(x) for x in json.loads(bytes(data).decode())),
        from_children=build,
    )
    return cls


def named_tuple(cls: C) -> C:
    """Lets ``jax.export`` write and read trees with nodes of a ``NamedTuple`` class."""
    return register(cls, (), lambda _, children: cls(*children))


def _encode(owner: str, statics: tuple[str, ...], values: Any) -> bytes:
    if not statics:
        return b"[]"
    found = []
    for name, value in zip(statics, values, strict=True):
        try:
            found.append(_encoded(value))
        except TypeError:
            rule = f"static field {name} must be numbers, text or tuples of them to be exported as an argument"
            raise ValueError(f"{owner}: {rule}, got {value!r}: close over the {owner} instead") from None
    return json.dumps(found).encode()


def _encoded(value: Any) -> Any:
    """Encodes a static value as JSON; types that JSON lacks become an object with one entry, which names the type."""
    if value is None or type(value) in (bool, int, float, str):
        return value  # Python's JSON also has infinities and NaN
    if type(value) is tuple:
        return [_encoded(x) for x in value]
    if isinstance(value, np.dtype):
        return {"dtype": value.str}
    if isinstance(value, np.generic) and value.dtype.kind in "biuf":
        return {value.dtype.str: value.item()}
    raise TypeError(value)


def _decoded(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_decoded(x) for x in value)
    if isinstance(value, dict):
        ((kind, content),) = value.items()
        return np.dtype(content) if kind == "dtype" else np.dtype(kind).type(content)
    return value
