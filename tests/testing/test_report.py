"""`Report`: results by name, and as a table."""

import pytest

from jaxenv.testing import Report
from jaxenv.testing.report import Result, Status

RESULTS = (
    Result("short", 1, "a title", Status.PASSED),
    Result("a_longer_name", 20, "another title", Status.FAILED, "at step 3, lane 1: " + "0.25 and 0.5 " * 12),
    Result("masks", 40, "a third title", Status.NOT_APPLICABLE, "no mask"),
)
REPORT = Report("<Toy>", RESULTS)


def test_the_report_is_a_table():
    title, *long, first, last = str(REPORT).splitlines()
    assert title == "<Toy>: 1 passed, 1 failed, 1 not applicable"
    assert first == "  short           1  passed"
    assert last == "  masks          40  not applicable  no mask"
    assert len(long) > 1
    assert {len(line) - len(line.lstrip()) for line in long[1:]} == {long[0].index("at step 3")}


def test_results_have_names():
    assert (REPORT.ok, REPORT.failed, REPORT["masks"]) == (False, RESULTS[1:2], RESULTS[2])
    with pytest.raises(KeyError, match="no property 'shorter', it has short, a_longer_name, masks"):
        REPORT["shorter"]


def test_a_property_that_was_not_run_is_no_success():
    left_out = Result("slow", 2, "a title", Status.NOT_RUN, "it takes longer than 9 s")
    report = Report("<Toy>", (RESULTS[0], left_out))
    assert (report.ok, report.failed) == (False, ())
    assert str(report).splitlines()[0] == "<Toy>: 1 passed, 0 failed, 0 not applicable, 1 not run"
    for raises in (report.raise_if_failed, left_out.raise_if_failed):
        with pytest.raises(AssertionError, match="it takes longer than 9 s"):
            raises()


def test_failures_raise_their_evidence():
    with pytest.raises(AssertionError, match=r"1 failed.*\n  a_longer_name  20  failed"):
        REPORT.raise_if_failed()
    with pytest.raises(AssertionError, match=r"a_longer_name \(another title\): at step 3, lane 1"):
        RESULTS[1].raise_if_failed()
