"""Exchanges data between the processes of ``jax.distributed``, and runs actions on the first process."""

import errno
import json
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils

from jaxenv.tree import _typed_keys

T = TypeVar("T")


def gathered(values: T) -> T:
    """Returns the arrays of a tree whole in every process. All processes call it together.

    Arrays that one process holds already are returned unchanged.
    """

    def whole(x: Any) -> Any:
        if not isinstance(x, jax.Array) or x.is_fully_addressable:
            return x
        return jnp.asarray(multihost_utils.process_allgather(x, tiled=True))

    return _map_words(whole, values)


def spread(values: T) -> T:
    """Spreads arrays that every process holds whole over the devices of all processes."""
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("devices",))
    everywhere = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())

    def part(x: Any) -> jax.Array:
        whole = np.asarray(x)
        return jax.make_array_from_callback(whole.shape, everywhere, lambda index: whole[index])

    return _map_words(part, values)


def _map_words(function: Callable[[Any], Any], values: T) -> T:
    """Applies a function to the arrays of a tree, and to the words of its keys, if there are several processes."""
    if jax.process_count() == 1:
        return values
    return _typed_keys.from_words(_typed_keys.kinds(values), jax.tree.map(function, _typed_keys.to_words(values)))


def collected(value: Any) -> list[Any]:
    """Returns the plain data of every process, in their order. All processes call it together."""
    if jax.process_count() == 1:
        return [value]
    text = np.frombuffer(json.dumps(value).encode(), np.uint8)
    sizes = multihost_utils.process_allgather(np.int32(text.size)).tolist()
    padded = np.pad(text, (0, max(sizes) - text.size))
    rows = np.asarray(multihost_utils.process_allgather(padded))
    return [json.loads(row[:size].tobytes()) for row, size in zip(rows, sizes, strict=True)]


def on_first_process(action: Callable[[], None]) -> None:
    """Calls ``action`` in the first process; the others wait until it is done. All processes call it together.

    An ``OSError`` or ``ValueError`` that it raises is raised in every process.
    """
    fault: OSError | ValueError | None = None
    if jax.process_index() == 0:
        try:
            action()
        except (OSError, ValueError) as error:
            fault = error
    number = (fault.errno or errno.EIO) if isinstance(fault, OSError) else None
    told = collected(fault and [number, str(fault)])[0]
    if fault is None and told is not None:
        number, text = told
        fault = ValueError(text) if number is None else OSError(number, f"the first process could not write: {text}")
    if fault is not None:
        raise fault
