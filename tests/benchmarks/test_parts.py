"""The other parts of the benchmarks: their results, and the quantities that they measure. No test depends on timing."""

import dataclasses
import json

import jax
import numpy as np
import pytest

import jaxenv
from benchmarks import __main__ as program
from benchmarks import ours, render, resets, to_gymnax, wrappers
from tests.benchmarks.sizes import LANES, STEPS


def test_scaling_counts_the_bytes_of_state_timestep_and_action(run, tmp_path):
    picture = tmp_path / "plot.png"
    (row,) = run("scaling", "--peers", "--plot", str(picture))["rows"]
    result = row["contestants"]["jaxenv"]
    # State: key, id, episode, step, four floats, ended flag. TimeStep: type, reward, discount, four floats, action, id,
    # truncation flag.
    assert result["state_bytes_per_lane"] == 2 * 4 + 3 * 4 + 4 * 4 + 1
    assert result["timestep_bytes_per_lane"] == 3 * 4 + 4 * 4 + 2 * 4 + 1
    assert result["action_bytes_per_lane"] == 4
    assert result["nanoseconds_per_step"] == pytest.approx(1e9 / result["steps_per_second"])
    traffic = 2 * (2 * 4 + 3 * 4 + 4 * 4 + 1) + (3 * 4 + 4 * 4 + 2 * 4 + 1) + 4
    assert result["traffic_bytes_per_step"] == traffic
    assert result["memory_limit_nanoseconds"] > 0
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.thorough
def test_resets_run_every_strategy_and_all_play_the_same_steps(run):
    toy, id = run("resets", "--resets", "cheap", "--fractions", "0.2", "--ids", "gymnax:CartPole-v1")["rows"]
    for row in toy, id:
        assert row["contestants"].keys() == {"select", "cond", "compact 16", "compact 64", "compact 256"}
        steps, episodes = (
            {name: result[what] for name, result in row["contestants"].items()} for what in ("steps", "episodes")
        )
        assert len({tuple(counts) for counts in steps.values()}) == len({tuple(n) for n in episodes.values()}) == 1
        assert sum(episodes["select"]) > 0
    assert (toy["reset"], toy["fraction"], id["id"]) == ("cheap", 0.2, "gymnax:CartPole-v1")


@pytest.mark.thorough
def test_seeds_under_vmap_play_as_many_steps_as_one_batch(run):
    rows = run("seeds", "--ids", "CartPole-v1", "--seeds", "3")["rows"]
    assert [row["strategy"] for row in rows] == ["select", "cond", "compact"]
    under_vmap = {tuple(row["contestants"]["under vmap"]["steps"]) for row in rows}
    assert len(under_vmap) == 1
    for row in rows:
        # FIRST rows are not steps; random episodes of CartPole are longer than eight steps.
        for side in row["contestants"].values():
            assert 0.8 * 3 * LANES * STEPS < side["steps"][0] < 3 * LANES * STEPS


def test_the_requested_fraction_of_lanes_ends():
    env = resets.AutoReset(resets.Ending(0.2, num_envs=500))
    totals = ours.rollout("select", env, 100).run(0)
    assert totals["terminated"].sum() / totals["steps"].sum() == pytest.approx(0.2, abs=0.01)


def test_expensive_and_cheap_resets_return_different_words():
    stream = jaxenv.random.stream(jax.random.split(jax.random.key(0), 3))
    cheap, expensive = (resets.Ending(rounds=rounds).initial(stream) for rounds in resets.ROUNDS.values())
    assert cheap.shape == expensive.shape == (3, 16)
    assert not np.any(np.asarray(cheap) == np.asarray(expensive))


def test_each_stack_is_compared_with_its_base(run, monkeypatch):
    names = ("bare", "ClipAction", "AutoReset", "AutoReset + TimeLimit")
    monkeypatch.setattr(wrappers, "STACKS", {name: wrappers.STACKS[name] for name in names})
    (row,) = run("wrappers", "--ids", "Pendulum-v1")["rows"]
    assert row["contestants"].keys() == wrappers.STACKS.keys()
    assert row["ratios"].keys() == wrappers.STACKS.keys() - {"bare"}
    seconds = {name: result["seconds"][0] for name, result in row["contestants"].items()}
    expected = seconds["AutoReset + TimeLimit"] / seconds["AutoReset"]
    assert row["ratios"]["AutoReset + TimeLimit"] == pytest.approx(expected)


