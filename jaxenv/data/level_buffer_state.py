"""The contents of a level buffer."""

from typing import Any, NamedTuple

import jax

from jaxenv import tree
from jaxenv.tree import _export


@tree.struct
class LevelBufferState:
    """The contents of a `LevelBuffer` with N places: a plain tree of arrays.

    Attributes:
        levels: the levels, leaves ``[N, ...]``. The first ``size`` places are in use.
        notes: what else is stored with each level, leaves ``[N, ...]``; ``()`` for nothing.
        scores: float32 ``[N]``; -inf in empty places.
        hashes: uint32 ``[N, 2]``, a hash of the bits of each level.
        last_used: int32 ``[N]``, the time at which each level was last inserted or sampled.
        size: int32 ``()``, the number of levels.
        time: int32 ``()``, the number of calls of ``insert`` and ``sample``.
    """

    levels: Any
    notes: Any
    scores: jax.Array
    hashes: jax.Array
    last_used: jax.Array
    size: jax.Array
    time: jax.Array


@_export.named_tuple
class LevelSample(NamedTuple):
    """K levels drawn from a `LevelBuffer`.

    Attributes:
        place: int32 ``[K]``, where they are stored. A place names the same level until the next ``insert``.
        levels: leaves ``[K, ...]``.
        notes: leaves ``[K, ...]``; ``()`` for nothing.
    """

    place: jax.Array
    levels: Any
    notes: Any
