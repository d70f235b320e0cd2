"""Chunked rollouts: chunks add up to the whole, one is always running, and memory does not grow."""

import dataclasses
import functools
import gc

import jax
import numpy as np
import pytest

from jaxenv.rollout import ChunkedRollout, Metrics, PolicyStep, unroll
from jaxenv.rollout.chunked_rollout import chunk_lengths
from jaxenv.testing import Counting
from jaxenv.wrappers import AutoReset

LENGTHS = np.array([[2, 7, 3], [9, 1, 4], [5, 5, 6]])


def env():
    return AutoReset(Counting(LENGTHS, num_envs=3))


def remembering(timestep, stream, memory):
    return PolicyStep(memory % 10, memory + 1)


MEMORY = np.array([1, 2, 3], np.int32)


@pytest.fixture(scope="module")
def run():
    return ChunkedRollout(env(), 180, jax.random.key(3), policy=remembering, initial_memory=MEMORY, chunk_steps=60)


@functools.cache
def episodes_by_loop():
    """(LAST row, return, length) of every episode in 180 rows after the first."""
    play = jax.jit(lambda key: unroll(env(), remembering, *env().reset(key), 181, initial_memory=MEMORY)[1].timestep)
    rows, found = jax.device_get(play(jax.random.key(3))), []
    for lane in range(3):
        return_, length = 0.0, 0
        for t in range(181):
            if rows.step_type[t, lane] == 0:
                continue
            return_, length = return_ + rows.reward[t, lane], length + 1
            if rows.step_type[t, lane] == 2:
                found.append((t, return_, length))
                return_, length = 0.0, 0
    return np.array(found), np.sum(rows.step_type != 0)


def test_chunks_measure_the_episodes_that_end_in_them_and_add_up_to_the_unroll(run):
    episodes, steps = episodes_by_loop()
    chunks = list(run)
    assert [chunk.rows for chunk in chunks] == [60, 120, 180]
    assert [c.seconds for c in chunks] == sorted(c.seconds for c in chunks)
    for chunk, start in zip(chunks, (0, 60, 120), strict=True):
        ended = episodes[(episodes[:, 0] > start) & (episodes[:, 0] <= chunk.rows)]
        assert chunk.metrics["episodes"] == len(ended) > 0
        assert chunk.metrics["return_mean"] == pytest.approx(ended[:, 1].mean())
    cumulative = chunks[-1].cumulative
    assert cumulative["steps"] == sum(c.metrics["steps"] for c in chunks) == steps
    assert cumulative["return_mean"] == pytest.approx(episodes[:, 1].mean())
    assert cumulative["length_std"] == pytest.approx(episodes[:, 2].std())


def test_a_chunk_that_is_no_multiple_of_a_block_has_a_shorter_one_at_its_end():
    episodes, _ = episodes_by_loop()
    (chunk,) = ChunkedRollout(env(), 59, jax.random.key(3), policy=remembering, initial_memory=MEMORY)
    ended = episodes[episodes[:, 0] <= 59]
    assert chunk.metrics["episodes"] == len(ended)
    assert chunk.metrics["return_mean"] == pytest.approx(ended[:, 1].mean())


def test_a_rollout_can_be_repeated(run):
    assert [chunk.cumulative for chunk in run] == [chunk.cumulative for chunk in run]


def test_the_next_chunk_is_running_before_the_previous_one_is_yielded(run):
    started = []
    advance = {n: lambda carry, n=n, fn=fn: (started.append(n), fn(carry))[1] for n, fn in run._advance.items()}
    chunks = iter(run)
    run._advance, kept = advance, run._advance
    try:
        next(chunks)
        assert started == [60, 60]
    finally:
        run._advance = kept


