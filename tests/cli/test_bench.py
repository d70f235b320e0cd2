"""`jaxenv bench`: runs the benchmarks of a clone."""

import importlib
import pathlib

import jaxenv
from jaxenv import cli
from jaxenv._util import source
from tests.cli.commands import refusal


def test_bench_passes_its_arguments_to_the_benchmarks(capsys):
    assert cli.main(["bench", "--help"]) == 0
    assert "jaxenv bench PART [options]" in capsys.readouterr().out
    assert "no part 'fly'; the parts are throughput" in refusal(capsys, "bench", "fly", "--json", "a.json")
    assert "argument --num-envs: must be a whole number" in refusal(capsys, "bench", "host", "--num-envs", "-3")


def test_bench_returns_the_status_of_the_part(monkeypatch):
    benchmarks = importlib.import_module("benchmarks.__main__")
    monkeypatch.setattr(benchmarks, "main", lambda arguments: 1 if arguments == ["compare", "a", "b"] else 0)
    assert cli.main(["bench", "compare", "a", "b"]) == 1


def test_bench_outside_a_clone_is_refused(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(source, "clone", lambda: None)
    monkeypatch.chdir(tmp_path)
    assert "run this in a clone" in refusal(capsys, "bench", "host")


def test_bench_finds_the_clone_that_was_installed_from_elsewhere(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["bench", "--help"]) == 0
    assert "jaxenv bench PART [options]" in capsys.readouterr().out


def test_bench_runs_in_a_clone_if_the_library_is_installed_from_a_url(capsys, monkeypatch):
    monkeypatch.setattr(source, "clone", lambda: None)
    monkeypatch.chdir(pathlib.Path(jaxenv.__file__).parents[1])
    assert cli.main(["bench", "--help"]) == 0
