"""Exchanges data between the processes of ``jax.distributed``, and runs actions on the first process."""

import errno
import json
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils

from jaxenv.tree._typed_keys import is_key

T = TypeVar("T")


def gathered(values: T) -> T:
    """Returns the arrays of a tree whole in every process. All processes call it together.

    Arrays that one process holds already are returned unchanged.
    """
    return values if jax.process_count() == 1 else jax.tree.map(_gathered, values)


def _gathered(x: Any) -> Any:
    if not isinstance(x, jax.Array) or x.is_fully_addressable:
        return x
    if is_key(x):
        return jax.random.wrap_key_data(_gathered(jax.random.key_data(x)), impl=jax.random.key_impl(x))
    return jnp.asarray(multihost_utils.process_allgather(x, tiled=True))


def spread(values: T) -> T:
    """Spreads arrays that every process holds whole over the devices of all processes."""
    return values if jax.process_count() == 1 else jax.tree.map(_spread, values)


def _spread(x: Any) -> jax.Array:
    if is_key(x):
        return jax.random.wrap_key_data(_spread(jax.random.key_data(x)), impl=jax.random.key_impl(x))
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("devices",))
    everywhere = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    whole = np.asarray(x)
    return jax.make_array_from_callback(whole.shape, everywhere, lambda index: whole[index])


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
