"""Comparison of two result files."""

import copy
import json

import pytest

from benchmarks import __main__ as program
from benchmarks import compare, libraries

RESULT = {
    "benchmark": "throughput",
    "record": {"device": "cpu: cpu"},
    "rows": [
        {
            "id": "CartPole-v1",
            "num_envs": 64,
            "contestants": {
                "jaxenv": {"steps_per_second": 2e7, "compile_seconds": 2.0, "total": 2.0},
                "gymnax": {"steps_per_second": 1e6, "compile_seconds": 4.0},
            },
        }
    ],
}


def compared(tmp_path, *arguments, benchmark="throughput", **factors):
    """Returns the exit status of comparing `RESULT` with a copy in which some metrics are multiplied by a factor."""
    old = {**copy.deepcopy(RESULT), "benchmark": benchmark}
    new = copy.deepcopy(old)
    for name, (metric, factor) in factors.items():
        new["rows"][0]["contestants"][name][metric] *= factor
    for name, content in (("old", old), ("new", new)):
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    return program.run_part("compare", [*arguments, str(tmp_path / "old.json"), str(tmp_path / "new.json")])


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"jaxenv": ("steps_per_second", 0.8)}, 1),
        ({"jaxenv": ("steps_per_second", 0.95)}, 0),
        ({"jaxenv": ("steps_per_second", 1.5)}, 0),
        ({"gymnax": ("steps_per_second", 0.5)}, 0),
        ({"jaxenv": ("compile_seconds", 1.3)}, 0),
        ({}, 0),
    ],
    ids=["20% slower", "5% slower", "faster", "slower peer", "slower compilation of another part", "unchanged"],
)
def test_compare_flags_slowdowns_of_more_than_ten_percent(tmp_path, capsys, change, status):
    assert compared(tmp_path, **change) == status
    assert ("REGRESSION" in capsys.readouterr().out) == bool(status)


@pytest.mark.parametrize(
    "peer",
    [
        *(peer for peer in libraries.PEERS if peer != "native"),
        "purejaxrl",
        "gymnasium, vector",
        "broadcast",
        "reference",
    ],
)
def test_compare_never_flags_a_peer(tmp_path, peer):
    before, after = ({**RESULT, "rows": [{"contestants": {peer: {"steps_per_second": rate}}}]} for rate in (1e6, 5e5))
    (change,) = compare.changes(before, after)
    assert change.worse == 2
    assert not change.flagged


def test_compare_includes_the_compile_times_of_the_part_that_measures_them(tmp_path):
    assert compared(tmp_path, benchmark="compiling", jaxenv=("total", 1.3)) == 1


def test_compare_relative_to_a_peer_ignores_the_speed_of_the_machine(tmp_path):
    slower_machine = {"jaxenv": ("steps_per_second", 0.5), "gymnax": ("steps_per_second", 0.52)}
    assert compared(tmp_path, **slower_machine) == 1
    assert compared(tmp_path, "--relative-to", "gymnax", **slower_machine) == 0
    assert compared(tmp_path, "--relative-to", "gymnax", jaxenv=("steps_per_second", 0.8)) == 1


def test_what_a_row_measured_is_no_setting_of_it():
    rows = [
        {"id": "a", "of_broadcast": x, "copy_bytes_per_second": x, "contestants": {"jaxenv": {"steps_per_second": x}}}
        for x in (1.0, 0.5)
    ]
    (change,) = compare.changes(*({**RESULT, "rows": [row]} for row in rows))
    assert (change.settings, change.worse) == ("id=a", 2)


def test_a_peer_that_is_not_in_the_files_is_refused(tmp_path, capsys):
    with pytest.raises(SystemExit):
        compared(tmp_path, "--relative-to", "gymnx")
    assert "argument --relative-to: no 'gymnx' in the files" in capsys.readouterr().err


@pytest.mark.parametrize(
    "name",
    ["jaxenv", "jaxenv, 64 lanes, 64x64, rollout", "to_gymnasium_vector, jax", "scan, linear", "native", "unrolled"],
)
def test_compare_flags_every_side_of_this_library(name):
    before, after = ({**RESULT, "rows": [{"contestants": {name: {"frames_per_second": rate}}}]} for rate in (1e6, 5e5))
    (change,) = compare.changes(before, after)
    assert change.flagged


def test_compare_reads_the_result_file_of_a_part(run, tmp_path, capsys):
    run("throughput", "--ids", "CardGame-v0", "--peers")
    path = str(tmp_path / "result.json")
    assert program.run_part("compare", [path, path]) == 0
    assert capsys.readouterr().out.endswith("1 metrics compared, 0 regressions over 10%\n")


def test_compare_refuses_files_without_a_common_metric(tmp_path, capsys):
    for name, benchmark in (("a", "throughput"), ("b", "scaling"), ("c", "throughput")):
        rows = [] if name == "c" else RESULT["rows"]
        (tmp_path / name).write_text(json.dumps({**RESULT, "benchmark": benchmark, "rows": rows}))
    for other, message in (
        ("b", "the files are of different parts: throughput and scaling"),
        ("c", "no metric in common"),
    ):
        with pytest.raises(SystemExit):
            program.run_part("compare", [str(tmp_path / "a"), str(tmp_path / other)])
        assert message in capsys.readouterr().err
