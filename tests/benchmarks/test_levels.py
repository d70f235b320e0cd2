"""Levels of the maze: the rollouts and updates of this library; the peers are clones, which no test has."""

import dataclasses
import sys
from unittest import mock

import jax
import pytest

from benchmarks import __main__ as program
from benchmarks import levels
from jaxenv.training import ued
from tests.benchmarks.sizes import LANES, STEPS


@pytest.fixture(autouse=True)
def small_updates(monkeypatch):
    small = {"num_envs": 4, "num_steps": 32, "recurrent": 8, "capacity": 8, "env_options": {"max_steps": 20}}
    monkeypatch.setattr(levels, "CONFIG", dataclasses.replace(levels.CONFIG, **small))


def test_rollouts_and_updates_are_timed_without_peers(run, capsys):
    rows = run("levels")["rows"]
    assert [(row["part"], row["levels"]) for row in rows] == [
        ("rollout", "new"),
        ("rollout", "replayed"),
        ("update", "new"),
        ("update", "replayed"),
    ]
    for row in rows[:2]:
        side = row["contestants"]["jaxenv"]
        assert 0 <= LANES * STEPS - side["steps"][0] <= side["episodes"][0]  # rows that start an episode
    assert all(row["ratios"] == {} for row in rows)
    assert "replayed" in capsys.readouterr().out


@pytest.mark.parametrize(("of", "source"), [("new", ued.NEW), ("replayed", ued.REPLAYED)])
def test_every_update_but_the_first_plays_the_levels_that_its_row_names(of, source):
    learner, update = levels.ours_plr(of, 3)
    update = jax.jit(update)
    found = []
    for _ in range(3):
        learner, _ = update(learner)
        found.append(int(learner.source))
    assert found == [ued.NEW, source, source]


@pytest.mark.parametrize("peer", ["jaxued", "minimax"])
def test_a_folder_without_the_peer_is_refused(peer, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(jax, "tree_map", jax.tree.map, raising=False)
    monkeypatch.setattr(jax, "jax", jax, raising=False)
    sizes = ["--num-envs", str(LANES), "--num-steps", str(STEPS)]
    with mock.patch.dict(sys.modules):
        assert program.run_part("levels", [f"--{peer}", str(tmp_path), "--parts", "rollout", *sizes]) == 1
    assert f"{peer} cannot be imported from {tmp_path}" in capsys.readouterr().err
