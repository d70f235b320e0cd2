"""`Report`: results by name, and as a table."""

import pytest

from jaxenv.testing import Report
from jaxenv.testing.report import Result, Status

RESULTS = (
    Result("short", Status.PASSED),
    Result("a_longer_name", Status.FAILED, "at step 3, lane 1: " + "0.25 and 0.5 " * 12),
    Result("masks", Status.NOT_APPLICABLE, "no mask"),
)
REPORT = Report("<Toy>", RESULTS)


def test_the_report_is_a_table():
    title, *long, first, last = str(REPORT).splitlines()
    assert title == "<Toy>: 1 passed, 1 failed, 1 not applicable"
    assert first == "  short          passed"
    assert last == "  masks          not applicable  no mask"
    assert len(long) > 1
    assert {len(line) - len(line.lstrip()) for line in long[1:]} == {long[0].index("at step 3")}


def test_results_have_names():
    assert (REPORT.ok, REPORT.exit_status, REPORT.failed, REPORT["masks"]) == (False, 1, RESULTS[1:2], RESULTS[2])
    with pytest.raises(KeyError, match="no property 'shorter', it has short, a_longer_name, masks"):
        REPORT["shorter"]


def test_a_property_that_was_not_run_is_no_success():
    left_out = Result("slow", Status.NOT_RUN, "it takes longer than 9 s")
    report = Report("<Toy>", (RESULTS[0], left_out))
    assert (report.ok, report.failed, report.exit_status) == (False, (), 3)
    assert str(report).splitlines()[0] == "<Toy>: 1 passed, 0 failed, 0 not applicable, 1 not run"
    with pytest.raises(AssertionError, match="it takes longer than 9 s"):
        report.raise_if_failed()


def test_failures_raise_their_evidence():
    with pytest.raises(AssertionError, match=r"1 failed.*\n  a_longer_name  failed"):
        REPORT.raise_if_failed()


def test_a_reproduction_follows_the_table_and_empty_fields_stay_out_of_json():
    found = Result(
        "finite", Status.FAILED, "lane 2, step 4: expected a number; seen nan", 1.5, "a number", "nan", 2, 4, "print(1)"
    )
    report = Report("<Toy>", (RESULTS[0], found), "gymnax")
    assert str(report).endswith("  short   passed\n\nfinite:\n    print(1)")
    head = report.as_dict()
    assert (head["api"], head["exit_status"], head["seconds"]) == ("gymnax", 1, 1.5)
    assert head["results"][0] == {"name": "short", "status": "passed", "seconds": 0.0}
    assert head["results"][1]["step"] == 4
    assert report.badge.endswith("1_passed%2C_1_failed-red)")


def test_properties_that_were_not_run_for_one_reason_are_one_row():
    for count in (3, 4):
        many = tuple(Result(f"p{i}", Status.NOT_RUN, "not checked: p failed") for i in range(count))
        report = Report("env", (Result("p", Status.FAILED, "bad"), *many, Result("q", Status.NOT_RUN, "too slow")))
        text = str(report)
        rows = [line.split()[:2] for line in text.splitlines() if "not checked" in line]
        assert rows == ([[r.name, "not"] for r in many] if count == 3 else [["4", "properties"]])
        assert ("not checked: p failed: p0, p1, p2, p3" in text) == (count == 4)
        assert "too slow" in text
        assert f"{count + 1} not run" in text
        assert len(report.as_dict()["results"]) == count + 2
