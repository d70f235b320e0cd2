"""`check_env`: arguments, opt-outs, failures and progress. `test_properties` covers the properties."""

import pytest

from jaxenv.testing import ALLOWED_OPT_OUTS, PROPERTIES, Chain, check_env
from jaxenv.testing.report import Status
from tests.testing.twins import TWINS, Walk

# --- opt-outs --------------------------------------------------------------------------------------------------------


class OptsOut(Walk):
    opt_outs = {"gradients_sound": "its reward is a table", "episode_grammar": "it starts at any time"}


def test_an_opt_out_is_listed_with_its_reason_and_counted():
    report = check_env(OptsOut(), properties=["same_tree", "gradients_sound"])
    assert report["gradients_sound"].status is Status.OPTED_OUT
    assert report["gradients_sound"].evidence == "OptsOut: its reward is a table"
    assert str(report).startswith("<OptsOut>: 1 passed, 0 failed, 0 not applicable, 1 opted out")
    assert report.ok


def test_no_class_may_opt_out_of_the_contract():
    assert "episode_grammar" not in ALLOWED_OPT_OUTS
    evidence = check_env(OptsOut(), properties=["episode_grammar"])["episode_grammar"].evidence
    assert evidence.startswith("no class may opt out of it: OptsOut: it starts")


def test_allowed_opt_outs_are_properties_with_reasons():
    assert ALLOWED_OPT_OUTS.keys() <= PROPERTIES.keys()
    assert all(ALLOWED_OPT_OUTS.values())


# --- failures --------------------------------------------------------------------------------------------------------


def test_evidence_names_the_field_the_step_the_lane_and_both_values():
    report = check_env(TWINS["terminal reward lost"].broken(), properties=["boundary_keeps_step"])
    evidence = report["boundary_keeps_step"].evidence
    assert evidence.startswith("reward at step 1, lane 0 is ")
    assert evidence.endswith(" without AutoReset and 0.0 in next_step mode")


def test_without_a_prerequisite_no_other_property_is_checked():
    report = check_env(TWINS["weakly typed reward"].broken())
    assert [r.name for r in report.failed] == ["same_tree"]
    assert {r.evidence for r in report if r.number > 1} >= {"not checked: same_tree failed"}
    assert len(report.results) == len(PROPERTIES)


def test_an_exception_of_the_environment_is_evidence():
    class Crashes(Walk):
        def initial(self, stream):
            raise RuntimeError("out of order")

    report = check_env(Crashes(), properties=["same_tree", "wrong_actions_refused"])
    assert report["same_tree"].evidence == "RuntimeError: out of order"
    with pytest.raises(AssertionError, match="out of order"):
        check_env(Crashes(), properties=["same_tree"], raise_on_failure=True)


# --- arguments -------------------------------------------------------------------------------------------------------


def test_progress_receives_every_result_in_the_order_of_the_table():
    seen = []
    report = check_env(Chain(), properties=["wrong_actions_refused", "same_tree"], progress=seen.append)
    assert tuple(seen) == report.results
    assert [r.name for r in seen] == ["same_tree", "wrong_actions_refused"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"properties": ["lane_independence"]}, "'lane_independence', did you mean 'lane_independent'"),
        ({"properties": [56]}, "unknown property 56, the properties are same_tree, leading_lanes"),
        ({"properties": "same_tree"}, "must be a sequence of names, got the string 'same_tree'"),
        ({"num_steps": 3}, "at least 16, got 3"),
    ],
)
def test_invalid_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        check_env(Chain(), **arguments)
