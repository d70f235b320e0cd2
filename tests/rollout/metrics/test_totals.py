"""Totals: chunks and shards add up to the whole, and counts are exact beyond 32 bits."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenv.rollout import Count, Metrics, merge_totals, to_host
from tests.rollout.metrics.play import GAMMA, METRICS, MODES, STEPS, play
from tests.rollout.metrics.trajectories import initial_state, trajectory


@pytest.mark.parametrize("mode", MODES)
def test_chunks_merge_to_the_whole_although_episodes_cross_them(mode):
    played = play(mode)
    merge = jax.jit(lambda a, b: METRICS.compute(merge_totals(a, b)))
    merged = to_host(merge(played.first_half.totals, played.second_half.totals))
    for name, value in to_host(played.metrics).items():
        exact = isinstance(value, int)
        assert merged[name] == (value if exact else pytest.approx(value, rel=1e-6)), name


def test_extremes_and_abnormal_episodes_are_merged_from_both_sides():
    abnormal = np.array([[0, 0, 0, 0, 1]], bool)
    rows = (trajectory(["FTFMT"], [[0, r, 0, 1, 1]], abnormal=abnormal) for r in (-5, 4))
    low, high = (METRICS.totals(METRICS.update_rows(initial_state(METRICS, x), x)) for x in rows)
    for pair in ((low, high), (high, low)):
        found = to_host(METRICS.compute(merge_totals(*pair)))
        assert (found["return_min"], found["return_max"], found["episodes"], found["abnormal"]) == (-5, 4, 2, 2)


@pytest.mark.slow
def test_shards_summed_over_a_mesh_axis_equal_all_lanes_at_once():
    played = play("next_step")

    def shard(rows):
        totals = METRICS.totals(METRICS.update_rows(initial_state(METRICS, rows), rows))
        return METRICS.compute(totals.psum("shards"))

    halves = jax.tree.map(lambda x: np.moveaxis(x.reshape(STEPS, 2, 2), 1, 0), played.rows)
    found = to_host(jax.jit(jax.vmap(shard, axis_name="shards"))(halves))
    for name, value in to_host(played.metrics).items():
        expected = value if isinstance(value, int) else pytest.approx(value, rel=1e-6)
        assert found[name] == [expected, expected], name


def test_metrics_run_inside_shard_map():
    metrics = Metrics(gamma=GAMMA)
    mesh = jax.make_mesh((1,), ("lanes",), axis_types=(jax.sharding.AxisType.Auto,))
    spec = jax.sharding.PartitionSpec

    def shard(rows):
        state = metrics.update_rows(metrics.clear_finished(initial_state(metrics, rows)), rows)
        return metrics.compute(metrics.totals(state).psum("lanes"))

    run = jax.shard_map(shard, mesh=mesh, in_specs=spec(None, "lanes"), out_specs=spec())
    assert to_host(jax.jit(run)(trajectory(["FMML", "FMMM"])))["steps"] == 6


def test_the_steps_of_all_lanes_are_exact_beyond_32_bits():
    metrics = Metrics()
    rows = trajectory(["FML", "FMM", "FLF"])
    state = initial_state(metrics, rows)
    count = Count.from_array(np.array([2**32 - 5, 2**31, 7], np.uint32))
    rewards = dataclasses.replace(state.totals.rewards, count=count)
    state = dataclasses.replace(state, totals=dataclasses.replace(state.totals, rewards=rewards))

    @jax.jit
    def run(state, rows):
        totals = metrics.totals(metrics.update_rows(state, rows))
        return metrics.compute(totals)["steps"], metrics.compute(merge_totals(totals, totals))["steps"]

    once, twice = run(state, rows)
    exact = 2**32 - 5 + 2**31 + 7 + 2 + 2 + 1
    assert (int(once), int(twice)) == (exact, 2 * exact)
    assert repr(once) == f"Count({exact})"
    assert np.asarray(jax.tree.map(lambda *x: jnp.stack(x), once, twice)).tolist() == [exact, 2 * exact]
