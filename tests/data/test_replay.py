"""Replay buffers: what is stored where, which windows come out, and where episodes begin and end."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import data
from jaxenv.data import Replay, ring
from jaxenv.rollout import Experience
from jaxenv.testing import Counting
from jaxenv.timestep import TimeStep
from jaxenv.wrappers import AutoReset

FIRST, MID, LAST = 0, 1, 2
MODES = ["next_step", "same_step"]


def block(first, count, lanes=3, step_type=None):
    """Rows that tell where they are from: the observation is 1000 * lane + position, in ``count`` and as bytes.

    Args:
        first: position of the first row, one for each lane.
        count: rows.
        lanes: how many, or their numbers.
        step_type: ``[T, K]``; MID by default.
    """
    lanes = np.arange(lanes) if isinstance(lanes, int) else np.asarray(lanes)
    number = 1000 * lanes + np.asarray(first) + np.arange(count)[:, None]
    image = np.stack([number % 251, number % 241], -1).astype(np.uint8)
    step_type = np.full(number.shape, MID) if step_type is None else np.asarray(step_type)
    timestep = TimeStep(
        step_type.astype(np.int32),
        number.astype(np.float32),
        observation={"count": number.astype(np.int32), "image": image},
        env_id=np.broadcast_to(lanes, number.shape).astype(np.int32),
    )
    return Experience(timestep, (number % 7).astype(np.int32))


init = jax.jit(Replay.init, static_argnums=0)
add = jax.jit(Replay.add, static_argnums=0)
sample = jax.jit(Replay.sample, static_argnums=(0, 3, 4))


@functools.cache
def filled(replay, count):
    """A buffer after ``count`` rows of every lane, added one at a time; compiled once for each buffer."""

    @jax.jit
    def fill():
        rows = jax.tree.map(jnp.asarray, block(0, count, replay.num_envs))
        state = replay.init(rows)
        one = lambda state, row: (replay.add(state, jax.tree.map(lambda x: x[None], row)), None)  # noqa: E731
        return jax.lax.scan(one, state, rows)[0]

    return fill()


def many(replay, state, batch_size, length=2, draws=200):
    """Lanes and positions of many samples, ``[draws, N]`` each."""

    @jax.jit
    def sample(state, keys):
        batch = jax.lax.map(lambda key: replay.sample(state, key, batch_size, length), keys)
        return batch.env_id, batch.position, batch.experience

    return jax.device_get(sample(state, jax.random.split(jax.random.key(0), draws)))


def stored(replay, state):
    """All that is stored, as a set of lane and position, found by looking at every row ever added."""
    sizes, earliest = (np.broadcast_to(x, replay.num_envs) for x in (replay.size(state), replay.earliest(state)))
    return {(i, p) for i in range(replay.num_envs) for p in range(earliest[i], earliest[i] + sizes[i])}


# --- rows in, rows out -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("capacity", [5, 16])
def test_an_aligned_buffer_holds_the_newest_rows_whatever_came_at_once(capacity):
    replay = Replay(capacity, 3)
    counts = [1, 3, capacity, 2, 0, 4, 1, 1, capacity - 1, 3]

    @jax.jit
    def run(blocks):
        state, found = replay.init(blocks[0]), []
        for rows in blocks:
            state = replay.add(state, rows)
            position = jnp.broadcast_to(
                replay.earliest(state) + jnp.arange(capacity, dtype=jnp.int32)[:, None], (capacity, 3)
            )
            lane = jnp.broadcast_to(jnp.arange(3, dtype=jnp.int32), position.shape)
            found.append((replay.size(state), replay.earliest(state), replay.get(state, "", lane, position)))
        return found

    ends = np.cumsum(counts)
    blocks = [block(end - count, count) for end, count in zip(ends, counts, strict=True)]
    for end, (size, earliest, rows) in zip(ends, jax.device_get(run(blocks)), strict=True):
        assert size == min(end, capacity)
        assert earliest == end - size
        expected = block(earliest, size)
        jax.tree.map(lambda x, y, size=size: np.testing.assert_array_equal(x[:size], y), rows, expected)


def test_lanes_of_their_own_hold_their_newest_rows():
    replay = Replay(6, 4, aligned=False)
    calls = [([0, 2], 3), ([3], 5), ([2, 1], 4), ([0, 1, 2, 3], 2), ([3, 0], 6), ([1], 1)]

    @jax.jit
    def run(calls):
        state, sizes = replay.init(block(0, 1, 4)), []
        for rows, env_id in calls:
            state = replay.add(state, rows, env_id)
            sizes.append(replay.size(state))
        return state, sizes

    model = [[] for _ in range(4)]
    prepared, expected = [], []
    for lanes, count in calls:
        prepared.append((block([len(model[i]) for i in lanes], count, lanes), np.array(lanes)))
        for i in lanes:
            model[i] += range(len(model[i]), len(model[i]) + count)
        expected.append([min(len(m), 6) for m in model])
    state, sizes = jax.device_get(run(prepared))
    assert np.array(sizes).tolist() == expected
    for i, m in enumerate(model):
        position = np.array(m[-6:], np.int32)
        found = replay.get(state, "timestep.observation.count", np.full_like(position, i), position)
        assert found.tolist() == [1000 * i + p for p in m[-6:]]
    assert add(replay, state, block(0, 1, 4)).position.tolist() == [len(m) + 1 for m in model]


def test_rows_keep_their_bytes_and_get_their_lane_number_back():
    replay = Replay(8, 3)
    state = filled(replay, 4)
    assert state.rows.timestep.observation["image"].dtype == np.uint8
    assert state.rows.timestep.env_id == state.rows.timestep.discount == ()
    batch = jax.device_get(jax.jit(lambda s: replay.sample(s, jax.random.key(3), 5, 3))(state))
    assert batch.experience.timestep.env_id.tolist() == [[i] * 3 for i in batch.env_id]
    assert batch.weight.tolist() == [1.0] * 5
    assert batch.weight.dtype == np.float32
    for i, p, row in zip(batch.env_id, batch.position, range(5), strict=True):
        expected = block(p, 3, [i])
        found = jax.tree.map(lambda x, row=row: x[row], batch.experience)
        jax.tree.map(lambda x, y: np.testing.assert_array_equal(x, y[:, 0]), found, expected)


def test_get_gives_any_field_in_any_shape():
    replay = Replay(4, 3)
    state = filled(replay, 7)
    env_id, position = np.array([[0, 1], [2, 2]]), np.array([[3, 6], [5, 4]])
    assert replay.get(state, "timestep.observation.count", env_id, position).tolist() == [[3, 1006], [2005, 2004]]
    assert replay.get(state, "timestep.observation", env_id, position)["image"].shape == (2, 2, 2)
    assert replay.get(state, "timestep.env_id", env_id, position).tolist() == env_id.tolist()
    assert replay.get(state, "timestep", env_id, position).env_id.tolist() == env_id.tolist()
    assert replay.get(state, "action", np.int32(1), np.int32(6)).tolist() == 1006 % 7


def test_in_jitted_code_rows_that_are_not_there_are_the_nearest_ones():
    replay = Replay(4, 3)
    get = jax.jit(lambda s, i, p: replay.get(s, "timestep.observation.count", i, p))
    assert get(filled(replay, 7), np.array([0, 1, 9, -1]), np.array([2, 9, 4, 4])).tolist() == [3, 1006, 2004, 4]
    windows = jax.jit(lambda s, k: replay.sample(s, k, 6, 3).experience.timestep.observation["count"] % 1000)
    assert windows(filled(replay, 2), jax.random.key(0)).tolist() == [[0, 1, 1]] * 6
    assert windows(init(replay, block(0, 1)), jax.random.key(0)).tolist() == [[0, 0, 0]] * 6


@pytest.mark.parametrize("aligned", [True, False])
def test_clear_keeps_no_row_and_counts_on(aligned):
    replay = Replay(4, 3, aligned=aligned)
    state = replay.clear(filled(replay, 7))
    assert np.all(replay.size(state) == 0)
    assert not replay.can_sample(state, 1)
    state = add(replay, state, block(7, 2))
    assert np.all(replay.size(state) == 2)
    assert set(np.asarray(sample(replay, state, jax.random.key(0), 8, 1).position)) == {7, 8}


@pytest.mark.parametrize("aligned", [True, False])
def test_clear_keeps_the_newest_rows_that_the_next_ones_follow(aligned):
    replay = Replay(4, 3, aligned=aligned)
    state = add(replay, replay.clear(filled(replay, 7), keep=1), block(7, 2))
    assert np.all(replay.earliest(state) == 6)
    batch = replay.gather_all(state)
    assert batch.experience.timestep.observation["count"].tolist() == [
        [1000 * i + p for p in (6, 7, 8)] for i in range(3)
    ]
    # No more than there are.
    assert np.all(replay.earliest(replay.clear(state, keep=4)) == 6)


def test_split_gives_rows_and_the_row_after_them_as_unroll_does():
    replay = Replay(8, 3)
    batch = sample(replay, filled(replay, 8), jax.random.key(0), 5, 4)
    rows, last = batch.split()
    count = batch.experience.timestep.observation["count"]
    np.testing.assert_array_equal(rows.timestep.observation["count"], count[:, :3].T)
    np.testing.assert_array_equal(last.observation["count"], count[:, 3])
    np.testing.assert_array_equal(rows.action, batch.experience.action[:, :3].T)
    with pytest.raises(ValueError, match=r"Batch.split: windows need at least 2 rows, got 1"):
        batch.windows(1).split()


# --- uniform windows -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize("length", [1, 3])
def test_windows_are_consecutive_and_never_cross_the_place_of_the_next_row(aligned, length):
    replay = Replay(6, 3, aligned=aligned, ignore_earliest=1)
    state = filled(Replay(6, 3), 9) if aligned else unequal(replay)
    env_id, position, rows = many(replay, state, 7, length, draws=100)
    expected = 1000 * env_id[..., None] + position[..., None] + np.arange(length)
    np.testing.assert_array_equal(rows.timestep.observation["count"], expected)
    found = set(zip(env_id.ravel().tolist(), position.ravel().tolist(), strict=True))
    there = stored(replay, state)
    # Each window's rows are there, and so is the row before, which is ignored as a start.
    assert found == {(i, p) for i, p in there if (i, p - 1) in there and (i, p + length - 1) in there}


def unequal(replay):
    """Lane 0 wrapped around, lane 1 has 4 rows, lane 2 none."""

    @jax.jit
    def fill():
        state = replay.init(block(0, 1))
        for first, count, lane in ((0, 5, 0), (0, 4, 1), (5, 4, 0)):
            state = replay.add(state, block(first, count, [lane]), np.array([lane]))
        return state

    return fill()


def far_off(counts, expected):
    """Chi-square of counts over their degrees of freedom: about 1 for independent draws, less for even ones."""
    return float(np.sum((counts - expected) ** 2 / expected) / (counts.size - 1))


@pytest.mark.parametrize(("lanes", "batch_size"), [(3, 7), (3, 3), (8, 3), (5, 1)])
def test_every_window_is_equally_likely_in_a_batch_and_in_each_place_of_it(lanes, batch_size):
    replay, draws = Replay(8, lanes), 3000
    env_id, position, _ = many(replay, filled(Replay(8, lanes), 10), batch_size, 2, draws)
    place = env_id * 7 + position - 2
    whole = np.bincount(place.ravel(), minlength=7 * lanes)
    assert far_off(whole, draws * batch_size / (7 * lanes)) < 1.9
    for i in range(batch_size):
        assert far_off(np.bincount(place[:, i], minlength=7 * lanes), draws / (7 * lanes)) < 1.9


def test_windows_of_lanes_with_more_rows_are_more_in_proportion():
    replay, draws = Replay(6, 3, aligned=False), 3000
    env_id, position, _ = many(replay, unequal(replay), 5, 2, draws)
    windows, counts = np.unique(100 * env_id + position, return_counts=True)
    assert windows.tolist() == [3, 4, 5, 6, 7, 100, 101, 102]  # five in lane 0, three in lane 1
    assert far_off(counts, draws * 5 / 8) < 1.9


@pytest.mark.parametrize(("lanes", "batch_size"), [(3, 7), (4, 28), (4, 11), (8, 3), (3, 50)])
def test_no_window_comes_twice_while_there_are_others_and_lanes_give_alike(lanes, batch_size):
    env_id, position, _ = many(Replay(8, lanes), filled(Replay(8, lanes), 10), batch_size, 2)
    windows = 7 * lanes
    for one, where in zip(env_id, position, strict=True):
        counts = np.bincount(one * 7 + where - 2, minlength=windows)
        assert counts.max() <= -(-batch_size // windows)
        assert counts.min() >= batch_size // windows - 1
        of_lane = np.bincount(one, minlength=lanes)
        assert set(of_lane) <= {batch_size // lanes, batch_size // lanes + 1}


def test_few_windows_come_from_any_lanes():
    env_id, _, _ = many(Replay(8, 8), filled(Replay(8, 8), 10), 2)
    assert set(((env_id[:, 1] - env_id[:, 0]) % 8).tolist()) == set(range(1, 8))


def test_two_keys_draw_differently_and_one_key_the_same():
    replay = Replay(8, 3)
    state = filled(replay, 8)
    a, b, c = (sample(replay, state, jax.random.key(seed), 6).position.tolist() for seed in (0, 0, 1))
    assert a == b != c


def test_ignored_rows_begin_no_window():
    replay = Replay(8, 1, ignore_earliest=2)
    for count in (1, 2):
        state = filled(replay, count)
        assert not replay.can_sample(state, 1)
        with pytest.raises(ValueError, match="no lane has a window of 1 rows yet: the buffer holds"):
            replay.sample(state, jax.random.key(0), 4, 1)
    state = filled(replay, 3)
    assert replay.can_sample(state, 1)
    assert sample(replay, state, jax.random.key(0), 4, 1).position.tolist() == [2] * 4


def test_a_share_of_the_batch_comes_first_and_from_the_newest_windows():
    replay = Replay(32, 4, recent_fraction=0.5, recent_rows=4)
    env_id, position, _ = many(replay, filled(replay, 32), 32, 1, draws=20)
    for one, where in zip(env_id, position, strict=True):
        assert sorted(where[:16]) == [28] * 4 + [29] * 4 + [30] * 4 + [31] * 4
        assert len(set(zip(one[:16], where[:16], strict=True))) == 16
        assert np.mean(where[16:]) < 22  # of all 32: 15.5
    # Eight rows: the newest four are half of them anyway.
    _, position, _ = many(replay, filled(replay, 8), 32, 1, draws=2)
    assert (np.sort(position)[:, 0] == 0).all()
    assert (position[:, :16] < 4).any()


@pytest.mark.parametrize(("share", "batch_size", "first"), [(0.07, 100, 7), (0.1, 31, 4), (1.0, 5, 5)])
def test_the_share_is_rounded_up(share, batch_size, first):
    replay = Replay(32, 3, recent_fraction=share, recent_rows=1)
    _, position, _ = many(replay, filled(Replay(32, 3), 32), batch_size, 1, draws=50)
    assert (position[:, :first] == 31).all()
    assert first == batch_size or (position[:, first:] < 31).any(axis=0).all()


def test_lanes_of_their_own_have_their_own_newest_windows():
    replay = Replay(6, 3, aligned=False, recent_fraction=0.5, recent_rows=1)
    env_id, position, _ = many(replay, unequal(replay), 8, 2, draws=20)
    first = set(zip(env_id[:, :4].ravel().tolist(), position[:, :4].ravel().tolist(), strict=True))
    assert first == {(0, 7), (1, 2)}


# --- transitions and episodes ----------------------------------------------------------------------------------------

LENGTHS = np.array([[2, 3], [4, 1], [3, 3]])


@functools.cache
def played(mode, count=24):
    """Rows of three lanes out of phase, the row after them, and a buffer that holds the newest of them."""
    env = AutoReset(Counting(LENGTHS, stride=10, num_envs=3), mode)
    replay = Replay(16, 3, index_episodes=mode == "next_step")

    @jax.jit
    def run():
        state, timestep = env.reset(jax.random.key(0))
        policy = lambda timestep, stream: (timestep.observation * 7 + 1) % 10  # noqa: E731
        (_, last, _), rows = jaxenv.unroll(env, policy, state, timestep, count)
        buffer = replay.init(rows)
        for i in range(0, count, 8):
            buffer = replay.add(buffer, jax.tree.map(lambda x, i=i: x[i : i + 8], rows))
        return rows, last, buffer

    return replay, *jax.device_get(run())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("n", [1, 3])
def test_sampled_transitions_are_those_of_the_stream(mode, n):
    replay, rows, last, buffer = played(mode)
    found, batch = jax.device_get(
        jax.jit(lambda s, k: replay.sample_transitions(s, k, 40, n, np.float32(0.5), mode))(buffer, jax.random.key(1))
    )
    whole = jax.device_get(data.to_n_step_transitions(rows, last, n, np.float32(0.5), mode))
    assert 0 < found.valid.sum() <= 40
    for i in range(40):
        at = batch.position[i], batch.env_id[i]
        jax.tree.map(lambda x, y, i=i, at=at: np.testing.assert_allclose(x[i], y[at]), found, whole)


def test_the_episode_mask_ends_where_another_episode_begins():
    rows = TimeStep(step_type=np.array([[FIRST, MID, LAST, FIRST], [LAST, FIRST, MID, MID], [MID, FIRST, MID, LAST]]))
    assert data.episode_mask(rows).tolist() == [
        [True, True, True, False],
        [True, False, False, False],
        [True, False, False, False],  # broken off
    ]
    rows = TimeStep(step_type=np.array([[FIRST, MID, LAST, MID], [LAST, MID, MID, LAST], [MID, MID, MID, MID]]))
    assert data.episode_mask(rows, "same_step").tolist() == [
        [True, True, False, False],
        [True, True, True, False],
        [True] * 4,
    ]
    with pytest.raises(ValueError, match="episode_mask: mode must be"):
        data.episode_mask(rows, "none")


def test_begins_and_ends_of_a_stream_are_found():
    replay, rows, _, buffer = played("next_step")
    # Lane 1 has episodes of 4 steps and 1 step: rows 0 to 4, 5 and 6, 7 to 11, 12 and 13, 14 to 18, 19 and 20, 21 on.
    position = np.arange(8, 24, dtype=np.int32)
    lane = np.full_like(position, 1)
    begin, end = replay.episode_begin(buffer, lane, position), replay.episode_end(buffer, lane, position)
    assert begin.tolist() == [8] * 4 + [12] * 2 + [14] * 5 + [19] * 2 + [21] * 3  # 7 is overwritten
    assert end.tolist() == [11] * 4 + [13] * 2 + [18] * 5 + [20] * 2 + [23] * 3  # 21 goes on
    assert (rows.timestep.step_type[[11, 13, 18, 20], 1] == LAST).all()


def walked(step_type, earliest):
    """Begin and end of the episode of every row of one lane, by looking at all of them."""
    first = [p for p, kind in enumerate(step_type) if kind == FIRST or p == 0]
    found = []
    for p in range(len(step_type)):
        begin = max(f for f in first if f <= p)
        end = min([f - 1 for f in first if f > p], default=len(step_type) - 1)
        found.append((max(begin, earliest), end))
    return found


@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize("share", [0.3, 1.0])
def test_the_index_equals_a_walk_over_the_rows(aligned, share):
    capacity, lanes, sizes = 6, 3, [1, 1, 3, 6, 1, 4, 1, 2]
    replay = Replay(capacity, lanes, aligned=aligned, index_episodes=True)
    total = sum(sizes)
    # Episodes broken off included: FIRST after any row. A share of 1 gives episodes of one row.
    kinds = np.where(np.random.default_rng(0).random((total, lanes)) < share, FIRST, MID)
    kinds[1] = MID

    @jax.jit
    def run():
        state, found, at = replay.init(block(0, 1)), [], 0
        for size in sizes:
            rows = block(at, size, lanes, kinds[at : at + size])
            if aligned:
                state = replay.add(state, rows)
            else:  # in two calls, the later lane first
                part = lambda keep, rows=rows: jax.tree.map(lambda x: x[:, keep], rows)  # noqa: E731
                state = replay.add(state, part([2]), np.array([2]))
                state = replay.add(state, part([1, 0]), np.array([1, 0]))
            at += size
            position = np.arange(max(at - capacity, 0), at, dtype=np.int32)[:, None].repeat(lanes, 1)
            lane = np.arange(lanes, dtype=np.int32)[None].repeat(len(position), 0)
            found.append((replay.episode_begin(state, lane, position), replay.episode_end(state, lane, position)))
        return found

    at = 0
    for size, (begin, end) in zip(sizes, jax.device_get(run()), strict=True):
        at += size
        earliest = max(at - capacity, 0)
        for i in range(lanes):
            expected = walked(kinds[:at, i], earliest)[earliest:]
            assert list(zip(begin[:, i].tolist(), end[:, i].tolist(), strict=True)) == expected


def test_after_clear_episodes_begin_with_the_rows_that_came_later():
    replay = Replay(6, 1, index_episodes=True)
    state = replay.clear(filled(replay, 4))
    state = add(replay, state, block(4, 2, 1))
    assert replay.episode_begin(state, np.array([0]), np.array([5])).tolist() == [4]
    assert replay.episode_end(state, np.array([0]), np.array([4])).tolist() == [5]


# --- the whole buffer ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [3, 12])
def test_gather_all_gives_every_row_oldest_first(count):
    for aligned in (True, False):
        replay = Replay(5, 2, aligned=aligned)
        batch = replay.gather_all(filled(replay, count))
        size = min(count, 5)
        assert batch.position.tolist() == [count - size] * 2
        expected = np.arange(count - size, count)
        assert batch.experience.timestep.observation["count"].tolist() == [
            expected.tolist(),
            (1000 + expected).tolist(),
        ]


def test_the_whole_buffer_is_cut_into_windows():
    replay = Replay(12, 2)
    batch = replay.gather_all(filled(replay, 19))
    assert (batch.env_id.tolist(), batch.position.tolist()) == ([0, 1], [7, 7])
    cut = batch.windows(3)
    assert cut.env_id.tolist() == [0] * 4 + [1] * 4
    assert cut.position.tolist() == [7, 10, 13, 16, 7, 10, 13, 16]
    count = cut.experience.timestep.observation["count"]
    assert count[:5].tolist() == [[7, 8, 9], [10, 11, 12], [13, 14, 15], [16, 17, 18], [1007, 1008, 1009]]
    with pytest.raises(ValueError, match=r"windows: length must divide the 12 rows, got 5; 4 does"):
        batch.windows(5)


def test_minibatches_hold_every_row_once_and_keep_rows_together():
    tree = {"a": jnp.arange(264), "b": (jnp.arange(528).reshape(264, 2),)}
    cut = jax.jit(lambda key: data.minibatches(key, tree, size=32))(jax.random.key(0))
    assert cut["a"].shape == (8, 33)
    assert cut["b"][0].shape == (8, 33, 2)
    assert sorted(cut["a"].ravel().tolist()) == list(range(264))
    np.testing.assert_array_equal(cut["b"][0][..., 0], 2 * cut["a"])
    assert cut["a"].ravel().tolist() != list(range(264))
    assert data.minibatches(jax.random.key(0), tree, 4)["a"].shape == (4, 66)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_minibatches": 7}, r"264 rows cannot be cut equally: num_minibatches is 7; 6 of 44 can"),
        ({"size": 50}, r"264 rows cannot be cut equally: size 50 asks for 5 minibatches; 4 of 66 can"),
        ({"num_minibatches": 0}, r"num_minibatches is 0; 1 of 264 can"),
        ({"size": 300}, r"size must be in 1 .. 264, got 300"),
        ({}, r"pass either num_minibatches or size"),
        ({"num_minibatches": 2.5}, r"num_minibatches must be a whole number, got 2.5"),
        ({"num_minibatches": True}, r"num_minibatches must be a whole number, got True"),
        ({"size": 2.5}, r"size must be a whole number, got 2.5"),
        ({"num_minibatches": 8, "size": 33}, r"pass either num_minibatches or size"),
    ],
)
def test_minibatches_that_would_drop_rows_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        data.minibatches(jax.random.key(0), jnp.zeros(264), **arguments)
    with pytest.raises(ValueError, match="all leaves must lead with the same number of rows"):
        data.minibatches(jax.random.key(0), (jnp.zeros(4), jnp.zeros(6)), 2)


def test_rows_are_put_in_the_same_places_on_every_platform():
    rows = jax.tree.map(jnp.asarray, block(0, 5).timestep.observation)
    page, place = jnp.divmod((30 + jnp.arange(5, dtype=jnp.int32)) % 32, np.int32(16))
    for x in jax.tree.leaves(rows):
        empty = ring.empty(32, x)
        found = [jax.jit(write)(empty, x, page, place) for write in (ring._one_by_one, ring._at_once)]
        np.testing.assert_array_equal(*found)
        np.testing.assert_array_equal(found[0][1, :, 14:], np.swapaxes(x[:2], 0, 1))
        np.testing.assert_array_equal(found[0][0, :, :3], np.swapaxes(x[2:], 0, 1))


# --- in loops, under transformations, saved --------------------------------------------------------------------------


def test_rows_are_written_in_place_in_a_loop_and_by_a_donated_call():
    replay = Replay(1024, 8)
    rows = jax.eval_shape(lambda: jax.tree.map(jnp.asarray, block(0, 3, 8)))
    state = jax.eval_shape(lambda: replay.init(rows))
    size = sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(state))

    def loop(state, rows):
        return jax.lax.fori_loop(0, 4, lambda _, state: replay.add(state, rows), state)

    jax.config.update("jax_disable_most_optimizations", False)
    for add in (replay.add, loop):
        memory = jax.jit(add, donate_argnums=0).lower(state, rows).compile().memory_analysis()
        assert memory.alias_size_in_bytes >= size
        assert memory.temp_size_in_bytes < size / 20


def test_a_buffer_works_inside_the_loop_of_an_environment_and_for_several_seeds():
    env = AutoReset(Counting(LENGTHS, stride=10, num_envs=3))
    replay = Replay(16, 3, index_episodes=True, priority_exponent=0.5)
    policy = jaxenv.rollout.random_policy(env)

    def train(key):
        state, timestep = env.reset(key)
        rows = jax.eval_shape(lambda: jaxenv.unroll(env, policy, state, timestep, 5)[1])

        def one(carry, key):
            state, timestep, buffer = carry
            (state, timestep, _), rows = jaxenv.unroll(env, policy, state, timestep, 5)
            buffer = replay.add(buffer, rows)
            found, batch = replay.sample_transitions(buffer, key, 4)
            buffer = replay.update_priorities(buffer, batch, found.observation.astype(jnp.float32) + 1)
            return (state, timestep, buffer), (batch.env_id, batch.position, found.reward, found.valid)

        return jax.lax.scan(one, (state, timestep, replay.init(rows)), jax.random.split(key, 6))

    keys = jax.random.split(jax.random.key(0), 2)
    (_, _, buffer), found = jax.device_get(jax.jit(jax.vmap(train))(keys))
    assert buffer.position.tolist() == [30, 30]
    (_, _, alone), expected = jax.device_get(jax.jit(train)(keys[1]))
    for x, y in zip(jax.tree.leaves((found, buffer)), jax.tree.leaves((expected, alone)), strict=True):
        np.testing.assert_allclose(x[1], y, rtol=1e-5)


def test_a_buffer_that_was_saved_goes_on_bit_for_bit(tmp_path):
    replay = Replay(6, 3, index_episodes=True, priority_exponent=0.5)
    state = filled(replay, 5)
    data.save(tmp_path / "buffer", state)
    again = data.restore(tmp_path / "buffer", state)
    go_on = jax.jit(lambda s: (replay.add(s, block(5, 3)), replay.sample(s, jax.random.key(0), 4)))
    jax.tree.map(np.testing.assert_array_equal, go_on(state), go_on(again))
    jax.tree.map(np.testing.assert_array_equal, go_on(state), go_on(jax.device_get(state)))


# --- memory ----------------------------------------------------------------------------------------------------------


def test_an_observation_is_stored_once():
    env = jaxenv.make("CartPole-v1", num_envs=4)
    shapes = jax.eval_shape(
        lambda key: jaxenv.unroll(env, jaxenv.rollout.random_policy(env), *env.reset(key), 8)[1], jax.random.key(0)
    )
    # Type, reward, discount, four floats, action before and after, time limit reached; two counters of the buffer.
    replay = Replay(64, 4)
    state = jax.eval_shape(lambda: replay.init(shapes))
    assert replay.bytes_per_row(state) == 3 * 4 + 4 * 4 + 2 * 4 + 1 + 8 / 256
    indexed = Replay(64, 4, index_episodes=True)
    state = jax.eval_shape(lambda: indexed.init(shapes))
    assert indexed.bytes_per_row(state) == 37 + 8 + (8 + 16) / 256


def test_an_image_costs_its_bytes():
    timestep = TimeStep(*(jax.ShapeDtypeStruct((1, 2), t) for t in (jnp.int32, jnp.float32, jnp.float32)))
    image = jax.ShapeDtypeStruct((1, 2, 84, 84, 1), jnp.uint8)
    rows = Experience(dataclasses.replace(timestep, observation=image), jax.ShapeDtypeStruct((1, 2), jnp.int32))
    replay = Replay(1000, 2)
    state = jax.eval_shape(lambda: replay.init(rows))
    assert replay.bytes_per_row(state) == 84 * 84 + 4 * 4 + 8 / 2000


# --- what does not fit -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"capacity": 0}, "Replay: capacity must be a whole number of at least 1, got 0"),
        ({"capacity": 2.5}, "Replay: capacity must be a whole number of at least 1, got 2.5"),
        ({"num_envs": 0}, "Replay: num_envs must be a whole number of at least 1, got 0"),
        ({"capacity": 2**30, "num_envs": 2}, "are more than 2\\*\\*31 - 1"),
        ({"ignore_earliest": 8}, "ignore_earliest must be below the capacity of 8, got 8"),
        ({"recent_fraction": 1.5, "recent_rows": 1}, r"recent_fraction must be in \[0, 1\], got 1.5"),
        ({"recent_fraction": 0.5}, "recent_fraction and recent_rows are given together, got 0.5 and 0"),
        ({"recent_fraction": "a", "recent_rows": 1}, r"recent_fraction must be in \[0, 1\], got 'a'"),
        ({"aligned": 1}, "aligned must be True or False, got 1"),
        ({"priority_exponent": -1.0}, "priority_exponent must be a number of at least 0, got -1.0"),
        ({"priority_exponent": "a"}, "priority_exponent must be a number of at least 0, got 'a'"),
        ({"capacity": 2**28, "num_envs": 7, "priority_exponent": 1.0}, "more than 2\\*\\*31 - 1 priorities and sums"),
        ({"priority_exponent": 0.5, "priority_length": 9}, r"priority_length must be at most 8 .*got 9"),
        (
            {"priority_exponent": 0.5, "recent_fraction": 0.5, "recent_rows": 1},
            "recent_fraction is for uniform sampling",
        ),
    ],
)
def test_arguments_out_of_range_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Replay(**{"capacity": 8, "num_envs": 3, **arguments})


def without(rows, **changes):
    return dataclasses.replace(rows, timestep=dataclasses.replace(rows.timestep, **changes))


ROWS = block(0, 2)
BAD_ROWS = [
    (block(0, 9), r"Replay.add: 9 rows are more than the capacity of 8"),
    (block(0, 2, 4), r"timestep.step_type must have shape \(2, 3\), got \(2, 4\)"),
    (without(ROWS, reward=np.zeros((2, 3, 1), np.float32)), r"timestep.reward must have shape \(2, 3\), got"),
    (without(ROWS, reward=np.zeros((2, 3), np.int32)), r"timestep.reward must be float32, got int32"),
    (without(ROWS, reward=()), r"another structure than the buffer, different: timestep.reward"),
    (
        without(ROWS, discount=np.zeros((2, 3), np.float32)),
        r"another structure than the buffer, different: timestep.discount",
    ),
    (without(ROWS, step_type=()), r"Replay.add: timestep.step_type is missing, keep it in unroll\(fields=...\)"),
    (ROWS.timestep, r"Replay.add: rows must be an Experience as unroll returns it, got TimeStep"),
]


@pytest.mark.parametrize(("rows", "message"), BAD_ROWS)
def test_rows_that_do_not_fit_are_refused_when_traced(rows, message):
    replay = Replay(8, 3)
    state = jax.eval_shape(lambda: replay.init(ROWS))
    with pytest.raises(ValueError, match=message):
        jax.eval_shape(replay.add, state, rows)


def test_a_buffer_is_not_made_for_rows_of_other_lanes_or_of_two_episodes():
    with pytest.raises(
        ValueError, match=r"Replay.init: timestep.step_type must lead with time and 4 lanes, got shape \(2, 3\)"
    ):
        Replay(8, 4).init(ROWS)
    rows = without(ROWS, env_info={"final_observation": np.zeros((2, 3), np.float32)})
    with pytest.raises(ValueError, match=r"index_episodes is for streams with FIRST rows"):
        Replay(8, 3, index_episodes=True).init(rows)


@pytest.mark.parametrize(
    ("env_id", "message"),
    [
        ([0, 1, 3], r"env_id must be in 0 .. 2, got \[0, 1, 3\]"),
        ([0, 1, -1], r"env_id must be in 0 .. 2, got \[0, 1, -1\]"),
        ([0, 1, 1], r"env_id must name each lane once, got \[0, 1, 1\]"),
        ([0.0, 1.0, 2.0], r"env_id must be integers \[K\], got float"),
        ([0, 1], r"timestep.step_type must have shape \(2, 2\), got \(2, 3\)"),
    ],
)
def test_lanes_that_there_are_not_are_refused(env_id, message):
    replay = Replay(8, 3, aligned=False)
    with pytest.raises(ValueError, match=message):
        replay.add(init(replay, ROWS), ROWS, np.array(env_id))


def test_in_jitted_code_rows_of_unknown_lanes_are_dropped():
    replay = Replay(8, 3, aligned=False, index_episodes=True, priority_exponent=1.0)
    state = add(replay, init(replay, ROWS), block(0, 2, [7, 1, 9]), np.array([7, 1, -1]))
    assert replay.size(state).tolist() == [0, 2, 0]
    assert set(np.asarray(sample(replay, state, jax.random.key(0), 5).env_id)) == {1}


def test_in_jitted_code_the_last_rows_of_a_repeated_lane_are_taken_and_counted_once():
    replay = Replay(8, 3, aligned=False, index_episodes=True, priority_exponent=1.0)
    rows = block([5, 0, 0], 2, [0, 1, 0])
    state = add(replay, init(replay, ROWS), rows, np.array([0, 1, 0]))
    assert state.position.tolist() == [2, 2, 0]
    found = replay.get(state, "timestep.observation.count", np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1]))
    assert found.tolist() == [0, 1, 1000, 1001]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"capacity": 16}, r"Replay.sample: the state is that of a Replay with capacity=8, this one has 16"),
        ({"capacity": 8, "num_envs": 4}, "with num_envs=3, this one has 4"),
        ({"aligned": False}, "with aligned=True, this one has False"),
        ({"index_episodes": True}, "with index_episodes=False, this one has True"),
        ({"priority_exponent": None}, "with priority_exponent=0.5, this one has None"),
        ({"priority_exponent": 0.6}, "with priority_exponent=0.5, this one has 0.6"),
        ({"priority_length": 3}, "with priority_length=2, this one has 3"),
        ({"ignore_earliest": 1}, "with ignore_earliest=0, this one has 1"),
    ],
)
def test_the_state_of_another_buffer_is_refused_when_traced(arguments, message):
    replay = Replay(8, 3, priority_exponent=0.5)
    state, key = jax.eval_shape(lambda: (replay.init(ROWS), jax.random.key(0)))
    other = dataclasses.replace(replay, **arguments)
    with pytest.raises(ValueError, match=message):
        jax.eval_shape(lambda state, stream: other.sample(state, stream, 4), state, key)
    with pytest.raises(ValueError, match=r"Replay.add: the state is that of a Replay with"):
        jax.eval_shape(other.add, state, ROWS)


def test_what_changes_nothing_that_is_stored_may_be_changed():
    state = filled(Replay(8, 3), 4)
    assert Replay(8, 3, ignore_earliest=2, recent_fraction=0.5, recent_rows=1, priority_length=4).can_sample(state)


def test_a_restored_buffer_is_refused_by_one_with_other_windows(tmp_path):
    saved, other = (Replay(8, 3, priority_exponent=0.5, priority_length=length) for length in (2, 4))
    data.save(tmp_path / "buffer", init(saved, ROWS))
    state = data.restore(tmp_path / "buffer", init(other, ROWS))
    with pytest.raises(
        ValueError, match="sample: the state is that of a Replay with priority_length=2, this one has 4"
    ):
        other.sample(state, jax.random.key(0), 4, 4)


def test_an_aligned_buffer_takes_no_lanes():
    with pytest.raises(ValueError, match="all lanes of an aligned buffer are added to together, pass no env_id"):
        Replay(8, 3).add(Replay(8, 3).init(ROWS), ROWS, np.arange(3))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda r, s, k: r.sample(s, k, 0), "batch_size must be a whole number of at least 1, got 0"),
        (lambda r, s, k: r.sample(s, jax.random.split(k), 4), r"one key or a stream of shape \(\), got shape \(2,\)"),
        (lambda r, s, k: r.sample(s, k, 4, 8), r"length must be in 1 .. 7 \(capacity less ignore_earliest\), got 8"),
        (lambda r, s, k: r.sample(s, k, 4, 0), r"length must be in 1 .. 7"),
        (lambda r, s, k: r.sample(s, k, 4, 4), r"no lane has a window of 4 rows yet: the buffer holds 4 rows a lane"),
        (lambda r, s, k: r.sample(s, np.array([0, 1], np.uint32), 4), r"key must be a typed key"),
        (
            lambda r, s, k: r.sample_transitions(s, k, 4, 0),
            "sample_transitions: n must be a whole number of at least 1, got 0",
        ),
        (lambda r, s, k: r.sample_transitions(s, k, 4, 2.5), "n must be a whole number of at least 1, got 2.5"),
        (lambda r, s, k: r.sample_transitions(s, k, 4, 1, 2.0), r"gamma must be in \[0, 1\], got 2.0"),
        (lambda r, s, k: r.sample_transitions(s, k, 4, 2), "rewards of 2 steps are discounted, pass gamma"),
        (lambda r, s, k: r.add(r, ROWS), "Replay.add: state must be a ReplayState, got Replay"),
        (lambda r, s, k: r.clear(s, 9), r"clear: keep must be a whole number in 0 .. 8, got 9"),
        (lambda r, s, k: r.get(s, 3, 0, 0), "get: path must be the dotted name of a field, got 3"),
        (lambda r, s, k: r.get(s, "timestep.observation.sonar", 0, 0), r"no 'sonar' here, the fields are \['count'"),
        (lambda r, s, k: r.get(s, "timestep.discount", 0, 0), r"'timestep.discount' is not stored, keep it in unroll"),
        (lambda r, s, k: r.get(s, "action", [0, 1], [2]), r"env_id has shape \(2,\), position \(1,\)"),
        (lambda r, s, k: r.get(s, "action", 0, 4), r"position 4 of lane 0 is not stored"),
        (lambda r, s, k: r.get(s, "action", [0, 3], [1, 1]), r"position 1 of lane 3 is not stored"),
        (lambda r, s, k: r.get(s, "action", 0, 0.5), r"position must be integers, got float32"),
        (lambda r, s, k: r.episode_end(s, 0, 0), "episodes are not indexed, pass index_episodes=True"),
        (
            lambda r, s, k: r.update_priorities(s, sample(r, s, k, 4), jnp.ones(4)),
            "sampling is uniform, pass priority_",
        ),
        (lambda r, s, k: jax.jit(r.gather_all)(s), "the number of rows must be known, call it outside jitted code"),
        (lambda r, s, k: r.gather_all(r.clear(s)), r"all lanes must hold equally many rows, got \[0\]"),
    ],
)
def test_what_cannot_be_given_is_refused(call, message):
    replay = Replay(8, 3, ignore_earliest=1)
    with pytest.raises(ValueError, match=message):
        call(replay, filled(replay, 4), jax.random.key(0))
