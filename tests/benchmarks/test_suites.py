"""The table of suites: what loads, what is checked, and what a missing library leaves out."""

import json
import re
import sys

import pytest

from benchmarks import __main__ as program
from benchmarks import suites
from jaxenv.core.registry import SUITES


def test_a_suite_is_loaded_and_its_checks_are_reported(monkeypatch, capsys, tmp_path):
    found = {"passed": ["a", "b"], "failed": ["c"], "opted out": ["d"], "reasons": {"d": "because"}}
    monkeypatch.setattr(suites, "conformance", lambda id: found | {"id": id})
    path = tmp_path / "suites.json"
    argv = ["--suites", "gymnax", "--ids", "CartPole-v1", "NoSuch-v0", "--check", "CartPole-v1", "--json", str(path)]
    assert program.run_part("suites", argv) == 0
    lines = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r".* 1 of 2 tried, \d+ known \| `CartPole-v1` \| 2 \| c \| d \|", lines[2])
    assert lines[2].startswith("| gymnax | ")
    assert lines[-1].startswith("note: gymnax:NoSuch-v0: ValueError: gymnax: no environment")
    (row,) = json.loads(path.read_text())["rows"]
    assert row["checked"]["CartPole-v1"]["id"] == "gymnax:CartPole-v1"


def test_a_table_is_made_in_parts(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(suites, "survey", lambda suite, ids, checked: row(suite, 1))
    path = tmp_path / "suites.json"
    path.write_text(json.dumps({"rows": [row("pgx", 7), row("brax", 7)]}))
    assert program.run_part("suites", ["--suites", "gymnax", "pgx", "--json", str(path), "--update"]) == 0
    assert [(r["suite"], r["ids"]) for r in json.loads(path.read_text())["rows"]] == [
        ("brax", 7),
        ("gymnax", 1),
        ("pgx", 1),
    ]
    assert "| brax | 1.0 | 7 of 7 | - | - | - | - |" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        program.run_part("suites", ["--update"])
    assert "needs --json, the file to update" in capsys.readouterr().err


def test_checks_of_a_suite_are_added_to_those_of_the_same_version(monkeypatch, tmp_path):
    monkeypatch.setattr(suites, "survey", lambda suite, ids, checked: row("pgx", 7) | {"checked": {"go": {}}})
    path = tmp_path / "suites.json"
    for version, found in (("1.0", {"chess", "go"}), ("0.9", {"go"})):
        path.write_text(json.dumps({"rows": [row("pgx", 7) | {"version": version, "checked": {"chess": {}}}]}))
        assert program.run_part("suites", ["--suites", "pgx", "--check", "go", "--json", str(path), "--update"]) == 0
        assert json.loads(path.read_text())["rows"][0]["checked"].keys() == found


def row(suite, ids):
    return {"suite": suite, "version": "1.0", "known": ids, "ids": ids, "failed": {}, "checked": {}, "notes": []}


def test_a_suite_whose_library_is_missing_is_a_note(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "pgx", None)
    assert program.run_part("suites", ["--suites", "pgx"]) == 0
    assert "note: pgx: pgx is not installed: pip install" in capsys.readouterr().out


def test_every_suite_of_another_library_is_in_the_table():
    assert suites.CHECKED.keys() == SUITES.keys() - {"bsuite"}
