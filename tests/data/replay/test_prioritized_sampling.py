"""Prioritised sampling: which windows may be drawn, how often, and what a changed priority changes."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenv import random, tree
from jaxenv.data import Batch, PrioritizedSampling, Replay
from jaxenv.data.replay import _sum_tree
from jaxenv.data.replay._sum_tree import SumTree
from jaxenv.rollout import Experience
from jaxenv.timestep import TimeStep

add = jax.jit(Replay.add, static_argnums=0)
init = jax.jit(Replay.init, static_argnums=0)
update = jax.jit(Replay.update_priorities, static_argnums=0)
sample = jax.jit(Replay.sample, static_argnums=(0, 3, 4))


def block(first, count, lanes=3):
    """Rows whose observation is 100 * lane + position."""
    lanes = np.arange(lanes) if isinstance(lanes, int) else np.asarray(lanes)
    number = (100 * lanes + np.asarray(first) + np.arange(count)[:, None]).astype(np.int32)
    return Experience(TimeStep(np.ones_like(number), observation=number))


def chosen(env_id, position):
    """What `Replay.update_priorities` reads of a batch."""
    return Batch((), np.array(env_id, np.int32), np.array(position, np.int32), ())


def known(replay, state):
    """Priorities above 0: (lane, position) -> number."""
    size = replay.capacity * replay.num_envs
    found = np.asarray(state.sampling.sum_tree.sums)[:size].reshape(replay.capacity, replay.num_envs)
    end = np.broadcast_to(state.position, replay.num_envs)
    newest = {(lane, p % replay.capacity): p for lane in range(replay.num_envs) for p in range(max(end[lane], 0))}
    return {(lane, newest[lane, slot]): found[slot, lane] for slot, lane in zip(*np.nonzero(found), strict=True)}


def assert_summed(state):
    """Every sum is that of what lies below it."""
    sums, sizes = np.asarray(state.sampling.sum_tree.sums), state.sampling.sum_tree.sizes
    levels = np.split(sums, np.cumsum(sizes)[:-1])
    for low, high in itertools.pairwise(levels):
        expected = low.reshape(-1, 8).sum(axis=1)
        np.testing.assert_allclose(high[: len(expected)], expected, rtol=1e-6)
        assert not high[len(expected) :].any()


# --- which windows ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("aligned", "length", "ignored", "lanes"),
    [(True, 2, 0, 3), (True, 3, 2, 3), (True, 1, 1, 1), (True, 7, 2, 5), (False, 3, 2, 3)],
)
def test_what_may_be_drawn_is_every_whole_window_and_no_other(aligned, length, ignored, lanes):
    capacity, counts = 9, [1, 3, 9, 2, 5, 1, 8]
    replay = Replay(
        capacity, lanes, aligned=aligned, ignore_earliest=ignored, sampling=PrioritizedSampling(1.0, length)
    )

    @jax.jit
    def run():
        state, found = replay.init(block(0, 1, lanes)), []
        for end, count in zip(np.cumsum(counts), counts, strict=True):
            if aligned:
                state = replay.add(state, block(end - count, count, lanes))
            else:
                for part in np.split(np.arange(lanes), [1]):
                    state = replay.add(state, block(end - count, count, part), part)
            found.append(state)
        return found

    for end, state in zip(np.cumsum(counts), jax.device_get(run()), strict=True):
        first, last = max(end - capacity, 0) + ignored, end - length
        assert known(replay, state) == {(i, p): 1.0 for i in range(lanes) for p in range(first, last + 1)}
        assert_summed(state)


def test_lanes_of_different_sizes_have_their_own_windows():
    replay = Replay(6, 3, aligned=False, sampling=PrioritizedSampling(1.0))
    state = init(replay, block(0, 1))
    for first, count, lane in ((0, 5, 0), (0, 4, 1), (5, 4, 0)):
        state = add(replay, state, block(first, count, [lane]), np.array([lane]))
    assert sorted(known(replay, state)) == [(0, p) for p in range(3, 8)] + [(1, p) for p in range(3)]
    batch = sample(replay, state, jax.random.key(0), 8)
    assert set(zip(batch.env_id.tolist(), batch.position.tolist(), strict=True)) < set(known(replay, state))
    expected = np.asarray(100 * batch.env_id + batch.position)[:, None] + np.arange(2)
    np.testing.assert_array_equal(batch.experience.timestep.observation, expected)


def test_clear_leaves_no_window():
    replay = Replay(9, 3, sampling=PrioritizedSampling(1.0))
    state = replay.clear(add(replay, init(replay, block(0, 1)), block(0, 9)))
    assert known(replay, state) == {}
    assert sorted(known(replay, add(replay, state, block(9, 2)))) == [(0, 9), (1, 9), (2, 9)]


def test_clear_leaves_the_windows_of_the_rows_that_are_kept():
    replay = Replay(9, 3, sampling=PrioritizedSampling(1.0))
    state = add(replay, add(replay, init(replay, block(0, 1)), block(0, 9)), block(9, 2))
    state = update(replay, state, chosen([1, 2, 0], [7, 8, 9]), np.array([3, 2, 0.5], np.float32))
    state = jax.device_get(jax.jit(lambda state: replay.clear(state, keep=3))(state))
    assert known(replay, state) == {(0, 8): 1.0, (1, 8): 1.0, (2, 8): 2.0, (0, 9): 0.5, (1, 9): 1.0, (2, 9): 1.0}
    assert_summed(state)
    assert sorted(known(replay, replay.clear(state, keep=1))) == []


# --- how often -------------------------------------------------------------------------------------------------------


@functools.cache
def weighted(exponent):
    """A full ring of 3 lanes and 6 rows whose priorities are 1, 2, ... in the order of lanes, one of them 0."""
    replay = Replay(6, 3, sampling=PrioritizedSampling(exponent))
    state = add(replay, add(replay, init(replay, block(0, 1)), block(0, 6)), block(6, 3))
    env_id, position = np.repeat(np.arange(3), 5), np.tile(np.arange(3, 8), 3)
    priority = np.arange(15, dtype=np.float32)
    return replay, update(replay, state, chosen(env_id, position), priority), priority


@pytest.mark.parametrize("exponent", [1.0, 0.5])
def test_windows_are_drawn_in_proportion_to_their_priorities_and_never_at_zero(exponent):
    replay, state, priority = weighted(exponent)

    @jax.jit
    def draws(keys):
        batch = jax.lax.map(lambda key: replay.sample(state, key, 4), keys)
        return batch.env_id * 5 + batch.position - 3

    place = np.asarray(draws(jax.random.split(jax.random.key(0), 3000)))
    expected = priority**exponent / np.sum(priority**exponent)
    counts = np.bincount(place.ravel(), minlength=15)
    assert counts[0] == 0
    assert np.sum((counts - 12000 * expected)[1:] ** 2 / (12000 * expected[1:])) / 13 < 1.9
    first = np.bincount(place[:, 0], minlength=15)
    assert np.sum((first - 3000 * expected)[1:] ** 2 / (3000 * expected[1:])) / 13 < 1.9
    # One draw from each quarter: none comes more often than its share, rounded up.
    most = max(np.bincount(row, minlength=15).max() for row in place)
    assert most <= np.ceil(4 * expected.max()) + 1


def test_weights_undo_the_bias_and_are_one_for_the_rarest():
    replay, state, priority = weighted(0.5)
    for beta in (1.0, 0.4):
        batch = sample(replay, state, jax.random.key(1), 16, 2, np.float32(beta))
        power = np.sqrt(priority[batch.env_id * 5 + batch.position - 3])
        chance = power / np.sum(np.sqrt(priority))
        expected = (1 / (14 * chance)) ** beta
        np.testing.assert_allclose(batch.weight, expected / expected.max(), rtol=1e-5)


def test_a_draw_from_a_million_priorities_finds_the_few_that_are_not_zero():
    where = np.array([0, 7, 8, 511, 70_000, 999_999])

    @jax.jit
    def draws(key):
        values = SumTree.zeros(1_000_000).put_max(where, jnp.array([1, 2, 3, 4, 5, 1e-3], jnp.float32))
        return values.draw(random.stream(key), 4096)

    place, priority = jax.device_get(draws(jax.random.key(0)))
    assert set(place) <= set(where)
    counts = np.array([np.sum(place == w) for w in where])
    np.testing.assert_allclose(counts[:5], 4096 * np.arange(1, 6) / 15.001, atol=2)
    assert priority[place == 511].tolist() == [4.0] * counts[3]


def test_millions_of_places_beside_one_that_outweighs_them_are_drawn_alike():
    kept = SumTree.zeros(2**23)
    levels = [np.ones(kept.sizes[0], np.float32)]
    levels[0][0] = 7 * 2**23
    for size in kept.sizes[1:]:
        levels.append(np.zeros(size, np.float32))
        levels[-1][: len(levels[-2]) // 8] = levels[-2].reshape(-1, 8).sum(axis=1)
    kept = tree.rebuild(kept, sums=np.concatenate(levels))
    place, _ = jax.device_get(jax.jit(SumTree.draw, static_argnums=2)(kept, random.stream(jax.random.key(1)), 2**15))
    others = place[place > 0]
    assert abs(len(others) - 2**12) <= 2
    for below in (1, 8, 64):
        counts = np.bincount(others // below % 8)
        assert np.sum((counts - 2**9) ** 2 / 2**9) / 7 < 2.7
    # One draw from each of equal parts.
    assert set(np.bincount(others // 2**13)) <= {3, 4, 5}


def test_what_rounding_leaves_beyond_the_last_priority_belongs_to_it():
    node = jnp.array([[0, 1, 2, 0, 3, 0, 0, 0]], jnp.float32)
    for rest, branch in [(0.0, 1), (0.9, 1), (1.0, 2), (3.0, 4), (6.0, 4), (6.5, 4)]:
        assert _sum_tree._choose_branch(node, jnp.array([rest], jnp.float32))[0].tolist() == [branch]


# --- what a change changes -------------------------------------------------------------------------------------------


def test_new_rows_get_the_greatest_priority_so_far():
    replay = Replay(8, 2, sampling=PrioritizedSampling(2.0))
    state = add(replay, init(replay, block(0, 1, 2)), block(0, 4, 2))
    state = update(replay, state, chosen([1, 0], [0, 2]), np.array([3.0, 0.5], np.float32))
    state = add(replay, state, block(4, 1, 2))
    found = known(replay, state)
    assert found[1, 0] == found[0, 3] == found[1, 3] == 9.0
    assert found[0, 2] == 0.25
    assert found[0, 0] == 1.0


def test_windows_that_are_gone_or_not_whole_keep_what_came_in_their_place():
    replay = Replay(4, 2, sampling=PrioritizedSampling(1.0), ignore_earliest=1)
    state = add(replay, add(replay, init(replay, block(0, 1, 2)), block(0, 4, 2)), block(4, 2, 2))
    before = known(replay, state)
    assert sorted(before) == [(0, 3), (0, 4), (1, 3), (1, 4)]
    # Overwritten, overwritten, ignored, the newest row.
    state = update(replay, state, chosen([0, 1, 0, 1], [0, 1, 2, 5]), np.full(4, 7, np.float32))
    assert known(replay, state) == before
    assert state.sampling.greatest == 1.0


def test_of_a_window_that_comes_twice_the_greater_priority_counts():
    replay = Replay(4, 2, sampling=PrioritizedSampling(1.0))
    state = add(replay, init(replay, block(0, 1, 2)), block(0, 4, 2))
    state = update(replay, state, chosen([0, 0, 0], [1, 1, 1]), np.array([0.2, 0.5, 0.3], np.float32))
    assert known(replay, state)[0, 1] == 0.5


def test_numbers_that_are_no_priority_do_no_harm():
    replay = Replay(4, 2, sampling=PrioritizedSampling(0.5))
    state = add(replay, init(replay, block(0, 1, 2)), block(0, 4, 2))
    state = update(replay, state, chosen([0, 0, 1], [0, 1, 0]), np.array([np.nan, np.inf, -4.0], np.float32))
    found = known(replay, state)
    assert found[0, 0] == found[0, 1] == 1.0
    assert (1, 0) not in found
    assert np.isfinite(state.sampling.sum_tree.sums).all()


def test_the_greatest_numbers_of_all_have_a_finite_sum():
    replay = Replay(4, 2, sampling=PrioritizedSampling(1.0))
    state = add(replay, init(replay, block(0, 1, 2)), block(0, 4, 2))
    state = update(replay, state, chosen([0, 0, 1], [0, 1, 0]), np.array([3e38, 3e38, 3e38], np.float32))
    found = known(replay, state)
    assert found[0, 0] == found[0, 1] == found[1, 0] == 2.0**96
    assert np.isfinite(state.sampling.sum_tree.sums).all()
    squared = Replay(8, 2, sampling=PrioritizedSampling(2.0))
    state = add(squared, init(squared, block(0, 1, 2)), block(0, 4, 2))
    state = update(squared, state, chosen([1, 0], [0, 2]), np.array([1e30, 0.5], np.float32))
    assert known(squared, state)[1, 0] == state.sampling.greatest == 2.0**96


def test_windows_that_all_have_priority_zero_are_no_windows():
    replay = Replay(4, 2, sampling=PrioritizedSampling(1.0))
    state = add(replay, init(replay, block(0, 1, 2)), block(0, 4, 2))
    assert replay.can_sample(state)
    for lane in (0, 1):
        state = update(replay, state, chosen([lane] * 3, [0, 1, 2]), np.zeros(3, np.float32))
    assert not replay.can_sample(state)
    with pytest.raises(ValueError, match=r"Replay.sample: all windows have priority 0"):
        replay.sample(state, jax.random.key(0), 4)


def test_sums_do_not_drift_over_many_changes():
    replay = Replay(64, 5, sampling=PrioritizedSampling(1.0))
    generator = np.random.default_rng(0)
    steps = 300
    # From the very small to the very large: differences would be lost among the sums.
    priority = (10 ** generator.uniform(-6, 6, (steps, 8))).astype(np.float32)
    env_id, position = generator.integers(0, 5, (steps, 8)), generator.integers(0, 63, (steps, 8))

    @jax.jit
    def run(state):
        one = lambda state, x: (replay.update_priorities(state, chosen_from(x), x[2]), None)  # noqa: E731
        return jax.lax.scan(one, state, (env_id.astype(np.int32), position.astype(np.int32), priority))[0]

    def chosen_from(x):
        return Batch((), x[0], x[1], ())

    assert_summed(jax.device_get(run(add(replay, init(replay, block(0, 1, 5)), block(0, 64, 5)))))


def test_what_does_not_fit_is_refused():
    replay = Replay(8, 3, sampling=PrioritizedSampling(1.0, 3))
    state = add(replay, init(replay, block(0, 1)), block(0, 8))
    with pytest.raises(ValueError, match=r"sample: length must be that of PrioritizedSampling, 3, got 2"):
        replay.sample(state, jax.random.key(0), 4)
    with pytest.raises(ValueError, match=r"update_priorities: priority must have shape \(2,\), got \(3,\)"):
        replay.update_priorities(state, chosen([0, 1], [0, 1]), jnp.ones(3))
    with pytest.raises(ValueError, match=r"no lane has a window of 3 rows yet"):
        replay.sample(add(replay, init(replay, block(0, 1)), block(0, 2)), jax.random.key(0), 4, 3)
