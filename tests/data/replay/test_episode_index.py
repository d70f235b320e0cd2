"""The index of episodes: their first and last positions for every stored row."""

import jax
import numpy as np
import pytest

from jaxenv.data import Replay
from tests.data.replay.blocks import FIRST, LAST, MID, add, block, filled, played


def test_episode_begin_and_end_of_every_row_of_a_stream():
    replay, rows, _, buffer = played("next_step")
    # Lane 1 has episodes of 4 steps and 1 step: rows 0 to 4, 5 and 6, 7 to 11, 12 and 13, 14 to 18, 19 and 20, 21 on.
    position = np.arange(8, 24, dtype=np.int32)
    lane = np.full_like(position, 1)
    begin, end = replay.episode_begin(buffer, lane, position), replay.episode_end(buffer, lane, position)
    assert begin.tolist() == [8] * 4 + [12] * 2 + [14] * 5 + [19] * 2 + [21] * 3  # position 7 is overwritten
    assert end.tolist() == [11] * 4 + [13] * 2 + [18] * 5 + [20] * 2 + [23] * 3  # the last episode is unfinished
    assert (rows.timestep.step_type[[11, 13, 18, 20], 1] == LAST).all()


def scanned(step_type, earliest):
    """Begin and end of the episode of every row of one lane, by a scan over all rows."""
    first = [p for p, kind in enumerate(step_type) if kind == FIRST or p == 0]
    episodes = []
    for p in range(len(step_type)):
        begin = max(f for f in first if f <= p)
        end = min([f - 1 for f in first if f > p], default=len(step_type) - 1)
        episodes.append((max(begin, earliest), end))
    return episodes


@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize("fraction", [0.3, 1.0])
def test_the_index_equals_a_scan_over_the_rows(aligned, fraction):
    capacity, lanes, sizes = 6, 3, [1, 1, 3, 6, 1, 4, 1, 2]
    replay = Replay(capacity, lanes, aligned=aligned, index_episodes=True)
    total = sum(sizes)
    # FIRST after any row, so episodes may be interrupted. A fraction of 1 gives episodes of one row.
    kinds = np.where(np.random.default_rng(0).random((total, lanes)) < fraction, FIRST, MID)
    kinds[1] = MID

    @jax.jit
    def run():
        state, episodes, at = replay.init(block(0, 1)), [], 0
        for size in sizes:
            rows = block(at, size, lanes, kinds[at : at + size])
            if aligned:
                state = replay.add(state, rows)
            else:  # in two calls, the last lane first
                part = lambda keep, rows=rows: jax.tree.map(lambda x: x[:, keep], rows)  # noqa: E731
                state = replay.add(state, part([2]), np.array([2]))
                state = replay.add(state, part([1, 0]), np.array([1, 0]))
            at += size
            position = np.arange(max(at - capacity, 0), at, dtype=np.int32)[:, None].repeat(lanes, 1)
            lane = np.arange(lanes, dtype=np.int32)[None].repeat(len(position), 0)
            episodes.append((replay.episode_begin(state, lane, position), replay.episode_end(state, lane, position)))
        return episodes

    at = 0
    for size, (begin, end) in zip(sizes, jax.device_get(run()), strict=True):
        at += size
        earliest = max(at - capacity, 0)
        for i in range(lanes):
            expected = scanned(kinds[:at, i], earliest)[earliest:]
            assert list(zip(begin[:, i].tolist(), end[:, i].tolist(), strict=True)) == expected


def test_after_clear_episodes_start_at_the_first_new_row():
    replay = Replay(6, 1, index_episodes=True)
    state = replay.clear(filled(replay, 4))
    state = add(replay, state, block(4, 2, 1))
    assert replay.episode_begin(state, np.array([0]), np.array([5])).tolist() == [4]
    assert replay.episode_end(state, np.array([0]), np.array([4])).tolist() == [5]
