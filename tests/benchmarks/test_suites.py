"""The record of suites: what is judged, what is kept, and the page."""

import json
import sys

import pytest

from benchmarks import __main__ as program
from benchmarks import suites
from jaxenv.testing._certify._dialects import _MAKERS
from tests.test_docs import PAGES

VERSIONS = {"pgx": "1.0", "jax": "0.10"}
PASSED = {"id": "go", "versions": VERSIONS, "by": "certify", "seconds": 7.0, "api": "pgx", "names": {"passed": ["a"]}}


@pytest.fixture
def folder(monkeypatch, tmp_path):
    monkeypatch.setattr(suites, "RESULTS", tmp_path)
    monkeypatch.setattr(suites, "versions", lambda suite: {suite: "1.0", "jax": "0.10"})
    monkeypatch.setattr(suites, "judged", lambda suite, id, seconds: PASSED | {"id": id, "seconds": seconds})
    monkeypatch.setitem(suites.TRIED, "pgx", ("2048", "chess", "go", "hex"))
    (tmp_path / "by_hand.toml").write_text('"pgx:2048 finite" = "Confirmed."\n')
    return tmp_path


def lines(folder):
    return [json.loads(line) for line in (folder / "pgx.jsonl").read_text().splitlines()]


def test_every_id_has_a_line_and_those_of_the_same_versions_are_kept(folder):
    old = PASSED | {"id": "2048", "versions": {"pgx": "0.9", "jax": "0.10"}}
    (folder / "pgx.jsonl").write_text(f"{json.dumps(PASSED)}\n{json.dumps(old)}\n")
    assert program.run_part("suites", ["--suites", "pgx", "--ids", "chess", "go", "--seconds", "3"]) == 0
    found = {row["id"]: row for row in lines(folder)}
    assert list(found) == ["2048", "chess", "go", "hex"]
    assert (found["go"]["seconds"], found["chess"]["seconds"]) == (7, 3)
    assert found["2048"] == {"id": "2048", "versions": VERSIONS}  # of an earlier version: judged again
    with pytest.raises(SystemExit, match="pgx has no id nonesuch"):
        program.run_part("suites", ["--suites", "pgx", "--ids", "nonesuch"])
    with pytest.raises(SystemExit):
        program.run_part("suites", ["--suites", "pgx", "brax", "--ids", "go"])


def test_the_page_tells_findings_and_what_was_not_judged(folder):
    result = {"name": "finite", "status": "failed", "expected": "a number", "seen": "nan", "lane": 2}
    failed = PASSED | {"id": "2048", "names": {"passed": ["b"], "failed": ["finite"]}}
    failed["details"] = [result | {"reproduction": "print(1)"}, {"name": "c", "status": "not run"}]
    broken = {"id": "chess", "versions": VERSIONS, "by": "certify", "seconds": 1.0, "error": "it needs a download"}
    suites.write("pgx", {row["id"]: row for row in (PASSED, failed, broken, {"id": "hex", "versions": VERSIONS})})
    page = suites.page()
    assert "| pgx | 1.0 | 0.10 | its own API (`pgx`) | 2 of 4 | 1 | 1 | 14 |" in page
    assert "### pgx:2048, `finite`\n\nExpected a number. Seen, lane 2, at reset: nan. Confirmed.\n" in page
    assert "```text\nprint(1)\n```" in page
    assert "- pgx, not run so far: `hex`.\n- `pgx:chess`: it needs a download" in page
    assert "| `pgx:go` | 1 | - | - | 0 | 0 | 7 |" in page


def test_an_id_of_which_nothing_ran_is_not_judged(folder):
    late = PASSED | {"id": "2048", "names": {"not run": ["a", "b"], "not applicable": ["c"]}}
    suites.write("pgx", {row["id"]: row for row in (PASSED, late)})
    page = suites.page()
    assert "(`pgx`) | 1 of 2 | 1 | 0 | 7 |" in page
    assert "- pgx, no property was decided: `2048`." in page
    assert "| `pgx:2048`" not in page


def test_errors_that_differ_by_the_id_alone_are_one_line(folder):
    text = "pgx:{0}: pgx cannot make it: Failed to import entry point 'pgx.{1}:env' for environment '{0}'. Install it."
    rows = [{"id": id, "versions": VERSIONS, "by": "check", "seconds": 1.0} for id in ("a/hex-v2", "a/go-v1")]
    rows = [row | {"error": text.format(row["id"], name)} for row, name in zip(rows, ("hex", "go"), strict=True)]
    suites.write("pgx", {row["id"]: row for row in rows})
    assert "`pgx:a/go-v1`, `pgx:a/hex-v2`: pgx cannot make it: Failed to import it. Install it." in suites.page()


def test_every_library_that_certify_makes_is_judged_by_its_own_api():
    assert set(suites.CERTIFIED) == set(_MAKERS)


def test_a_suite_whose_library_is_missing_is_a_note(monkeypatch, capsys, folder):
    monkeypatch.setitem(sys.modules, "jumanji", None)
    assert program.run_part("suites", ["--suites", "jumanji"]) == 0
    assert "note: jumanji: jumanji is not installed: pip install" in capsys.readouterr().err


def test_an_answer_follows_what_a_library_prints():
    assert suites._answer('Importing environments...\n{"results": []}\n') == {"results": []}
    assert suites._answer('[{"results": [1]}]') == {"results": [1]}
    assert suites._answer("Segmentation fault") is None


def test_the_page_shows_the_results():
    assert PAGES["evidence/record.md"] == suites.page()
