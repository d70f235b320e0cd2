"""Draws in proportion to priorities: a tree of sums with eight branches, every sum made anew of what lies below it.

A million priorities need seven levels. A draw reads one node, half a cache line, of each; a change makes the sums above
it anew, so that they do not drift as sums do to which differences are added.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import _xla, random, tree

BRANCHES = 8
# What a greater priority counts as: 2**31 of these have a sum that float32 holds.
LARGEST = np.float32(2.0**96)


@tree.struct
class Priorities:
    """Priorities of n places, 0 for those that are not to be drawn.

    Attributes:
        sums: float32, level after level: the priorities, the sums of every `BRANCHES` of them, and so on, up to one
            node. Each level is filled up with zeros to whole nodes.
        greatest: float32 ``()``, the greatest priority ever given, at least 1: what new places get.
        record: float32 ``[R]``, the numbers of ``made_for``: they are in a checkpoint, where static fields are not.
        sizes: of the levels.
        made_for: what the places stand for, told by who made them: (name, number), R times.
    """

    sums: jax.Array
    greatest: jax.Array
    record: jax.Array
    sizes: tuple[int, ...] = tree.static()
    made_for: tuple[tuple[str, float], ...] = tree.static()

    @property
    def nowhere(self) -> np.int32:
        """A place that is out of range: what is written there is dropped."""
        return np.int32(sum(self.sizes))

    @property
    def offsets(self) -> np.ndarray:
        """Where the levels begin."""
        return np.cumsum([0, *self.sizes[:-1]]).astype(np.int32)

    @property
    def total(self) -> jax.Array:
        """The sum of all priorities, float32 ``()``."""
        return jnp.sum(jnp.asarray(self.sums)[-BRANCHES:])


def level_sizes(places: int) -> tuple[int, ...]:
    """Numbers in each level of n places, whole nodes all."""
    sizes = [-(-places // BRANCHES) * BRANCHES]
    while sizes[-1] > BRANCHES:
        sizes.append(-(-sizes[-1] // BRANCHES**2) * BRANCHES)
    return tuple(sizes)


def empty(places: int, made_for: tuple[tuple[str, float], ...] = ()) -> Priorities:
    """Priorities that are all 0."""
    sizes = level_sizes(places)
    record = jnp.asarray(np.array([number for _, number in made_for], np.float32))
    return Priorities(jnp.zeros(sum(sizes), jnp.float32), jnp.ones((), jnp.float32), record, sizes, made_for)


def kept(priorities: Priorities, keep: Any = False) -> Priorities:
    """All 0 again but places for which ``keep``, bool ``[n]``, is true; what new places get stays."""
    sums, sizes = jnp.asarray(priorities.sums), priorities.sizes
    if keep is False:
        return tree.rebuild(priorities, sums=jnp.zeros_like(sums))
    filled = lambda x, size: jnp.pad(x, (0, size - x.shape[0]))  # noqa: E731
    levels = [jnp.where(filled(keep, sizes[0]), sums[: sizes[0]], np.float32(0))]
    for size in sizes[1:]:
        levels.append(filled(jnp.sum(levels[-1].reshape(-1, BRANCHES), axis=1), size))
    return tree.rebuild(priorities, sums=jnp.concatenate(levels))


def begin(priorities: Priorities, place: jax.Array, drawn: jax.Array, adjacent: bool) -> Priorities:
    """Gives places the greatest priority so far, or 0.

    Args:
        priorities: of n places.
        place: int32 ``[M, K]``, no two the same but `Priorities.nowhere`.
        drawn: bool ``[M, K]`` or ``[M, 1]``, which get the greatest.
        adjacent: whether the places follow one another, from n - 1 on to 0: fewer sums are then made anew.
    """
    value = jnp.broadcast_to(jnp.where(drawn, priorities.greatest, np.float32(0)), place.shape)
    sums = jnp.asarray(priorities.sums).at[place].set(value, mode="drop")
    changed = place.reshape(-1)
    if adjacent:
        # One place of every node; there is one node more at either end, and one where n ends inside a node.
        whole = priorities.sizes[0] // BRANCHES
        node = place[0, 0] // np.int32(BRANCHES) + np.arange(min(place.size // BRANCHES + 3, whole), dtype=np.int32)
        changed = node % np.int32(whole) * np.int32(BRANCHES)
    return _summed(tree.rebuild(priorities, sums=sums), changed)


def change(priorities: Priorities, place: jax.Array, priority: jax.Array) -> Priorities:
    """Gives places ``[N]`` new priorities ``[N]``; of a place that occurs twice the greater one counts.

    A priority that is not finite counts as the greatest so far, one above `LARGEST` as that. Places out of range change
    nothing.
    """
    priority = jnp.where(jnp.isfinite(priority), jnp.minimum(priority, LARGEST), priorities.greatest)
    sums = jnp.asarray(priorities.sums).at[place].set(np.float32(0), mode="drop").at[place].max(priority, mode="drop")
    used = jnp.where(place < priorities.nowhere, priority, np.float32(0))
    greatest = jnp.maximum(priorities.greatest, jnp.max(used, initial=np.float32(0)))
    return _summed(tree.rebuild(priorities, sums=sums, greatest=greatest), place)


def draw(priorities: Priorities, stream: random.Stream, number: int) -> tuple[jax.Array, jax.Array]:
    """One draw from each of ``number`` equal parts of the sum of all priorities, turned by a random amount.

    A float32 has too few bits to tell millions of places apart. So what is left of a draw below a branch is stretched
    to the whole branch, and fresh random bits fill up what it lacks: at each level the chance of a branch is right to
    about 2**-24.

    Returns:
        Places int32 ``[N]``, none of priority 0 unless all are, and their priorities float32 ``[N]``.
    """
    turn = random.bits(random.fold_in(stream, "turn"))
    bounds = (np.arange(number + 1, dtype=np.uint64) << np.uint64(32)) // np.uint64(number)
    low, width = bounds[:-1].astype(np.uint32), np.diff(bounds).astype(np.uint32)
    # In 32 bits that wrap around. One part has 2**32 words, which is 0 here: the turn alone is as good.
    word = jnp.asarray(low) + random.high_product(random.bits(stream, (number,)), jnp.asarray(width)) + turn
    nodes = jnp.asarray(priorities.sums).reshape(-1, BRANCHES)
    first = jnp.asarray(priorities.offsets[::-1] // np.int32(BRANCHES))
    finer = random.fold_in(stream, "finer")

    # A loop, because its carry is kept: XLA would make all steps before anew for each number of a later one.
    def descend(i, carry):
        place, share, _ = carry
        node = nodes.at[first[i] + place].get(mode="clip")
        whole = jnp.sum(node, axis=1)
        branch, rest, priority = _branch(node, share * whole)
        fresh = random.uniform(random.fold_in(finer, i), (number,)) * np.float32(2**-24) * whole
        share = (rest + fresh) / jnp.maximum(priority, np.finfo(np.float32).tiny)
        return place * np.int32(BRANCHES) + branch, jnp.minimum(share, np.float32(1 - 2**-24)), priority

    share = random.unit(word)
    carry = _xla.vary_like(share * nodes[0, 0], (jnp.zeros(number, jnp.int32), share, jnp.zeros_like(share)))
    place, _, priority = jax.lax.fori_loop(0, len(priorities.sizes), descend, carry)
    return place, priority


def _branch(node: jax.Array, rest: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The branch of each node ``[N, 8]`` in which ``rest`` lies, what is left of it there, and the branch's sum.

    Sums of floats round, so that what is left may lie beyond the last branch: it is the last one above 0 then.
    """
    before = priority = through = jnp.zeros_like(rest)
    branch, found = jnp.zeros(rest.shape, jnp.int32), jnp.zeros(rest.shape, bool)
    for i in range(BRANCHES):
        own = node[:, i]
        taken = (own > 0) & ~found
        branch = jnp.where(taken, np.int32(i), branch)
        before, priority = jnp.where(taken, through, before), jnp.where(taken, own, priority)
        through = through + own
        found = found | (taken & (through > rest))
    return branch, jnp.maximum(rest - before, np.float32(0)), priority


def _summed(priorities: Priorities, changed: jax.Array) -> Priorities:
    """Makes the sums above changed places ``[M]`` anew; places out of range change nothing."""
    sums, offsets = priorities.sums, priorities.offsets
    for below in range(len(priorities.sizes) - 1):
        count = priorities.sizes[below] // BRANCHES
        changed = jnp.minimum(changed // np.int32(BRANCHES), np.int32(count))
        if changed.shape[0] >= count:
            changed = jnp.arange(count, dtype=jnp.int32)
        nodes = sums.reshape(-1, BRANCHES).at[changed + offsets[below] // np.int32(BRANCHES)].get(mode="clip")
        place = jnp.where(changed < count, changed + offsets[below + 1], priorities.nowhere)
        sums = sums.at[place].set(jnp.sum(nodes, axis=1), mode="drop")
    return tree.rebuild(priorities, sums=sums)
