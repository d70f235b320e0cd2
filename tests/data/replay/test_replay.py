"""Replay buffers: adding, reading and clearing rows, in loops and under transformations, and what they cost."""

import dataclasses

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import data
from jaxenv.core.timestep import TimeStep
from jaxenv.data import PrioritizedSampling, Replay
from jaxenv.rollout import Experience
from jaxenv.testing import Counting
from jaxenv.wrappers import AutoReset
from tests.data.replay.blocks import LENGTHS, add, block, filled, flagged, init, played, sample


@pytest.mark.parametrize("capacity", [5, 16])
def test_an_aligned_buffer_holds_the_newest_rows_for_any_block_sizes(capacity):
    replay = Replay(capacity, 3)
    counts = [1, 3, capacity, 2, 0, 4, 1, 1, capacity - 1, 3]

    @jax.jit
    def run(blocks):
        state, contents = replay.init(blocks[0]), []
        for rows in blocks:
            state = replay.add(state, rows)
            position = jnp.broadcast_to(
                replay.earliest(state) + jnp.arange(capacity, dtype=jnp.int32)[:, None], (capacity, 3)
            )
            lane = jnp.broadcast_to(jnp.arange(3, dtype=jnp.int32), position.shape)
            contents.append((replay.size(state), replay.earliest(state), replay.get(state, "", lane, position)))
        return contents

    ends = np.cumsum(counts)
    blocks = [block(end - count, count) for end, count in zip(ends, counts, strict=True)]
    for end, (size, earliest, rows) in zip(ends, jax.device_get(run(blocks)), strict=True):
        assert size == min(end, capacity)
        assert earliest == end - size
        expected = block(earliest, size)
        chex.assert_trees_all_equal(jax.tree.map(lambda x, size=size: x[:size], rows), expected)


def test_an_unaligned_buffer_holds_the_newest_rows_of_each_lane():
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
        rows = replay.get(state, "timestep.observation.count", np.full_like(position, i), position)
        assert rows.tolist() == [1000 * i + p for p in m[-6:]]
    assert add(replay, state, block(0, 1, 4)).position.tolist() == [len(m) + 1 for m in model]


def test_sampled_rows_have_their_original_bytes_and_their_env_id():
    replay = Replay(8, 3)
    state = filled(replay, 4)
    assert state.rows.timestep.observation["image"].dtype == np.uint8
    assert state.rows.timestep.env_id == state.rows.timestep.discount == ()
    batch = jax.device_get(jax.jit(lambda s: replay.sample(s, jax.random.key(3), 5, 3))(state))
    assert batch.experience.timestep.env_id.tolist() == [[i] * 3 for i in batch.env_id]
    assert batch.weight.tolist() == [1.0] * 5
    assert batch.weight.dtype == np.float32
    for i, p, row in zip(batch.env_id, batch.position, range(5), strict=True):
        expected = jax.tree.map(lambda x: x[:, 0], block(p, 3, [i]))
        chex.assert_trees_all_equal(jax.tree.map(lambda x, row=row: x[row], batch.experience), expected)


def test_get_reads_any_field_in_any_shape():
    replay = Replay(4, 3)
    state = filled(replay, 7)
    env_id, position = np.array([[0, 1], [2, 2]]), np.array([[3, 6], [5, 4]])
    assert replay.get(state, "timestep.observation.count", env_id, position).tolist() == [[3, 1006], [2005, 2004]]
    assert replay.get(state, "timestep.observation", env_id, position)["image"].shape == (2, 2, 2)
    assert replay.get(state, "timestep.env_id", env_id, position).tolist() == env_id.tolist()
    assert replay.get(state, "timestep", env_id, position).env_id.tolist() == env_id.tolist()
    assert replay.get(state, "action", np.int32(1), np.int32(6)).tolist() == 1006 % 7


def test_jitted_code_reads_the_nearest_row_for_a_missing_one():
    replay = Replay(4, 3)
    get = jax.jit(lambda s, i, p: replay.get(s, "timestep.observation.count", i, p))
    assert get(filled(replay, 7), np.array([0, 1, 9, -1]), np.array([2, 9, 4, 4])).tolist() == [3, 1006, 2004, 4]
    windows = jax.jit(lambda s, k: replay.sample(s, k, 6, 3).experience.timestep.observation["count"] % 1000)
    assert windows(filled(replay, 2), jax.random.key(0)).tolist() == [[0, 1, 1]] * 6
    assert windows(init(replay, block(0, 1)), jax.random.key(0)).tolist() == [[0, 0, 0]] * 6


