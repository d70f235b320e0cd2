"""The benchmarks of learners: what they run, what they store and what they print."""

import dataclasses
import json
import types

import numpy as np
import pytest
from PIL import Image

import jaxenv
from benchmarks import __main__ as program
from benchmarks import mazes, memories, ppo, training
from jaxenv.training import baselines, presets

SMALL = {"total_steps": 512, "num_envs": 4, "num_steps": 32, "num_evaluations": 2, "num_eval_episodes": 4}


@pytest.mark.filterwarnings("ignore")  # from the imports of purejaxrl
def test_ppo_is_compared_with_that_of_purejaxrl_on_the_same_number_of_steps():
    pytest.importorskip("distrax")
    pytest.importorskip("brax")
    row = ppo.compare("CartPole-v1", 4, 7000, 1)  # 10 updates on both sides, where purejaxrl's would be 13 of 7000
    assert row["total_steps"] == ppo.whole_updates(4, 5120) == ppo.whole_updates(4, 1) == 5120
    assert row["contestants"].keys() == {"jaxenv", "purejaxrl"}
    for side in row["contestants"].values():
        assert side["steps_per_second"] == pytest.approx(5120 / side["seconds"][0])
        assert 8 < side["return"][0] < 500
    assert ppo.report([row], None).splitlines()[-1].startswith("CartPole-v1      4")
    missing = ppo.compare("CardGame-v0", 4, 5120, 1)
    assert missing["contestants"].keys() == {"jaxenv"}
    assert missing["notes"][0].startswith("purejaxrl: ")


def test_curricula_are_trained_and_every_held_out_maze_is_played(tmp_path, monkeypatch, capsys):
    small = {"num_envs": 4, "num_steps": 32, "num_minibatches": 1, "recurrent": 8, "capacity": 4}
    monkeypatch.setattr(mazes, "_SHORT", small)
    files = {"--json": tmp_path / "mazes.json", "--film": tmp_path / "mazes.gif", "--plot": tmp_path / "mazes.png"}
    settings = ["--total-steps", "1024", "--num-evaluations", "2", "--attempts", "2", "--curricula", "dr", "accel"]
    with pytest.warns(UserWarning, match="curriculum 'accel': num_steps must be at least 250"):
        assert program.run_part("mazes", [*settings, *(str(x) for pair in files.items() for x in pair)]) == 0
    rows = json.loads(files["--json"].read_text())["rows"]
    assert [row["curriculum"] for row in rows] == ["dr", "accel"]
    assert [point["steps"] for point in rows[0]["curve"]] == [512, 1024]
    assert np.shape(rows[0]["curve"][0]["solved"]) == (9,)
    with Image.open(tmp_path / "mazes-accel-0.gif") as film:  # dr has no buffer
        assert film.size == (384, 384)
    header, *lines = capsys.readouterr().out.splitlines()[-3:]
    assert header.split() == ["curriculum", "steps", "seeds", *rows[0]["mazes"], "mean", "interval"]
    assert [line.split()[:3] for line in lines] == [["dr", "1,024", "1"], ["accel", "1,024", "1"]]
    assert files["--plot"].read_bytes().startswith(b"\x89PNG")


def test_solve_rates_are_means_over_seeds_with_an_interval():
    solved = [(0.5, 0.0), (0.1, 1.0)]  # of two seeds in two mazes, after 20 steps
    curves = [[{"steps": 10, "solved": [0.9, 0.9]}, {"steps": 20, "solved": list(rates)}] for rates in solved]
    rows = [{"curriculum": "dr", "mazes": ["A", "B"], "curve": curve} for curve in curves]
    _, line = mazes.report(rows, types.SimpleNamespace(plot=None)).splitlines()
    assert line.split() == ["dr", "20", "2", "30", "50", "40", "25", "to", "55"]


def test_ppo_plays_minatar_by_the_rules_of_gymnax_where_it_is_compared_with_gymnax(monkeypatch):
    configs = []
    monkeypatch.setattr(ppo.ppo, "make_train", configs.append)
    for id in ("Breakout-MinAtar", "CartPole-v1"):
        ppo.ours(id, 4, 5120)
    rules = {"sticky_action_prob": 0.0, "max_episode_steps": 1000}
    assert [dict(config.env_options) for config in configs] == [rules, {}]