def test_memory_does_not_grow_with_the_number_of_steps(run):
    alive = []
    for _ in run:
        gc.collect()
        alive.append(len(jax.live_arrays()))
    assert alive[0] >= alive[1] >= alive[2]
    sizes = set()
    for length in (110, 2960):  # two blocks and 59, and the same rest
        options = {"policy": remembering, "initial_memory": MEMORY, "chunk_steps": length}
        (chunk,) = ChunkedRollout(env(), length, jax.random.key(3), **options)._advance.values()
        memory = chunk.func.memory_analysis()
        sizes.add(memory.temp_size_in_bytes + memory.argument_size_in_bytes + memory.output_size_in_bytes)
    assert len(sizes) == 1
    assert sizes.pop() < 20_000


def test_a_chunk_reuses_the_buffers_of_the_previous_one(run):
    carry = run._start()
    run._advance[60](carry)
    assert all(x.is_deleted() for x in jax.tree.leaves(carry))


def test_ten_million_steps_per_lane_are_cut_into_equal_chunks_of_moderate_size():
    lengths = chunk_lengths(10_000_000, 64)
    assert sum(lengths) == 10_000_000
    assert len(set(lengths)) == 1
    assert 1000 <= lengths[0] <= 10_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_steps": 0}, r"num_steps .*got 0"),
        ({"num_steps": True}, r"num_steps .*got True"),
        ({"num_steps": 10, "chunk_steps": 0}, r"chunk_steps .*got 0"),
        ({"num_steps": 10, "chunk_steps": 2.5}, r"chunk_steps .*got 2.5"),
        ({"num_steps": 10, "devices": 0}, r"devices .*got 0"),
        ({"num_steps": 10, "devices": 64}, r"devices .*got 64"),
        ({"num_steps": 10, "metrics": 0.9}, r"metrics .*got 0.9"),
        ({"num_steps": 10, "metrics": Metrics(env_info=("speed",))}, "no 'speed' here"),
    ],
)
def test_wrong_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        ChunkedRollout(env(), key=jax.random.key(0), **arguments)


class StateShown(Counting):
    """Counting with its state and its transitions in env_info."""

    def state_info(self, state):
        return {"height": state.step}

    def transition(self, state, action, stream):
        out = super().transition(state, action, stream)
        return dataclasses.replace(out, env_info={"rise": out.state.step - state.step})


def test_entries_that_show_the_next_episode_on_last_rows_are_refused():
    env, metrics = AutoReset(StateShown(LENGTHS, num_envs=3), "same_step"), Metrics(env_info=("height@max",))
    with pytest.raises(ValueError, match=r"env_info 'height@max' describes the state, .* of the next"):
        ChunkedRollout(env, 10, jax.random.key(0), metrics=metrics)


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
def test_entries_are_measured_by_default_except_those_of_the_next_episode(mode):
    env = AutoReset(StateShown(np.array([2]), num_envs=3), mode)
    (chunk,) = ChunkedRollout(env, 10, jax.random.key(0))
    found = chunk.cumulative
    assert found["rise"] == 2
    assert found.get("height") == (3 if mode == "next_step" else None)


def test_an_id_is_no_environment():
    with pytest.raises(ValueError, match=r"^ChunkedRollout: env .*got 'CartPole-v1'"):
        ChunkedRollout("CartPole-v1", 10, jax.random.key(0))


def test_an_environment_without_autoreset_is_refused():
    with pytest.raises(ValueError, match="ChunkedRollout: Counting has no AutoReset"):
        ChunkedRollout(Counting(LENGTHS, num_envs=3), 10, jax.random.key(0))


def test_on_a_gpu_short_loops_run_as_graphs(monkeypatch):
    given, compile = [], jax.stages.Lowered.compile

    def recorded(lowered, options=None):
        given.append(options)
        return compile(lowered)

    monkeypatch.setattr(jax.stages.Lowered, "compile", recorded)
    ChunkedRollout(env(), 7, jax.random.key(0))
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    ChunkedRollout(env(), 7, jax.random.key(0))
    assert given == [None, {}, None, {"xla_gpu_graph_min_graph_size": 1}]