@pytest.mark.parametrize("aligned", [True, False])
def test_clear_removes_all_rows_and_positions_count_up(aligned):
    replay = Replay(4, 3, aligned=aligned)
    state = replay.clear(filled(replay, 7))
    assert np.all(replay.size(state) == 0)
    assert not replay.can_sample(state, 1)
    state = add(replay, state, block(7, 2))
    assert np.all(replay.size(state) == 2)
    assert set(np.asarray(sample(replay, state, jax.random.key(0), 8, 1).position)) == {7, 8}


@pytest.mark.parametrize("aligned", [True, False])
def test_clear_with_keep_leaves_the_newest_rows_before_the_next_ones(aligned):
    replay = Replay(4, 3, aligned=aligned)
    state = add(replay, replay.clear(filled(replay, 7), keep=1), block(7, 2))
    assert np.all(replay.earliest(state) == 6)
    batch = replay.gather_all(state)
    assert batch.experience.timestep.observation["count"].tolist() == [
        [1000 * i + p for p in (6, 7, 8)] for i in range(3)
    ]
    # Only stored rows can be kept.
    assert np.all(replay.earliest(replay.clear(state, keep=4)) == 6)


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
@pytest.mark.parametrize("n", [1, 3])
def test_sampled_transitions_equal_those_of_the_stream(mode, n):
    replay, rows, last, buffer = played(mode)
    transitions, batch = jax.device_get(
        jax.jit(lambda s, k: replay.sample_transitions(s, k, 40, n, np.float32(0.5), mode))(buffer, jax.random.key(1))
    )
    whole = jax.device_get(data.to_n_step_transitions(rows, last, n, np.float32(0.5), mode))
    assert 0 < transitions.valid.sum() <= 40
    for i in range(40):
        at = batch.position[i], batch.env_id[i]
        expected = jax.tree.map(lambda x, at=at: x[at], whole)
        chex.assert_trees_all_close(jax.tree.map(lambda x, i=i: x[i], transitions), expected)


@pytest.mark.parametrize("count", [3, 12])
def test_gather_all_returns_every_row_oldest_first(count):
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
    batch = replay.gather_all(add(replay, filled(replay, 5), block(5, 2, [1]), np.array([1])))
    assert batch.position.tolist() == [0, 2]
    assert batch.experience.timestep.observation["count"].tolist() == [[*range(5)], [*range(1002, 1007)]]


# --- loops, transformations, checkpoints ------------------------------------------------------------------------------


@pytest.mark.compiled
@pytest.mark.parametrize("pack_bits", [False, True])
def test_rows_are_written_in_place_in_a_loop_and_by_a_donated_call(pack_bits):
    # A copy of the buffer would hold the same rows in twice the memory.
    replay = Replay(1024, 8, pack_bits=pack_bits)
    rows = flagged(block(0, 3, 8), np.random.default_rng(0))
    rows = jax.eval_shape(lambda: jax.tree.map(jnp.asarray, rows))
    state = jax.eval_shape(lambda: replay.init(rows))
    size = sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(state))

    def loop(state, rows):
        return jax.lax.fori_loop(0, 4, lambda _, state: replay.add(state, rows), state)

    jax.config.update("jax_disable_most_optimizations", False)
    for program in (replay.add, loop):
        memory = jax.jit(program, donate_argnums=0).lower(state, rows).compile().memory_analysis()
        assert memory.alias_size_in_bytes >= size
        assert memory.temp_size_in_bytes < size / 20


def test_a_buffer_works_in_a_training_loop_under_vmap():
    env = AutoReset(Counting(LENGTHS, stride=10, num_envs=3))
    replay = Replay(16, 3, index_episodes=True, sampling=PrioritizedSampling(0.5))
    policy = jaxenv.rollout.random_policy(env)

    def train(key):
        state, timestep = env.reset(key)
        rows = jax.eval_shape(lambda: jaxenv.unroll(env, policy, state, timestep, 5)[1])

        def iteration(carry, key):
            state, timestep, buffer = carry
            (state, timestep, _), rows = jaxenv.unroll(env, policy, state, timestep, 5)
            buffer = replay.add(buffer, rows)
            transitions, batch = replay.sample_transitions(buffer, key, 4)
            buffer = replay.update_priorities(buffer, batch, transitions.observation.astype(jnp.float32) + 1)
            return (state, timestep, buffer), (batch.env_id, batch.position, transitions.reward, transitions.valid)

        return jax.lax.scan(iteration, (state, timestep, replay.init(rows)), jax.random.split(key, 6))

    keys = jax.random.split(jax.random.key(0), 2)
    (_, _, buffer), samples = jax.device_get(jax.jit(jax.vmap(train))(keys))
    assert buffer.position.tolist() == [30, 30]
    (_, _, alone), expected = jax.device_get(jax.jit(train)(keys[1]))
    chex.assert_trees_all_close(jax.tree.map(lambda x: x[1], (samples, buffer)), (expected, alone), rtol=1e-5)


