"""`jaxenv bench`: runs the benchmarks of a clone."""

import importlib

import jaxenv
from jaxenv import cli
from tests.cli.commands import refusal


def test_bench_passes_its_arguments_to_the_benchmarks(capsys):
    assert cli.main(["bench", "--help"]) == 0
    assert "python -m benchmarks PART [options]" in capsys.readouterr().out
    assert "no part 'fly'; the parts are throughput" in refusal(capsys, "bench", "fly", "--json", "a.json")
    assert "argument --num-envs: must be a whole number" in refusal(capsys, "bench", "limit", "--num-envs", "-3")


def test_bench_returns_the_status_of_the_part(monkeypatch):
    benchmarks = importlib.import_module("benchmarks.__main__")
    monkeypatch.setattr(benchmarks, "main", lambda arguments: 1 if arguments == ["compare", "a", "b"] else 0)
    assert cli.main(["bench", "compare", "a", "b"]) == 1


def test_bench_outside_a_clone_is_refused(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(jaxenv, "__file__", str(tmp_path / "jaxenv" / "__init__.py"))
    assert "run this in a clone" in refusal(capsys, "bench", "limit")
