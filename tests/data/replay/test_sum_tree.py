"""The sum tree: draws in proportion to the values of its leaves."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import random, tree
from jaxenv.data.replay import _sum_tree
from jaxenv.data.replay._sum_tree import SumTree


def test_draws_from_a_million_leaves_find_the_few_that_are_positive():
    where = np.array([0, 7, 8, 511, 70_000, 999_999])

    @jax.jit
    def draws(key):
        values = SumTree.zeros(1_000_000).put_max(where, jnp.array([1, 2, 3, 4, 5, 1e-3], jnp.float32))
        return values.draw(random.stream(key), 4096)

    leaf, priority = jax.device_get(draws(jax.random.key(0)))
    assert set(leaf) <= set(where)
    counts = np.array([np.sum(leaf == w) for w in where])
    np.testing.assert_allclose(counts[:5], 4096 * np.arange(1, 6) / 15.001, atol=2)
    assert priority[leaf == 511].tolist() == [4.0] * counts[3]


def test_millions_of_small_leaves_next_to_a_dominant_one_are_drawn_uniformly():
    sum_tree = SumTree.zeros(2**23)
    levels = [np.ones(sum_tree.sizes[0], np.float32)]
    levels[0][0] = 7 * 2**23
    for size in sum_tree.sizes[1:]:
        levels.append(np.zeros(size, np.float32))
        levels[-1][: len(levels[-2]) // 8] = levels[-2].reshape(-1, 8).sum(axis=1)
    sum_tree = tree.rebuild(sum_tree, sums=np.concatenate(levels))
    leaf, _ = jax.device_get(jax.jit(SumTree.draw, static_argnums=2)(sum_tree, random.stream(jax.random.key(1)), 2**15))
    others = leaf[leaf > 0]
    assert abs(len(others) - 2**12) <= 2
    for below in (1, 8, 64):
        counts = np.bincount(others // below % 8)
        assert np.sum((counts - 2**9) ** 2 / 2**9) / 7 < 2.7
    # One draw from each of 2**15 equal parts.
    assert set(np.bincount(others // 2**13)) <= {3, 4, 5}


def test_a_target_beyond_the_rounded_sum_selects_the_last_positive_branch():
    node = jnp.array([[0, 1, 2, 0, 3, 0, 0, 0]], jnp.float32)
    for rest, branch in [(0.0, 1), (0.9, 1), (1.0, 2), (3.0, 4), (6.0, 4), (6.5, 4)]:
        assert _sum_tree._choose_branch(node, jnp.array([rest], jnp.float32))[0].tolist() == [branch]
