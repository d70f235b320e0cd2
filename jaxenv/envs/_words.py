"""Sets of cells, one bit per cell; their subclasses lay out boards in words of 32 bits."""

import functools
import itertools
import operator
from collections.abc import Callable
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import tree

_ZERO = np.uint32(0)


@tree.struct
class Words:
    """A set of cells: words, each uint32 ``[B]``, on which XLA's loops over the lanes are simple and vectorised."""

    words: tuple[Any, ...]

    @staticmethod
    def union(*sets: Any) -> Any:
        """Returns the cells that are in at least one of the sets."""
        return functools.reduce(operator.or_, sets)

    def __and__(self, other: Self) -> Self:
        return self._map(lambda a, b: a & b, other)

    def __or__(self, other: Self) -> Self:
        return self._map(lambda a, b: a | b, other)

    def __xor__(self, other: Self) -> Self:
        return self._map(lambda a, b: a ^ b, other)

    def __sub__(self, other: Self) -> Self:
        return self._map(lambda a, b: a & ~b, other)

    def where(self, mask: Any) -> Self:
        """Returns this set in the lanes of ``mask`` (bool ``[B]``) and the empty set in the others."""
        return self._map(lambda a: jnp.where(mask, a, _ZERO))

    def full(self, lanes: tuple[int, ...]) -> Self:
        """Returns a constant set, which has no lane axis, in lanes of this shape."""
        return self._map(lambda a: jnp.full(lanes, a))

    def any(self) -> Any:
        """Returns whether the set is not empty, bool ``[B]``."""
        return functools.reduce(operator.or_, self.words) != _ZERO

    def count(self) -> Any:
        """Returns the number of cells in the set, int32 ``[B]``."""
        return functools.reduce(operator.add, map(jax.lax.population_count, self.words)).astype(jnp.int32)

    def _map(self, fn: Callable[..., Any], *others: Self) -> Self:
        words = zip(self.words, *(other.words for other in others), strict=True)
        return type(self)(tuple(itertools.starmap(fn, words)))
