"""Uniform sampling: which windows are drawn, how often, and how evenly."""

import jax
import numpy as np
import pytest

from jaxenv.data import Replay, UniformSampling
from tests.data.replay.blocks import filled, sample, sample_many, stored_rows, unequal_lanes


@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize("length", [1, 3])
def test_windows_are_consecutive_and_never_cross_the_write_position(aligned, length):
    replay = Replay(6, 3, aligned=aligned, ignore_earliest=1)
    state = filled(Replay(6, 3), 9) if aligned else unequal_lanes(replay)
    env_id, position, rows = sample_many(replay, state, 7, length, draws=100)
    expected = 1000 * env_id[..., None] + position[..., None] + np.arange(length)
    np.testing.assert_array_equal(rows.timestep.observation["count"], expected)
    windows = set(zip(env_id.ravel().tolist(), position.ravel().tolist(), strict=True))
    stored = stored_rows(replay, state)
    # All rows of a window are stored, and so is the row before it, which starts no window.
    assert windows == {(i, p) for i, p in stored if (i, p - 1) in stored and (i, p + length - 1) in stored}


def chi_square(counts, expected):
    """Chi-square of counts per degree of freedom: about 1 for independent draws, less for stratified ones."""
    return float(np.sum((counts - expected) ** 2 / expected) / (counts.size - 1))


@pytest.mark.parametrize(("lanes", "batch_size"), [(3, 7), (3, 3), (8, 3), (5, 1)])
def test_every_window_is_equally_likely_in_the_batch_and_at_each_index_of_it(lanes, batch_size):
    replay, draws = Replay(8, lanes), 3000
    env_id, position, _ = sample_many(replay, filled(Replay(8, lanes), 10), batch_size, 2, draws)
    place = env_id * 7 + position - 2
    whole = np.bincount(place.ravel(), minlength=7 * lanes)
    assert chi_square(whole, draws * batch_size / (7 * lanes)) < 1.9
    for i in range(batch_size):
        assert chi_square(np.bincount(place[:, i], minlength=7 * lanes), draws / (7 * lanes)) < 1.9


def test_unequal_lanes_are_sampled_in_proportion_to_their_windows():
    replay, draws = Replay(6, 3, aligned=False), 3000
    env_id, position, _ = sample_many(replay, unequal_lanes(replay), 5, 2, draws)
    windows, counts = np.unique(100 * env_id + position, return_counts=True)
    assert windows.tolist() == [3, 4, 5, 6, 7, 100, 101, 102]  # five in lane 0, three in lane 1
    assert chi_square(counts, draws * 5 / 8) < 1.9


@pytest.mark.parametrize(("lanes", "batch_size"), [(3, 7), (4, 28), (4, 11), (8, 3), (3, 50)])
def test_no_window_repeats_before_all_were_drawn_and_lanes_contribute_equally(lanes, batch_size):
    env_id, position, _ = sample_many(Replay(8, lanes), filled(Replay(8, lanes), 10), batch_size, 2)
    windows = 7 * lanes
    for one, where in zip(env_id, position, strict=True):
        counts = np.bincount(one * 7 + where - 2, minlength=windows)
        assert counts.max() <= -(-batch_size // windows)
        assert counts.min() >= batch_size // windows - 1
        of_lane = np.bincount(one, minlength=lanes)
        assert set(of_lane) <= {batch_size // lanes, batch_size // lanes + 1}


def test_a_batch_smaller_than_the_lanes_combines_any_lanes():
    env_id, _, _ = sample_many(Replay(8, 8), filled(Replay(8, 8), 10), 2)
    assert set(((env_id[:, 1] - env_id[:, 0]) % 8).tolist()) == set(range(1, 8))


def test_sampling_is_determined_by_the_key():
    replay = Replay(8, 3)
    state = filled(replay, 8)
    a, b, c = (sample(replay, state, jax.random.key(seed), 6).position.tolist() for seed in (0, 0, 1))
    assert a == b != c


def test_ignored_rows_start_no_window():
    replay = Replay(8, 1, ignore_earliest=2)
    for count in (1, 2):
        state = filled(replay, count)
        assert not replay.can_sample(state, 1)
        with pytest.raises(ValueError, match=r"no lane has.* 1 rows yet"):
            replay.sample(state, jax.random.key(0), 4, 1)
    state = filled(replay, 3)
    assert replay.can_sample(state, 1)
    assert sample(replay, state, jax.random.key(0), 4, 1).position.tolist() == [2] * 4


# --- the newest windows -----------------------------------------------------------------------------------------------


def test_the_recent_fraction_comes_first_in_the_batch_and_from_the_newest_windows():
    replay = Replay(32, 4, sampling=UniformSampling(0.5, 4))
    env_id, position, _ = sample_many(replay, filled(replay, 32), 32, 1, draws=20)
    for one, where in zip(env_id, position, strict=True):
        assert sorted(where[:16]) == [28] * 4 + [29] * 4 + [30] * 4 + [31] * 4
        assert len(set(zip(one[:16], where[:16], strict=True))) == 16
        assert np.mean(where[16:]) < 22  # the mean over all 32 rows is 15.5
    # Of eight rows the newest four are half, so that all draws are uniform.
    _, position, _ = sample_many(replay, filled(replay, 8), 32, 1, draws=2)
    assert (np.sort(position)[:, 0] == 0).all()
    assert (position[:, :16] < 4).any()


@pytest.mark.parametrize(("fraction", "batch_size", "first"), [(0.07, 100, 7), (0.1, 31, 4), (1.0, 5, 5)])
def test_the_recent_fraction_of_the_batch_is_rounded_up(fraction, batch_size, first):
    replay = Replay(32, 3, sampling=UniformSampling(fraction, 1))
    _, position, _ = sample_many(replay, filled(Replay(32, 3), 32), batch_size, 1, draws=50)
    assert (position[:, :first] == 31).all()
    assert first == batch_size or (position[:, first:] < 31).any(axis=0).all()


def test_each_unaligned_lane_has_its_own_newest_windows():
    replay = Replay(6, 3, aligned=False, sampling=UniformSampling(0.5, 1))
    env_id, position, _ = sample_many(replay, unequal_lanes(replay), 8, 2, draws=20)
    first = set(zip(env_id[:, :4].ravel().tolist(), position[:, :4].ravel().tolist(), strict=True))
    assert first == {(0, 7), (1, 2)}
