"""Prioritised sampling: which windows can be drawn, how often, and how priorities are updated."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenv import data
from jaxenv.core.timestep import TimeStep
from jaxenv.data import Batch, PrioritizedSampling, Replay
from jaxenv.rollout import Experience

# Priorities as they are given, so that tests can compare them exactly.
exactly = functools.partial(PrioritizedSampling, epsilon=0)

add = jax.jit(Replay.add, static_argnums=0)
init = jax.jit(Replay.init, static_argnums=0)
update = jax.jit(Replay.update_priorities, static_argnums=0)
sample = jax.jit(Replay.sample, static_argnums=(0, 3, 4))


def block(first, count, lanes=3):
    """Rows whose observation is 100 * lane + position."""
    lanes = np.arange(lanes) if isinstance(lanes, int) else np.asarray(lanes)
    number = (100 * lanes + np.asarray(first) + np.arange(count)[:, None]).astype(np.int32)
    return Experience(TimeStep(np.ones_like(number), observation=number))


def windows_at(env_id, position):
    """A batch with the fields that `Replay.update_priorities` reads."""
    return Batch((), np.array(env_id, np.int32), np.array(position, np.int32), ())


def priorities_of(replay, state):
    """Positive priorities by (lane, position)."""
    size = replay.capacity * replay.num_envs
    values = np.asarray(state.sampling.sum_tree.sums)[:size].reshape(replay.capacity, replay.num_envs)
    end = np.broadcast_to(state.position, replay.num_envs)
    newest = {(lane, p % replay.capacity): p for lane in range(replay.num_envs) for p in range(max(end[lane], 0))}
    return {(lane, newest[lane, slot]): values[slot, lane] for slot, lane in zip(*np.nonzero(values), strict=True)}


def assert_sums_are_exact(state):
    """Checks that every sum is that of the node below it."""
    sums, sizes = np.asarray(state.sampling.sum_tree.sums), state.sampling.sum_tree.sizes
    levels = np.split(sums, np.cumsum(sizes)[:-1])
    for low, high in itertools.pairwise(levels):
        expected = low.reshape(-1, 8).sum(axis=1)
        np.testing.assert_allclose(high[: len(expected)], expected, rtol=1e-6)
        assert not high[len(expected) :].any()


# --- which windows ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("aligned", "length", "ignored", "lanes"),
    [(True, 2, 0, 3), (True, 3, 2, 3), (True, 1, 1, 1), (True, 7, 2, 5), (False, 3, 2, 3)],
)
def test_exactly_the_complete_windows_can_be_drawn(aligned, length, ignored, lanes):
    capacity, counts = 9, [1, 3, 9, 2, 5, 1, 8]
    replay = Replay(capacity, lanes, aligned=aligned, ignore_earliest=ignored, sampling=exactly(1.0, length))

    @jax.jit
    def run():
        state, states = replay.init(block(0, 1, lanes)), []
        for end, count in zip(np.cumsum(counts), counts, strict=True):
            if aligned:
                state = replay.add(state, block(end - count, count, lanes))
            else:
                for part in np.split(np.arange(lanes), [1]):
                    state = replay.add(state, block(end - count, count, part), part)
            states.append(state)
        return states

    for end, state in zip(np.cumsum(counts), jax.device_get(run()), strict=True):
        first, last = max(end - capacity, 0) + ignored, end - length
        assert priorities_of(replay, state) == {(i, p): 1.0 for i in range(lanes) for p in range(first, last + 1)}
        assert_sums_are_exact(state)


def test_lanes_of_different_sizes_have_their_own_windows():
    replay = Replay(6, 3, aligned=False, sampling=exactly(1.0))
    state = init(replay, block(0, 1))
    for first, count, lane in ((0, 5, 0), (0, 4, 1), (5, 4, 0)):
        state = add(replay, state, block(first, count, [lane]), np.array([lane]))
    assert sorted(priorities_of(replay, state)) == [(0, p) for p in range(3, 8)] + [(1, p) for p in range(3)]
    batch = sample(replay, state, jax.random.key(0), 8)
    assert set(zip(batch.env_id.tolist(), batch.position.tolist(), strict=True)) < set(priorities_of(replay, state))
    expected = np.asarray(100 * batch.env_id + batch.position)[:, None] + np.arange(2)
    np.testing.assert_array_equal(batch.experience.timestep.observation, expected)


def test_clear_leaves_no_window():
    replay = Replay(9, 3, sampling=exactly(1.0))
    state = replay.clear(add(replay, init(replay, block(0, 1)), block(0, 9)))
    assert priorities_of(replay, state) == {}
    assert sorted(priorities_of(replay, add(replay, state, block(9, 2)))) == [(0, 9), (1, 9), (2, 9)]


def test_clear_keeps_the_windows_of_the_rows_that_remain():
    replay = Replay(9, 3, sampling=exactly(1.0))
    state = add(replay, add(replay, init(replay, block(0, 1)), block(0, 9)), block(9, 2))
    state = update(replay, state, windows_at([1, 2, 0], [7, 8, 9]), np.array([3, 2, 0.5], np.float32))
    state = jax.device_get(jax.jit(lambda state: replay.clear(state, keep=3))(state))
    assert priorities_of(replay, state) == {
        (0, 8): 1.0,
        (1, 8): 1.0,
        (2, 8): 2.0,
        (0, 9): 0.5,
        (1, 9): 1.0,
        (2, 9): 1.0,
    }
    assert_sums_are_exact(state)
    assert sorted(priorities_of(replay, replay.clear(state, keep=1))) == []
    replay = Replay(9, 3, sampling=exactly(1.0), ignore_earliest=1)
    state = replay.clear(add(replay, init(replay, block(0, 1)), block(0, 9)), keep=4)
    assert sorted(priorities_of(replay, state)) == [(lane, start) for lane in range(3) for start in (6, 7)]


# --- how often --------------------------------------------------------------------------------------------------------


@functools.cache
def weighted(exponent):
    """A full buffer of 3 lanes and 6 rows with priorities 0, 1, 2, ... in the order of lanes."""
    replay = Replay(6, 3, sampling=exactly(exponent))
    state = add(replay, add(replay, init(replay, block(0, 1)), block(0, 6)), block(6, 3))
    env_id, position = np.repeat(np.arange(3), 5), np.tile(np.arange(3, 8), 3)
    priority = np.arange(15, dtype=np.float32)
    return replay, update(replay, state, windows_at(env_id, position), priority), priority


@pytest.mark.parametrize("exponent", [1.0, 0.5])
def test_windows_are_drawn_in_proportion_to_their_priorities_and_without_epsilon_never_at_zero(exponent):
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
    # One draw from each quarter: no window is drawn more often than expected, rounded up.
    most = max(np.bincount(row, minlength=15).max() for row in place)
    assert most <= np.ceil(4 * expected.max()) + 1


def test_weights_correct_the_bias_and_are_one_for_the_least_likely_window():
    replay, state, priority = weighted(0.5)
    for beta in (1.0, 0.4):
        batch = sample(replay, state, jax.random.key(1), 16, 2, np.float32(beta))
        power = np.sqrt(priority[batch.env_id * 5 + batch.position - 3])
        chance = power / np.sum(np.sqrt(priority))
        expected = (1 / (14 * chance)) ** beta
        np.testing.assert_allclose(batch.weight, expected / expected.max(), rtol=1e-5)


# --- updates ----------------------------------------------------------------------------------------------------------


def test_new_rows_get_the_greatest_priority_so_far():
    replay = Replay(8, 2, sampling=exactly(2.0))
    state = add(replay, init(replay, block(0, 1, 2)), block(0, 4, 2))
    state = update(replay, state, windows_at([1, 0], [0, 2]), np.array([3.0, 0.5], np.float32))
    state = add(replay, state, block(4, 1, 2))
    priorities = priorities_of(replay, state)
    assert priorities[1, 0] == priorities[0, 3] == priorities[1, 3] == 9.0
    assert priorities[0, 2] == 0.25
    assert priorities[0, 0] == 1.0


def test_updates_of_overwritten_or_incomplete_windows_change_nothing():
    replay = Replay(4, 2, sampling=exactly(1.0), ignore_earliest=1)
    state = add(replay, add(replay, init(replay, block(0, 1, 2)), block(0, 4, 2)), block(4, 2, 2))
    before = priorities_of(replay, state)
    assert sorted(before) == [(0, 3), (0, 4), (1, 3), (1, 4)]
    # Two overwritten rows, an ignored one, and the newest one.
    state = update(replay, state, windows_at([0, 1, 0, 1], [0, 1, 2, 5]), np.full(4, 7, np.float32))
    assert priorities_of(replay, state) == before
    assert state.sampling.greatest == 1.0


def test_a_window_that_occurs_twice_gets_the_greater_priority():
    replay = Replay(4, 2, sampling=exactly(1.0))
    state = add(replay, init(replay, block(0, 1, 2)), block(0, 4, 2))
    state = update(replay, state, windows_at([0, 0, 0], [1, 1, 1]), np.array([0.2, 0.5, 0.3], np.float32))
    assert priorities_of(replay, state)[0, 1] == 0.5


def test_in_jitted_code_nan_and_infinity_are_replaced_and_signs_are_dropped():
    replay = Replay(5, 2, sampling=exactly(0.5))
    state = add(replay, init(replay, block(0, 1, 2)), block(0, 5, 2))
    priority = np.array([np.nan, np.inf, -np.inf, -4.0], np.float32)
    state = update(replay, state, windows_at([0, 0, 0, 1], [0, 1, 2, 0]), priority)
    priorities = priorities_of(replay, state)
    assert priorities[0, 0] == priorities[0, 1] == priorities[0, 2] == 1.0
    assert priorities[1, 0] == 2.0
    assert np.isfinite(state.sampling.sum_tree.sums).all()


@pytest.mark.parametrize("value", [-0.25, np.nan, np.inf])
def test_outside_jitted_code_a_priority_that_is_no_size_of_an_error_raises(value):
    replay = Replay(5, 2, sampling=PrioritizedSampling(0.5))
    state = add(replay, init(replay, block(0, 1, 2)), block(0, 5, 2))
    with pytest.raises(ValueError, match=rf"^Replay.update_priorities: priority .*got {value}$"):
        replay.update_priorities(state, windows_at([0, 1, 0], [0, 1, 2]), jnp.array([3.0, value, 1.0]))


def test_windows_stay_drawable_whatever_the_signs_of_their_errors():
    replay = Replay(22, 3, sampling=PrioritizedSampling(0.6))
    state = add(replay, init(replay, block(0, 1)), block(0, 22))
    env_id, position = np.repeat(np.arange(3), 21), np.tile(np.arange(21), 3)
    error = np.random.default_rng(0).normal(size=63).astype(np.float32)
    error[[5, 40]] = 0
    state = update(replay, state, windows_at(env_id, position), error)
    assert sorted(priorities_of(replay, state)) == list(zip(env_id, position, strict=True))


def test_windows_that_are_not_valid_are_never_drawn_again():
    replay = Replay(5, 2, sampling=PrioritizedSampling(0.5))
    state = add(replay, init(replay, block(0, 1, 2)), block(0, 5, 2))
    windows, error = windows_at([0, 1, 0], [0, 1, 2]), np.array([3.0, np.nan, 0.0], np.float32)
    valid = np.array([True, False, False])
    for method in (Replay.update_priorities, update):
        priorities = priorities_of(replay, method(replay, state, windows, error, valid))
        assert sorted(set(priorities_of(replay, state)) - set(priorities)) == [(0, 2), (1, 1)]


def test_epsilon_is_added_before_the_exponent_is_applied():
    replay = Replay(5, 2, sampling=PrioritizedSampling(2.0, epsilon=0.5))
    state = add(replay, init(replay, block(0, 1, 2)), block(0, 5, 2))
    state = update(replay, state, windows_at([0, 1, 0], [0, 1, 2]), np.array([0.0, 1.0, -2.0], np.float32))
    priorities = priorities_of(replay, state)
    assert (priorities[0, 0], priorities[1, 1], priorities[0, 2]) == (0.25, 2.25, 6.25)


def test_the_sum_of_the_greatest_priorities_is_finite():
    replay = Replay(4, 2, sampling=exactly(1.0))
    state = add(replay, init(replay, block(0, 1, 2)), block(0, 4, 2))
    state = update(replay, state, windows_at([0, 0, 1], [0, 1, 0]), np.array([3e38, 3e38, 3e38], np.float32))
    priorities = priorities_of(replay, state)
    assert priorities[0, 0] == priorities[0, 1] == priorities[1, 0] == 2.0**96
    assert np.isfinite(state.sampling.sum_tree.sums).all()
    squared = Replay(8, 2, sampling=exactly(2.0))
    state = add(squared, init(squared, block(0, 1, 2)), block(0, 4, 2))
    state = update(squared, state, windows_at([1, 0], [0, 2]), np.array([1e30, 0.5], np.float32))
    assert priorities_of(squared, state)[1, 0] == state.sampling.greatest == 2.0**96


def test_without_epsilon_a_buffer_whose_windows_all_have_priority_zero_cannot_be_sampled():
    replay = Replay(4, 2, sampling=exactly(1.0))
    state = add(replay, init(replay, block(0, 1, 2)), block(0, 4, 2))
    assert replay.can_sample(state)
    for lane in (0, 1):
        state = update(replay, state, windows_at([lane] * 3, [0, 1, 2]), np.zeros(3, np.float32))
    assert not replay.can_sample(state)
    with pytest.raises(ValueError, match=r"Replay.sample: all windows have.* 0"):
        replay.sample(state, jax.random.key(0), 4)


def test_sums_do_not_drift_over_many_changes():
    replay = Replay(64, 5, sampling=exactly(1.0))
    generator = np.random.default_rng(0)
    steps = 300
    # Very small and very large values: sums updated by differences would drift.
    priority = (10 ** generator.uniform(-6, 6, (steps, 8))).astype(np.float32)
    env_id, position = generator.integers(0, 5, (steps, 8)), generator.integers(0, 63, (steps, 8))

    @jax.jit
    def run(state):
        step = lambda state, x: (replay.update_priorities(state, windows_from(x), x[2]), None)  # noqa: E731
        return jax.lax.scan(step, state, (env_id.astype(np.int32), position.astype(np.int32), priority))[0]

    def windows_from(x):
        return Batch((), x[0], x[1], ())

    assert_sums_are_exact(jax.device_get(run(add(replay, init(replay, block(0, 1, 5)), block(0, 64, 5)))))


def test_an_argument_that_does_not_fit_raises():
    replay = Replay(8, 3, sampling=exactly(1.0, 3))
    state = add(replay, init(replay, block(0, 1)), block(0, 8))
    with pytest.raises(ValueError, match=r"sample: length .*got 2"):
        replay.sample(state, jax.random.key(0), 4)
    with pytest.raises(ValueError, match=r"update_priorities: priority .*got \(3,\)"):
        replay.update_priorities(state, windows_at([0, 1], [0, 1]), jnp.ones(3))
    with pytest.raises(ValueError, match=r"update_priorities: valid .*got \(1,\)"):
        replay.update_priorities(state, windows_at([0, 1], [0, 1]), jnp.ones(2), np.array([True]))
    with pytest.raises(ValueError, match=r"update_priorities: valid .*got float32"):
        replay.update_priorities(state, windows_at([0, 1], [0, 1]), jnp.ones(2), jnp.ones(2))
    with pytest.raises(ValueError, match=r"PrioritizedSampling: epsilon .*got -1"):
        PrioritizedSampling(0.6, epsilon=-1)
    with pytest.raises(ValueError, match=r"no lane has a window of 3 rows yet"):
        replay.sample(add(replay, init(replay, block(0, 1)), block(0, 2)), jax.random.key(0), 4, 3)


def test_the_exponent_of_another_buffer_is_found_also_where_this_one_is_an_integer(tmp_path):
    rows = block(0, 4)
    theirs, ours = (Replay(16, 3, sampling=exactly(exponent)) for exponent in (1.5, 1))
    data.save(tmp_path / "a.npz", theirs.init(rows))
    with pytest.raises(ValueError, match=r"made with exponent=1\.5, this Replay has 1\.0"):
        ours.size(data.restore(tmp_path / "a.npz", ours.init(rows)))


def test_integers_of_another_buffer_are_compared_and_shown_as_integers():
    sampling = exactly(1)
    for theirs, ours in ((1234567, 1234568), (2**24 + 1, 2**24)):
        state = sampling.init(16, 3, theirs)
        sampling.check_state("Replay.add", state, theirs)
        with pytest.raises(ValueError, match=f"made with ignore_earliest={theirs}, this Replay has {ours}"):
            sampling.check_state("Replay.add", state, ours)
