"""The parts for the first minutes on an accelerator, at tiny sizes on the CPU."""

import dataclasses
import json
import subprocess
import types

import jax
import numpy as np
import pytest

import jaxenv
from benchmarks import __main__ as program
from benchmarks import defaults, device, measure
from benchmarks.measure import Contestant
from benchmarks.ours import rollout_of_id

SIZES = ["--tiny", "--ids", "Catch-bsuite", "--num-steps", "11"]


def rows_of(part, folder, *arguments):
    given = ["--folder", str(folder), "--prefix", "toy", "--parts", part, *SIZES, *arguments]
    assert program.run_part("device", given) == 0
    content = json.loads((folder / f"toy-{part}.json").read_text())
    assert content["benchmark"] == f"device {part}"
    return content["rows"]


def test_steps_that_differ_from_the_cpu_are_counted(monkeypatch):
    env = jaxenv.make("Catch-bsuite", num_envs=5)  # its floats are exact on every processor
    same = device._agreement(env, 11)
    assert (same["integers_that_differ"], same["largest_difference"]) == (0, 0.0)

    transition = type(env.unwrapped).transition

    def off(self, state, action, stream):  # as a device would that rounds, and that counts a lane wrongly
        out = transition(self, state, action, stream)
        return out if jax.config.jax_default_device else dataclasses.replace(out, reward=out.reward * (1 + 2**-10))

    monkeypatch.setattr(type(env.unwrapped), "transition", off)
    jax.clear_caches()
    found = device._agreement(jaxenv.make("Catch-bsuite", num_envs=5), 11)
    assert found["largest_difference"] == pytest.approx(2**-10)
    assert found["floats"] == same["floats"]


def test_a_difference_is_relative_above_one_and_infinite_for_a_lost_number():
    x = np.array([0.5, 100.0, np.nan, np.inf], np.float32)
    assert device._difference(x, x) == 0
    assert device._difference(x, x + np.array([0.25, 10, 0, 0], np.float32)) == pytest.approx(0.25)
    assert device._difference(x, np.array([0.5, np.nan, np.nan, np.inf], np.float32)) == np.inf


def test_the_loops_of_a_user_play_random_steps_on_both_sides(tmp_path):
    (row,) = rows_of("defaults", tmp_path, "--ids", "CartPole-v1", "--num-steps", "40")
    sides = row["contestants"]
    assert sides.keys() == {*defaults.RATIOS, *defaults.RATIOS.values()}
    assert row["ratios"].keys() == defaults.RATIOS.keys()
    assert row["ratios"]["scan"] == pytest.approx(
        sides["scan"]["steps_per_second"] / sides["gymnax"]["steps_per_second"]
    )
    for name, side in sides.items():
        # 40 steps of 8 lanes; a random episode has 22, and only this library's row after an end is no step.
        (steps,), (episodes,) = side["steps"], side["episodes"]
        assert episodes >= 3, name
        assert steps == 8 * 40 if "gymnax" in name else 8 * 39 - episodes <= steps < 8 * 40, name


@pytest.mark.parametrize(("id", "low", "high"), [("CartPole-v1", 0, 1), ("Pendulum-v1", -2, 2)])
def test_uniform_actions_fill_the_bounds(id, low, high):
    spec = jaxenv.make(id, num_envs=1).action_spec()
    drawn = np.asarray(defaults._uniform(spec, jax.random.key(0), 1000))
    assert (drawn.dtype, drawn.shape) == (spec.dtype, (1000, *spec.shape))
    assert low <= drawn.min() < low + 0.01 * (high - low)
    assert high >= drawn.max() > high - 0.01 * (high - low)


def test_pictures_of_all_lanes_are_counted(tmp_path):
    (row,) = rows_of("pixels", tmp_path)
    assert {(c["lanes"], c["rollout"]) for c in row["contestants"].values()} == {(8, False), (8, True)}
    for result in row["contestants"].values():
        assert result["frames_per_second"] * 64 * 64 == pytest.approx(result["pixels_per_second"])


@pytest.mark.filterwarnings("ignore")  # from the imports of purejaxrl
def test_ppo_is_trained_by_two_recipes(tmp_path):
    first, second = rows_of("train", tmp_path, "--ids", "CartPole-v1")
    assert [row["recipe"] for row in (first, second)] == ["purejaxrl", "one pass"]
    assert first["total_steps"] == second["total_steps"] == 8 * 128 * 10
    assert "jaxenv" in first["contestants"]


def test_curricula_take_turns(tmp_path, monkeypatch):
    def evaluations(config, seeds, attempts):
        for steps in (256, 512):
            yield None, steps, np.full((len(seeds), 9), len(config.curriculum))

    monkeypatch.setattr(device.mazes, "evaluations", evaluations)
    rows = rows_of("mazes", tmp_path, "--curricula", "dr", "accel")
    assert [(row["curriculum"], row["steps"]) for row in rows] == [
        ("dr", 256),
        ("accel", 256),
        ("dr", 512),
        ("accel", 512),
    ]
    assert [row["mean"] for row in rows] == [2, 5, 2, 5]


def test_every_seed_plays_every_maze_after_each_evaluation(tmp_path):
    rows = rows_of("mazes", tmp_path, "--curricula", "dr", "--seeds", "3")
    assert [row["steps"] for row in rows] == [256, 512]
    assert {np.shape(row["solved"]) for row in rows} == {(3, 9)}
    assert all(0 <= rate <= 1 for row in rows for seed in row["solved"] for rate in seed)


def test_a_rollout_that_does_not_fit_the_memory_leaves_a_note_and_the_others_run():
    def run(seed):
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: 434 GB\nmore")

    row = measure.compared([rollout_of_id("Catch-bsuite", 3, 11), Contestant("gymnax", run)], ["a note"], 1)
    assert row["contestants"].keys() == {"jaxenv"}
    assert row["ratios"] == {}
    assert row["notes"] == ["a note", "gymnax: RESOURCE_EXHAUSTED: 434 GB"]


def test_parts_beyond_their_time_are_stopped_and_reported(tmp_path, capsys, monkeypatch):
    clock = iter([0.0, 0.0, 1.0])  # at the start, and before each of the two parts

    def run(line, timeout):
        raise subprocess.TimeoutExpired(line, timeout)

    monkeypatch.setattr(device, "time", types.SimpleNamespace(monotonic=lambda: next(clock)))
    monkeypatch.setattr(device.subprocess, "run", run)
    arguments = ["--folder", str(tmp_path), "--parts", "pixels", "agreement", "--total-seconds", "1", *SIZES]
    assert program.run_part("device", arguments) == 1
    report = capsys.readouterr().out
    assert "stopped after 1 s" in report
    assert "no time left" in report


def test_a_dry_run_keeps_the_sizes_that_are_given(tmp_path):
    given = ["--folder", str(tmp_path), "--tiny", "--num-steps", "256"]
    args = program.parse("device", given)
    assert (args.num_steps, args.lane_steps) == (256, device.TINY["lane_steps"])


def test_every_part_has_seconds():
    assert set(device.PARTS) == set(device._RUN)
