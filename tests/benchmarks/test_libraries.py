"""Environments of other libraries: both sides play the same task, and count the same steps."""

import pytest

from benchmarks import __main__ as program
from tests.benchmarks.sizes import LANES, STEPS


def test_a_suite_is_compared_with_its_own_wrappers_and_a_native_id(run, capsys):
    (row,) = run("libraries", "--ids", "gymnax:CartPole-v1")["rows"]
    assert row["contestants"].keys() == {"jaxenv", "gymnax", "native"}
    assert row["ratios"].keys() == {"jaxenv", "native"}
    for name, found in row["contestants"].items():
        # gymnax restarts lanes within a step, so every one of its rows is a step; random episodes last about 20 steps.
        expected = LANES * STEPS - (0 if name == "gymnax" else found["episodes"][0])
        assert abs(found["steps"][0] - expected) <= LANES
        assert 5 <= found["episodes"][0] <= 40
    assert "gymnax:CartPole-v1" in capsys.readouterr().out


def test_an_environment_outside_jax_is_compared_with_its_own_loop(run, capsys):
    (row,) = run("libraries", "--ids", "gymnasium:CartPole-v1", "--options", "vectorization=sync")["rows"]
    assert {"jaxenv", "gymnasium"} <= row["contestants"].keys()
    for found in row["contestants"].values():
        # Every episode but the last of a lane has a row after its end, which is no step.
        assert abs(found["steps"][0] + found["episodes"][0] - LANES * STEPS) <= LANES
        assert 5 <= found["episodes"][0] <= 40
    assert "gymnasium:CartPole-v1 (vectorization=sync)" in capsys.readouterr().out


def test_a_library_that_is_missing_is_a_note(run, capsys, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "jumanji", None)
    (row,) = run("libraries", "--ids", "jumanji:Snake-v1")["rows"]
    assert row["contestants"] == {}
    assert "note: jumanji:Snake-v1, " in capsys.readouterr().out


@pytest.mark.parametrize("bad", ["CartPole-v1", "bsuite:catch/0"])
def test_an_id_without_a_loop_is_refused(bad, capsys):
    with pytest.raises(SystemExit):
        program.parse("libraries", ["--ids", bad])
    suites = "gymnax, craftax, jumanji, brax, xminigrid, navix, gymnasium, envpool"
    assert f"must be SUITE:ID with one of {suites}, got '{bad}'" in capsys.readouterr().err
