"""Batches of windows: splitting them, and the mask of the first row's episode."""

import dataclasses

import jax
import numpy as np
import pytest

from jaxenv import data, rollout
from jaxenv.core.timestep import TimeStep
from jaxenv.data import Replay
from tests.data.replay.blocks import FIRST, LAST, MID, filled, sample


def test_split_returns_rows_and_the_row_after_them_as_unroll_does():
    replay = Replay(8, 3)
    batch = sample(replay, filled(replay, 8), jax.random.key(0), 5, 4)
    rows, last = batch.split()
    count = batch.experience.timestep.observation["count"]
    np.testing.assert_array_equal(rows.timestep.observation["count"], count[:, :3].T)
    np.testing.assert_array_equal(last.observation["count"], count[:, 3])
    np.testing.assert_array_equal(rows.action, batch.experience.action[:, :3].T)
    with pytest.raises(ValueError, match=r"Batch.split: windows .*got 1"):
        batch.windows(1).split()


def test_the_whole_buffer_is_split_into_windows():
    replay = Replay(12, 2)
    batch = replay.gather_all(filled(replay, 19))
    assert (batch.env_id.tolist(), batch.position.tolist()) == ([0, 1], [7, 7])
    cut = dataclasses.replace(batch, weight=np.float32([0.5, 2])).windows(3)
    assert cut.weight.tolist() == [0.5] * 4 + [2] * 4
    assert cut.env_id.tolist() == [0] * 4 + [1] * 4
    assert cut.position.tolist() == [7, 10, 13, 16, 7, 10, 13, 16]
    count = cut.experience.timestep.observation["count"]
    assert count[:5].tolist() == [[7, 8, 9], [10, 11, 12], [13, 14, 15], [16, 17, 18], [1007, 1008, 1009]]
    with pytest.raises(ValueError, match=r"windows: length .*got 5"):
        batch.windows(5)


def test_the_episode_mask_ends_where_the_next_episode_starts():
    rows = TimeStep(step_type=np.array([[FIRST, MID, LAST, FIRST], [LAST, FIRST, MID, MID], [MID, FIRST, MID, LAST]]))
    assert data.episode_mask(rows).tolist() == [
        [True, True, True, False],
        [True, False, False, False],
        [True, False, False, False],  # interrupted
    ]
    rows = TimeStep(step_type=np.array([[FIRST, MID, LAST, MID], [LAST, MID, MID, LAST], [MID, MID, FIRST, MID]]))
    assert data.episode_mask(rows, "same_step").tolist() == [
        [True, True, False, False],
        [True, True, True, False],
        [True, True, False, False],  # interrupted
    ]
    with pytest.raises(ValueError, match="episode_mask: mode must be"):
        data.episode_mask(rows, "none")


def test_the_episode_mask_of_what_holds_no_windows_is_refused():
    with pytest.raises(ValueError, match=r"episode_mask: timestep .*got Experience"):
        data.episode_mask(rollout.Experience())
    with pytest.raises(ValueError, match=r"timestep .*got step_type of shape \(3,\)"):
        data.episode_mask(TimeStep(step_type=np.zeros(3, np.int32)))