def test_a_preset_is_run_once_and_its_curve_is_stored(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(training, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(presets, "PRESETS", {"ppo": {"CartPole-v1": SMALL}})
    other = training.Published(5.0, 1000, "PPO", "other", {"max_episode_steps": 7})
    monkeypatch.setattr(training, "PUBLISHED", {("CartPole-v1", "ppo"): (training.Published(500.0, 10, "PPO"), other)})
    monkeypatch.setattr(baselines, "_FOLDER", tmp_path)
    arguments = ["--seeds", "2", "--folder", str(tmp_path / "runs"), "--plot", str(tmp_path / "plot.png"), "--ship"]
    assert program.run_part("training", arguments) == 0
    stored = json.loads((tmp_path / "results" / "CartPole-v1-ppo.json").read_text())
    assert stored["steps"] == [256, 512]
    assert np.shape(stored["returns"]) == (2, 2)
    first, again = capsys.readouterr().out, program.run_part("training", arguments)
    assert again == 0
    own, rules = first.splitlines()[-2:]
    assert own.startswith("| CartPole-v1 | PPO | 512 | ")
    assert own.endswith(" s | 500 at 10, PPO | 0 of 2 |")
    assert rules == (
        "| same policies, rules of other |  |  | 7.00 | 7.00 to 7.00 |  | 5 at 1,000, PPO, other | 2 of 2 |"
    )
    shipped = jaxenv.training.baseline("CartPole-v1")
    assert (shipped.steps, shipped.eval_episodes) == (512, 1000)
    assert shipped.command == "jaxenv train CartPole-v1 --algo ppo --seeds 2"
    resumed = json.loads((tmp_path / "results" / "CartPole-v1-ppo.json").read_text())
    assert resumed["returns"] == stored["returns"]
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_the_published_values_belong_to_presets():
    of_presets = {(id, algorithm) for algorithm, by_id in presets.PRESETS.items() for id in by_id}
    assert training.PUBLISHED.keys() <= of_presets


def test_runs_with_memories_are_added_to_their_file_once(tmp_path, monkeypatch, capsys):
    settings = dataclasses.replace(memories.SETTINGS, total_steps=512, num_envs=4, num_evaluations=2)
    for name, value in {"SETTINGS": settings, "STEPS": np.array([256, 512]), "NUM_SEEDS": 3}.items():
        monkeypatch.setattr(memories, name, value)
    monkeypatch.setattr(memories, "RESULTS", tmp_path / "memories.csv")
    monkeypatch.setattr(memories, "GAMES", ("HigherLower",))
    monkeypatch.setattr(memories, "MODELS", ("gru", "none"))
    memories.add([["HigherLower", "gru", seed, 7, seed, 0.5] for seed in range(3)])
    assert program.run_part("memories", []) == 0
    header, *lines = memories.RESULTS.read_text().splitlines()
    assert header == "game,model,seed,seconds,256,512"
    assert [line.split(",")[:3] for line in lines] == [["HigherLower", m, s] for m in ("gru", "none") for s in "012"]
    written = memories.RESULTS.read_bytes()
    assert program.run_part("memories", ["--table"]) == program.run_part("memories", []) == 0
    assert memories.RESULTS.read_bytes() == written
    ends, scores = (part.splitlines()[-1].split(" | ") for part in memories.table(memories.load()).split("\n\n"))
    assert ends[:2] == ["| HigherLower", "0.50 (0.50 to 0.50)"]
    assert (scores[1], scores[3]) == ("1.17", "0.529 ± 0.002 |")  # of the seeds' highest returns, 0.5, 1 and 2


def test_the_memory_of_a_run_is_the_named_one(monkeypatch):
    configs = []
    monkeypatch.setattr(memories.seeds, "train", lambda config, num_seeds: configs.append(config) or [])
    for model in memories.MODELS:
        with pytest.raises(ValueError, match="not enough values"):
            memories.run("RepeatFirst", model)
    assert {config.env_id for config in configs} == {"RepeatFirstEasy-popgym"}
    assert [(config.recurrent, config.cell) for config in configs] == [
        (0, "gru"),
        *((32, model) for model in ("gru", "lstm", "mingru", "gtrxl")),
    ]