def test_a_restored_buffer_continues_bit_for_bit(tmp_path):
    replay = Replay(6, 3, index_episodes=True, sampling=PrioritizedSampling(0.5))
    state = filled(replay, 5)
    data.save(tmp_path / "buffer", state)
    again = data.restore(tmp_path / "buffer", state)
    continue_ = jax.jit(lambda s: (replay.add(s, block(5, 3)), replay.sample(s, jax.random.key(0), 4)))
    chex.assert_trees_all_equal(continue_(state), continue_(again))
    chex.assert_trees_all_equal(continue_(state), continue_(jax.device_get(state)))


# --- memory -----------------------------------------------------------------------------------------------------------


def test_an_observation_is_stored_once():
    env = jaxenv.make("CartPole-v1", num_envs=4)
    shapes = jax.eval_shape(
        lambda key: jaxenv.unroll(env, jaxenv.rollout.random_policy(env), *env.reset(key), 8)[1], jax.random.key(0)
    )
    # Step type, reward, discount, four floats, previous action, action, time_limit_reached; two counters per buffer.
    replay = Replay(64, 4)
    state = jax.eval_shape(lambda: replay.init(shapes))
    assert replay.bytes_per_row(state) == 3 * 4 + 4 * 4 + 2 * 4 + 1 + 8 / 256
    indexed = Replay(64, 4, index_episodes=True)
    state = jax.eval_shape(lambda: indexed.init(shapes))
    assert indexed.bytes_per_row(state) == 37 + 8 + (8 + 16) / 256


def test_an_image_is_stored_in_its_own_bytes():
    timestep = TimeStep(*(jax.ShapeDtypeStruct((1, 2), t) for t in (jnp.int32, jnp.float32, jnp.float32)))
    image = jax.ShapeDtypeStruct((1, 2, 84, 84, 1), jnp.uint8)
    rows = Experience(dataclasses.replace(timestep, observation=image), jax.ShapeDtypeStruct((1, 2), jnp.int32))
    replay = Replay(1000, 2)
    state = jax.eval_shape(lambda: replay.init(rows))
    assert replay.bytes_per_row(state) == 84 * 84 + 4 * 4 + 8 / 2000


@pytest.mark.parametrize("aligned", [True, False])
def test_packed_flags_are_read_as_they_were_added(aligned):
    generator = np.random.default_rng(0)
    blocks = [flagged(block(first, count), generator) for first, count in ((0, 1), (1, 4), (5, 16), (21, 2))]

    def run(replay, key):
        state = replay.init(blocks[0])
        for rows in blocks:
            state = replay.add(state, rows)
        return state, (
            replay.sample(state, key, 5, 3),
            replay.get(state, "timestep.env_info", np.array([[0, 1], [2, 2]]), np.array([[20, 22], [8, 9]])),
            replay.get(state, "timestep.env_info.image", np.int32(1), np.int32(21)),
        )

    plain, packed = (Replay(16, 3, aligned=aligned, pack_bits=value) for value in (False, True))
    run = jax.jit(run, static_argnums=0)
    (stored, expected), (state, got) = (run(replay, jax.random.key(2)) for replay in (plain, packed))
    whole = [replay.gather_all(x) for replay, x in ((plain, stored), (packed, state))]
    for x, y in ((expected, got), whole):
        chex.assert_trees_all_equal(x, y, strict=True)
    image = np.concatenate([rows.timestep.env_info["image"] for rows in blocks])[-16:]
    np.testing.assert_array_equal(whole[1].experience.timestep.env_info["image"], image.swapaxes(0, 1))
    # 30 flags in 4 bytes and 9 in 2; a flag alone has its byte.
    assert plain.bytes_per_row(stored) - packed.bytes_per_row(state) == (30 - 4) + (9 - 2)


def test_packed_flags_are_stored_and_read_under_vmap():
    replay = Replay(16, 3, pack_bits=True)
    rows = [flagged(block(0, 16), np.random.default_rng(seed)) for seed in range(2)]
    stacked = jax.tree.map(lambda *x: jnp.stack(x), *rows)
    state = jax.jit(jax.vmap(lambda rows: replay.add(replay.init(rows), rows)))(stacked)
    assert state.batch_shape == (2,)
    get = jax.vmap(lambda state: replay.get(state, "timestep.env_info.mask", np.int32(2), np.int32(7)))
    np.testing.assert_array_equal(get(state), [x.timestep.env_info["mask"][7, 2] for x in rows])
