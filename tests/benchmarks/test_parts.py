"""The other parts of the benchmarks: their results, and the quantities that they measure. No test depends on timing."""

import dataclasses
import json

import pytest

from benchmarks import __main__ as program
from benchmarks import render
from tests.benchmarks.sizes import LANES


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


def test_loops_over_single_environments_are_compared_at_one_lane_only(run):
    (row,) = run("host")["rows"]
    both = {"jax.jit(env.step)", "host", "to_gymnasium_vector", "to_gymnasium_vector, jax"}
    both |= {"gymnasium, vector", "gymnasium, sync"}
    assert row["contestants"].keys() == both
    assert set(program.module_of("host").loops(1)) == both | {"to_gymnasium", "gymnasium"}
    result = row["contestants"]["host"]
    assert result["steps_per_second"] == pytest.approx(LANES * 1e6 / result["microseconds_per_call"])


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
