"""Shuffled minibatches."""

from typing import TypeVar

import jax
import jax.numpy as jnp

from jaxenv import random
from jaxenv._util.checks import check_arrays, check_integer
from jaxenv.data._checks import single_stream
from jaxenv.data._shuffle import shuffled

T = TypeVar("T")


def minibatches(
    key: jax.Array | random.Stream, batch: T, num_minibatches: int | None = None, *, size: int | None = None
) -> T:
    """Shuffles the leading axis of all leaves and splits it: ``[N, ...]`` to ``[num_minibatches, size, ...]``.

    All leaves are shuffled in the same order. Every entry is used exactly once.

    Args:
        key: one typed key, or a stream of shape ``()``.
        batch: any tree of arrays that lead with the same N.
        num_minibatches: number of minibatches; it must divide N.
        size: smallest size of a minibatch, instead of their number. The result has ``N // size`` minibatches, for
            example 8 of 33 entries for ``size=32`` and N = 264; this number must divide N.

    Raises:
        ValueError: if N cannot be split equally, where the message names the nearest number of minibatches that is
            possible; for leaves of different N, a batch of keys, or both or neither of ``num_minibatches`` and
            ``size``.

    >>> import jax
    >>> batch = {"reward": jax.numpy.zeros(264)}
    >>> minibatches(jax.random.key(0), batch, size=32)["reward"].shape
    (8, 33)
    """
    check_arrays("minibatches", "batch", batch)
    shapes = {jnp.shape(x)[:1] for x in jax.tree.leaves(batch)}
    if len(shapes) != 1 or () in shapes:
        raise ValueError(f"minibatches: all leaves must lead with the same axis, got {sorted(shapes)}")
    ((count,),) = shapes
    if size is not None and num_minibatches is None:
        check_integer("minibatches", "size", size, 1, count)
        number = count // size
        reason = f"size {size} makes {number} minibatches"
    elif num_minibatches is not None and size is None:
        check_integer("minibatches", "num_minibatches", num_minibatches, 1)
        number = int(num_minibatches)
        reason = f"num_minibatches is {num_minibatches}"
    else:
        raise ValueError(f"minibatches: pass either num_minibatches or size, got {num_minibatches!r} and {size!r}")
    if count % number:
        near = nearest_divisor(count, number)
        raise ValueError(
            f"minibatches: {count} entries cannot be split equally, {reason}; {near} minibatches of {count // near} can"
        )
    order = shuffled(single_stream("minibatches", key), count)
    return jax.tree.map(
        lambda x: jnp.take(x, order, axis=0, mode="clip").reshape(number, count // number, *x.shape[1:]), batch
    )


def nearest_divisor(total: int, target: int) -> int:
    """The divisor of ``total`` that is nearest to ``target``."""
    return min((n for n in range(1, total + 1) if total % n == 0), key=lambda n: abs(n - target))
