"""A sum tree with eight children per node, which draws leaves in proportion to their values.

A million leaves need seven levels. A draw reads one node, half a cache line, per level. An update recomputes the sums
above the leaves that changed; adding differences instead would let them drift.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, tree
from jaxenv.core._compiled import compiled_once

BRANCHES = 8


@tree.struct
class SumTree:
    """Values of n leaves, at least 0, and the sums above them."""

    # float32, one level after the other: the leaves, the sums of every `BRANCHES` leaves, and so on, up to one node.
    # Each level is padded with zeros to whole nodes.
    sums: jax.Array
    sizes: tuple[int, ...] = tree.static()  # numbers in each level, padding included

    @classmethod
    def zeros(cls, num_leaves: int) -> "SumTree":
        """Returns a tree whose leaves are all 0."""
        sizes = level_sizes(num_leaves)
        return cls(jnp.zeros(sum(sizes), jnp.float32), sizes)

    @property
    def out_of_range(self) -> np.int32:
        """A leaf number that does not exist: writes to it are dropped."""
        return np.int32(sum(self.sizes))

    @property
    def total(self) -> jax.Array:
        """The sum of all leaves, float32 ``()``."""
        return jnp.sum(jnp.asarray(self.sums)[-BRANCHES:])

    def cleared(self) -> "SumTree":
        """Sets all leaves to 0."""
        return tree.rebuild(self, sums=jnp.zeros_like(self.sums))

    def masked(self, keep: jax.Array) -> "SumTree":
        """Sets leaves to 0 where ``keep``, bool ``[n]``, is False."""
        leaves = jnp.where(_padded(keep, self.sizes[0]), jnp.asarray(self.sums)[: self.sizes[0]], np.float32(0))
        levels = [leaves]
        for size in self.sizes[1:]:
            levels.append(_padded(jnp.sum(levels[-1].reshape(-1, BRANCHES), axis=1), size))
        return tree.rebuild(self, sums=jnp.concatenate(levels))

    def put(self, leaf: jax.Array, value: jax.Array, contiguous: bool) -> "SumTree":
        """Sets new values of leaves.

        Args:
            leaf: int32 ``[M, K]``, distinct apart from `out_of_range`.
            value: float32 ``[M, K]``.
            contiguous: whether ``leaf`` counts up by one, wrapping from n - 1 to 0. Fewer sums are then recomputed.
        """
        changed = tree.rebuild(self, sums=jnp.asarray(self.sums).at[leaf].set(value, mode="drop"))
        if not contiguous:
            return changed._with_sums_above(leaf.reshape(-1))
        # One leaf per changed node suffices. The range may start, end and wrap around inside a node: three more nodes.
        num_nodes = self.sizes[0] // BRANCHES
        count = min(leaf.size // BRANCHES + 3, num_nodes)
        node = leaf[0, 0] // np.int32(BRANCHES) + np.arange(count, dtype=np.int32)
        return changed._with_sums_above(node % np.int32(num_nodes) * np.int32(BRANCHES))

    def put_max(self, leaf: jax.Array, value: jax.Array) -> "SumTree":
        """Sets leaves ``[N]`` to new values ``[N]``; a leaf that occurs twice gets the greater value."""
        sums = jnp.asarray(self.sums).at[leaf].set(np.float32(0), mode="drop").at[leaf].max(value, mode="drop")
        return tree.rebuild(self, sums=sums)._with_sums_above(leaf)

    @functools.partial(compiled_once, static_argnums=2)
    def draw(self, stream: random.Stream, number: int) -> tuple[jax.Array, jax.Array]:
        """Draws one leaf from each of ``number`` equal parts of the total, shifted by a common random amount.

        The 24 bits of a float32 cannot distinguish millions of leaves. On every level, the remainder of a draw within
        its branch is therefore rescaled to the whole branch and extended by fresh random bits, so that the probability
        of a branch is accurate to about 2**-24.

        Returns:
            Leaves int32 ``[N]``, none of value 0 unless all are, and their values float32 ``[N]``.
        """
        nodes = jnp.asarray(self.sums).reshape(-1, BRANCHES)
        level_starts = jnp.asarray(self._level_starts[::-1] // np.int32(BRANCHES))
        fraction = random.unit(_stratified_words(stream, number))
        fresh_stream = random.fold_in(stream, "finer")

        # A loop, because XLA would recompute all earlier levels for every consumer of a later one.
        def descend(i: Any, carry: Any) -> Any:
            index, fraction, _ = carry
            node = nodes.at[level_starts[i] + index].get(mode="clip")
            total = jnp.sum(node, axis=1)
            branch, remainder, value = _choose_branch(node, fraction * total)
            fresh = random.uniform(random.fold_in(fresh_stream, i), (number,)) * np.float32(2**-24) * total
            fraction = (remainder + fresh) / jnp.maximum(value, np.finfo(np.float32).tiny)
            return index * np.int32(BRANCHES) + branch, jnp.minimum(fraction, np.float32(1 - 2**-24)), value

        start = (jnp.zeros(number, jnp.int32), fraction, jnp.zeros_like(fraction))
        start = tree.vary_like(fraction * nodes[0, 0], start)
        leaf, _, value = jax.lax.fori_loop(0, len(self.sizes), descend, start)
        return leaf, value

    @property
    def _level_starts(self) -> np.ndarray:
        return np.cumsum([0, *self.sizes[:-1]]).astype(np.int32)

    def _with_sums_above(self, changed: jax.Array) -> "SumTree":
        """Recomputes the sums above leaves ``[M]``; those out of range change nothing."""
        sums, level_starts = self.sums, self._level_starts
        for level in range(len(self.sizes) - 1):
            num_nodes = self.sizes[level] // BRANCHES
            changed = jnp.minimum(changed // np.int32(BRANCHES), np.int32(num_nodes))
            if changed.shape[0] >= num_nodes:
                changed = jnp.arange(num_nodes, dtype=jnp.int32)
            nodes = sums.reshape(-1, BRANCHES).at[changed + level_starts[level] // np.int32(BRANCHES)].get(mode="clip")
            parent = jnp.where(changed < num_nodes, changed + level_starts[level + 1], self.out_of_range)
            sums = sums.at[parent].set(jnp.sum(nodes, axis=1), mode="drop")
        return tree.rebuild(self, sums=sums)


def level_sizes(num_leaves: int) -> tuple[int, ...]:
    """Returns the size of each level, from ``num_leaves`` leaves to the root, padded to whole nodes."""
    sizes = [-(-num_leaves // BRANCHES) * BRANCHES]
    while sizes[-1] > BRANCHES:
        sizes.append(-(-sizes[-1] // BRANCHES**2) * BRANCHES)
    return tuple(sizes)


def _padded(x: jax.Array, size: int) -> jax.Array:
    return jnp.pad(x, (0, size - x.shape[0]))


def _stratified_words(stream: random.Stream, number: int) -> jax.Array:
    """Draws a uint32 from each of ``number`` equal parts of its range, shifted by a common random amount."""
    shift = random.bits(random.fold_in(stream, "turn"))
    bounds = (np.arange(number + 1, dtype=np.uint64) << np.uint64(32)) // np.uint64(number)
    low, width = bounds[:-1].astype(np.uint32), np.diff(bounds).astype(np.uint32)
    # The sum wraps around. A single part has a width of 2**32, which is 0 in 32 bits: the shift alone is uniform.
    return jnp.asarray(low) + random.high_product(random.bits(stream, (number,)), jnp.asarray(width)) + shift


def _choose_branch(node: jax.Array, target: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Returns the branch of each node ``[N, 8]`` that holds ``target``, the remainder in it, and its sum.

    Sums of floats round, so the target may lie beyond the last branch. Then the last branch above 0 is taken.
    """
    before = value = through = jnp.zeros_like(target)
    branch, is_found = jnp.zeros(target.shape, jnp.int32), jnp.zeros(target.shape, bool)
    for i in range(BRANCHES):
        total = node[:, i]
        candidate = (total > 0) & ~is_found
        branch = jnp.where(candidate, np.int32(i), branch)
        before, value = jnp.where(candidate, through, before), jnp.where(candidate, total, value)
        through = through + total
        is_found = is_found | (candidate & (through > target))
    return branch, jnp.maximum(target - before, np.float32(0)), value