def test_clipping_is_measured_only_for_continuous_actions():
    assert [wrappers._continuous(id) for id in ("CartPole-v1", "Pendulum-v1")] == [False, True]


def test_a_trainer_of_single_lanes_is_compared_with_a_batched_loop_and_with_gymnax(run):
    (row,) = run("to_gymnax", "--ids", "Catch-bsuite")["rows"]
    assert row["contestants"].keys() == set(to_gymnax.SIDES)
    assert row["ratios"].keys() == set(to_gymnax.SIDES) - {"to_gymnax"}
    speeds = {name: result["steps_per_second"] for name, result in row["contestants"].items()}
    assert row["ratios"]["gymnax"] == pytest.approx(speeds["to_gymnax"] / speeds["gymnax"])
    # Every side restarts lanes within the step, so every row is a step, and an episode of Catch has nine.
    for name, result in row["contestants"].items():
        assert result["steps"] == [LANES * STEPS], name
        assert result["episodes"] == [LANES * (STEPS // 9)], name


def test_loops_over_single_environments_are_compared_at_one_lane_only(run):
    (row,) = run("host")["rows"]
    both = {"jax.jit(env.step)", "host", "to_gymnasium_vector", "to_gymnasium_vector, jax"}
    both |= {"gymnasium, vector", "gymnasium, sync"}
    assert row["contestants"].keys() == both
    assert set(program.module_of("host").loops(1)) == both | {"to_gymnasium", "gymnasium"}
    result = row["contestants"]["host"]
    assert result["steps_per_second"] == pytest.approx(LANES * 1e6 / result["microseconds_per_call"])


@pytest.mark.filterwarnings("ignore")  # from the imports of rlax
@pytest.mark.parametrize("kind", ["gae", "td_lambda", "n_step_return", "vtrace"])
def test_returns_agree_with_rlax_at_valid_transitions(kind):
    pytest.importorskip("rlax")
    row = program.module_of("returns").compare(kind, num_steps=40, num_envs=8, repeats=1, calls=1)
    assert row["rows_compared"] > 250
    assert row["largest_difference"] < 1e-4
    mine, theirs = (row["contestants"][name]["milliseconds_per_call"] for name in ("jaxenv", "rlax"))
    assert row["ratios"] == {"rlax": theirs / mine}


@pytest.mark.filterwarnings("ignore")  # from the imports of flashbax
def test_replay_is_compared_with_flashbax_on_the_same_rows(tmp_path):
    pytest.importorskip("flashbax")
    path = tmp_path / "replay.json"
    sizes = ["--scale", "64", "--repeats", "1", "--rows", "cart-pole", "--work", "add-1", "sample-256x2"]
    assert program.run_part("replay", [*sizes, "--json", str(path)]) == 0
    add, sample = json.loads(path.read_text())["rows"]
    assert set(sample["contestants"]) == {"jaxenv", "flashbax", "flashbax items"}
    assert sample["contestants"]["jaxenv"]["bytes_per_row"] < sample["contestants"]["flashbax items"]["bytes_per_row"]
    assert add["ratios"]["flashbax"] > 0


def test_render_divides_the_time_by_the_pictures_of_all_calls_and_lanes(monkeypatch):
    drawn = []
    monkeypatch.setattr(render.time, "perf_counter", lambda: float(len(drawn)))  # a call takes one second
    drawing = render.Renderer("toy", lanes=4, size=(8, 8), start=lambda seed: lambda: drawn.append(seed), num_calls=3)
    assert drawing.run(7) == 1 / 4
    assert drawn == [7, 7, 7]
    assert dataclasses.replace(drawing, num_calls=1, rollout=True, frames_per_call=5).run(7) == 1 / 20


@pytest.mark.thorough
def test_render_draws_alone_and_in_a_rollout(run):
    (row,) = run("render", "--ids", "CartPole-v1", "--sizes", "8", "--no-peers")["rows"]
    assert [result["rollout"] for result in row["contestants"].values()] == [False, True]
    for result in row["contestants"].values():
        assert (result["lanes"], result["size"]) == (LANES, [8, 8])
        assert result["pixels_per_second"] == pytest.approx(64 * result["frames_per_second"])
