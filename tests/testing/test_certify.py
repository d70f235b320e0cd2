"""`certify` finds planted faults in environments of other forms, and none in sound ones."""

import json
import threading

import pytest

from jaxenv import cli
from jaxenv.testing import certify
from tests.cli.commands import refusal
from tests.packages import imported
from tests.testing import foreign

LONG = 1000.0  # seconds for a property, which no test may run out of
MATCHES = {"properties": ["matches_reference"], "seconds": LONG}
TABLE = [(api, fault, name) for api, faults in foreign.FAULTS.items() for fault, name in faults.items()]


@pytest.mark.parametrize("api", foreign.CLASSES)
def test_a_sound_environment_has_no_finding(api):
    certificate = certify(foreign.CLASSES[api](), api, seconds=LONG)
    assert certificate.exit_status == 0, str(certificate)
    assert len(certificate.of("passed")) >= 15
    assert certificate.badge.endswith(f"{len(certificate.of('passed'))}_passed-brightgreen)")


@pytest.mark.parametrize(("api", "fault", "name"), TABLE, ids=[f"{api}-{fault}" for api, fault, _ in TABLE])
def test_a_planted_fault_is_found(api, fault, name):
    certificate = certify(foreign.CLASSES[api](fault), api, properties=[name], seconds=LONG)
    assert [r.name for r in certificate.failed] == [name], str(certificate)
    (finding,) = certificate.failed
    assert finding.expected
    assert finding.seen
    assert len(finding.reproduction.splitlines()) <= 15
    assert "jaxenv" not in finding.reproduction


@pytest.mark.parametrize(("factory", "pick"), [(foreign.nan_walk, ""), (foreign.nan_walk_and_params, "[0]")])
def test_a_reproduction_shows_what_was_found(capsys, factory, pick):
    (finding,) = certify(factory, "gymnax", properties=["finite"], seconds=LONG).failed
    assert finding.seen == "nan"
    name = factory.__name__
    assert finding.reproduction.splitlines()[1:3] == [
        f"from tests.testing.foreign import {name}",
        f"env = {name}(){pick}",
    ]
    exec(finding.reproduction, {})
    assert capsys.readouterr().out == "nan\n"


def test_restarts_are_not_judged_by_starts_that_no_key_determines():
    certificate = certify(foreign.Walk("numpy_draws_the_start"), "gymnax", properties=["pure", "restart"], seconds=LONG)
    [restart] = [r for r in certificate.results if r.name == "restart"]
    assert (restart.status, restart.reason) == ("not run", "pure failed: starts depend on more than their keys")


def test_an_environment_that_never_ends_an_episode_passes_nothing_about_ends():
    certificate = certify(foreign.EndlessWalk(), "gymnax")
    assert [r.name for r in certificate.of("not run")] == ["restart", "final_observation"]
    assert "0 episodes ended in" in certificate.of("not run")[0].reason
    assert certificate.exit_status == 3


def test_a_step_that_does_not_return_is_not_run_and_neither_is_what_follows():
    class Waiting(foreign.Walk):
        def step(self, *args):
            goes_on.wait()
            return super().step(*args)

    goes_on = threading.Event()
    try:
        certificate = certify(Waiting(), "gymnax", seconds=3)
    finally:
        goes_on.set()
    assert {r.status for r in certificate.results} <= {"not run", "not applicable"}
    assert certificate.results[0].reason == "did not finish in 3 s, the time for a property"
    assert certificate.results[1].reason == "runs_under_jit did not pass"


@pytest.mark.parametrize(
    ("env", "api", "error", "message"),
    [
        ("gymnx:CartPole-v1", None, ValueError, "got 'gymnx:CartPole-v1', did you mean 'gymnax'"),
        ("CartPole-v1", None, ValueError, "env must be 'library:ID' or 'module:factory', got 'CartPole-v1'"),
        ("no_such_module:make", "brax", ValueError, "no_such_module:make failed to make .* No module named"),
        ("tests.testing.foreign:no_such", "brax", ValueError, "cannot import name 'no_such'"),
        (lambda: 1 / 0, "brax", ValueError, "failed to make an environment: ZeroDivisionError"),
        (foreign.Walk(), "brax", TypeError, "Walk has no observation_size, action_size, which the API 'brax' demands"),
        (foreign.Walk(), "gym", ValueError, "api must be 'gymnax', .*got 'gym'"),
        (foreign.Walk(), None, ValueError, "api must be one of .*got None for Walk"),
    ],
)
def test_wrong_input_is_named(env, api, error, message):
    with pytest.raises(error, match=message):
        certify(env, api)


def test_a_factory_that_does_not_return_is_left():
    goes_on = threading.Event()
    try:
        with pytest.raises(TimeoutError, match=r"not made in 0\.2 s"):
            certify(goes_on.wait, "brax", seconds=0.2)
    finally:
        goes_on.set()


def test_a_reference_of_gymnasium_is_compared_in_lock_step(capsys):
    imported("gymnasium")
    found = certify(
        foreign.MountainCar,
        "gymnax",
        against="gymnasium:MountainCar-v0",
        properties=["matches_reference"],
        seconds=LONG,
    )
    assert found.exit_status == 0, str(found)
    assert found.results[-1].reason.startswith("lock-step: 1600 steps from equal states")
    found = certify(foreign.light_mountain_car, "gymnax", against="gymnasium:MountainCar-v0", seconds=LONG)
    assert [r.name for r in found.failed] == ["matches_reference"]
    exec(found.failed[0].reproduction, {})
    _, other = capsys.readouterr().out.splitlines()
    assert other.startswith("(array(")
    assert len(found.failed[0].reproduction.splitlines()) <= 15


def test_other_references_are_compared_by_the_distributions_of_their_episodes():
    found = certify(foreign.Walk(), "gymnax", against=foreign.Walk(), seed=1, **MATCHES)
    assert found.results[-1].reason.startswith("equivalent at level 0.05: mean length"), str(found)
    found = certify(foreign.Walk(), "gymnax", against=foreign.OneWayWalk, **MATCHES)
    assert "standard error" in found.failed[0].seen


def test_the_command_prints_text_or_json_and_ends_with_the_status(capsys):
    command = [
        "certify",
        "tests.testing.foreign:nan_walk",
        "--api",
        "gymnax",
        "--properties",
        "finite",
        "--seconds",
        "1000",
    ]
    assert cli.main(command) == 1
    assert "FAILED finite, lane " in capsys.readouterr().out
    assert cli.main([*command, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["target"], found["api"], found["exit_status"]) == ("tests.testing.foreign:nan_walk", "gymnax", 1)
    assert found["results"][1]["seen"] == "nan"
    assert "tests.testing.foreign:nan failed to make" in refusal(capsys, "certify", "tests.testing.foreign:nan")
