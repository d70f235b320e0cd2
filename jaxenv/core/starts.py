"""What begins in each lane: the argument of ``begin``."""

import dataclasses
import functools
import operator
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from jaxenv import tree
from jaxenv.random import Clock, KeyWords, Stream
from jaxenv.tree import Tree


@tree.struct
class Place:
    """Where episodes begin, in some lanes.

    Attributes:
        values: leaves ``[B, ...]``: levels of the layer that receives them, or parts of its states if ``in_state``.
        given: bool ``[B]``, the lanes whose episodes begin there; ``None`` for all.
        in_state: whether ``values`` holds parts of states, as `Levels.of_state` returns them.
    """

    values: Tree
    given: jax.Array | None = None
    in_state: bool = tree.static(default=False)

    def or_else(self, other: Callable[[], Tree]) -> Tree:
        """Returns the values, and in the lanes that are not given what ``other`` computes."""
        return self.values if self.given is None else tree.where(self.given, self.values, other())


@tree.struct
class Starts:
    """The episodes that begin, one in each lane.

    Attributes:
        keys: the lanes' key words, two ``uint32[B]``.
        env_id: int32 ``[B]``.
        episode: int32 ``[B]``, the number of the episode in its lane.
        place: where they begin; lanes without a place begin in a new level.
    """

    keys: KeyWords
    env_id: jax.Array
    episode: jax.Array
    place: Place | None = None

    @property
    def clock(self) -> Clock:
        """The clock of the first rows."""
        return Clock(self.keys, self.env_id, self.episode, jnp.zeros_like(self.episode))

    def at(self, place: Place | None) -> "Starts":
        """Returns the same episodes, beginning in ``place``."""
        return dataclasses.replace(self, place=place)

    def inside(self, *names: Any) -> "Starts":
        """Returns what a layer inside receives, whose values are the entry ``names`` of this layer's."""
        if self.place is None:
            return self
        values = functools.reduce(operator.getitem, names, self.place.values)
        return self.at(dataclasses.replace(self.place, values=values))

    def values_or_else(self, other: Callable[[], Tree]) -> Tree:
        """Returns the values of the place, and in the other lanes what ``other`` computes."""
        return other() if self.place is None else self.place.or_else(other)

    def else_at(self, other: Place) -> "Starts":
        """Returns the same episodes, of which those without a place begin in ``other``."""
        if self.place is None:
            return self.at(other)
        if self.place.given is None:
            return self
        given = None if other.given is None else self.place.given | other.given
        return self.at(Place(self.place.or_else(lambda: other.values), given, other.in_state))


def next_episodes(clock: Clock) -> Starts:
    """Returns the starts of the episodes after the clock's, in new levels."""
    return Starts(clock.key, clock.env_id, clock.episode + 1)


@dataclasses.dataclass(frozen=True)
class Levels:
    """The levels of a stack, by four functions. A layer maps them if the levels of its episodes are others.

    Attributes:
        sample: draws the levels in which episodes start if none is given.
        mutate: edits each level once at random.
        check: raises a ``ValueError`` for levels, of known values, in which the task cannot start.
        of_state: takes from a state the part in which a new episode can start.
    """

    sample: Callable[[Starts], Tree]
    mutate: Callable[[Tree, Stream], Tree]
    check: Callable[[Tree], None]
    of_state: Callable[[Tree], Tree]
