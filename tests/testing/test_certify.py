"""`certify` finds planted faults in environments of other forms, and none in sound ones."""

import contextlib
import functools
import itertools
import json
import re
import threading
from types import SimpleNamespace

import jax
import numpy as np
import pytest

from jaxenv import cli
from jaxenv.cli import certify as command
from jaxenv.testing import Chain, Report, certify, check_env
from jaxenv.testing._certify import PROPERTIES, _trial
from jaxenv.testing._certify._analysis import violations
from jaxenv.testing._certify._dialects import DIALECTS
from jaxenv.testing._elsewhere import THREADS
from tests.cli.commands import python, refusal
from tests.packages import imported
from tests.testing import foreign

LONG = 1000.0  # seconds for a property, which no test may run out of
MATCHES = {"properties": ["matches_reference"], "seconds": LONG}
TABLE = [(api, fault, name) for api, faults in foreign.FAULTS.items() for fault, name in faults.items()]


def joined():
    """Waits for the threads that were left; the command would end this process for them."""
    for thread in threading.enumerate():
        if thread.name == THREADS:
            thread.join()


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


@pytest.mark.parametrize("place", foreign.PLACES)
@pytest.mark.parametrize(
    ("added", "name"), [("a draw from a constant key", "draws_from_its_keys"), ("a draw of NumPy", "pure")]
)
def test_a_draw_that_needs_no_key_is_found_at_any_place_of_a_program(added, name, place):
    make = functools.partial(foreign.Placed, added, place)
    (finding,) = certify(make, "gymnax", properties=[name], seconds=LONG).failed
    assert finding.name == name
    assert name == "pure" or re.search(r"constant key at \S*foreign\.py:\d+, in <lambda>: it is", finding.seen)


@pytest.mark.parametrize("place", foreign.PLACES)
def test_a_key_that_stays_in_the_state_is_found_where_only_the_reward_shows_it(place):
    (finding,) = certify(foreign.Kept(place), "gymnax", properties=["draws_from_its_keys"], seconds=LONG).failed
    assert finding.seen == "state.key stays the same through every episode, and so do the draws"


@pytest.mark.parametrize("added", ["noise", "noise through a fixed matrix"])
def test_a_draw_from_a_key_is_sound_at_any_place_of_a_program(added):
    make = functools.partial(foreign.Placed, added, *foreign.PLACES)
    certificate = certify(make, "gymnax", properties=["draws_from_its_keys", "pure"], seconds=LONG)
    assert [r.status for r in certificate.results] == ["passed"] * 3, str(certificate)


@pytest.mark.parametrize(
    ("factory", "names"), [(foreign.nan_walk, "env"), (foreign.nan_walk_and_params, "env, params")]
)
def test_a_reproduction_shows_what_was_found(capsys, factory, names):
    (finding,) = certify(factory, "gymnax", properties=["finite"], seconds=LONG).failed
    assert finding.seen == "nan"
    name = factory.__name__
    assert finding.reproduction.splitlines()[1:3] == [
        f"from tests.testing.foreign import {name}",
        f"{names} = {name}()",
    ]
    exec(finding.reproduction, {})
    assert capsys.readouterr().out == "nan\n"


@pytest.mark.parametrize(
    ("factory", "name", "alike"),
    [(foreign.kept_walk, "draws_from_its_keys", True), (foreign.numpy_walk, "pure", False)],
)
def test_a_reproduction_prints_a_key_that_stays_or_the_rows_of_two_instances(capsys, factory, name, alike):
    (finding,) = certify(factory, "gymnax", properties=[name], seconds=LONG).failed
    exec(finding.reproduction, {})
    first, second = capsys.readouterr().out.splitlines()
    assert (first == second) == alike
    assert len(finding.reproduction.splitlines()) <= 15


class CountingDraw(foreign.Draw):
    resets = 0

    def reset(self, key):
        self.resets += 1
        return super().reset(key)


def test_a_reproduction_of_compiled_code_shows_what_its_traces_changed(capsys):
    (finding,) = certify(CountingDraw, "jumanji", properties=["pure"], seconds=LONG).failed
    exec(finding.reproduction, {})
    before, after = capsys.readouterr().out.splitlines()
    assert before != after


def test_a_reproduction_of_episodes_that_differ_runs_more_than_once(capsys):
    (finding,) = certify(foreign.drawing_walk, "gymnax", properties=["same_key_same_episode"], seconds=LONG).failed
    exec(finding.reproduction, {})
    first, again = capsys.readouterr().out.splitlines()
    assert first != again


@pytest.mark.parametrize(
    ("fault", "seen", "raised"),
    [
        ("python_branch", r"TracerBoolConversionError.*raised at .*foreign", jax.errors.TracerBoolConversionError),
        ("no_final_observation", "KeyError: 'final_observation'", KeyError),
    ],
)
def test_what_does_not_run_is_told_with_its_line_and_reproduced(fault, seen, raised):
    (finding,) = certify(foreign.Walk(fault), "gymnax", properties=["runs_under_jit"], seconds=LONG).failed
    assert re.search(seen, finding.seen)
    assert ("info['final_observation']" in finding.expected) == (raised is KeyError)
    program = finding.reproduction.partition("\nparams")[2]
    with pytest.raises(raised):
        exec(f"params{program}", {"env": foreign.Walk(fault), "jax": jax})


def test_a_mask_over_the_components_of_a_vector_draws_no_choice():
    report = certify(foreign.Steer(), "jaxmarl", properties=["runs_under_jit", "legal_actions"], seconds=LONG)
    assert report["runs_under_jit"].status == "passed"
    assert report["legal_actions"].status == "not applicable"


def test_params_that_a_factory_makes_replace_the_defaults(capsys):
    names = ["ends_within_its_limit", "pure"]
    (finding,) = certify(foreign.short_walk_and_params, "gymnax", properties=names, seconds=LONG).failed
    assert finding.expected == "an episode to end within 3 steps, as max_steps_in_episode says"
    exec(finding.reproduction, {})
    assert capsys.readouterr().out == f"{finding.step} True\n"
    given = foreign.short_walk_and_params()
    (finding,) = certify(given, "gymnax", properties=names, seconds=LONG).failed
    assert "within 3 steps" in finding.expected


@pytest.mark.parametrize("factory", [lambda: foreign.nan_walk(), functools.partial(foreign.nan_walk)])
def test_a_factory_that_nothing_can_import_is_named_in_a_comment(factory):
    (finding,) = certify(factory, "gymnax", properties=["finite"], seconds=LONG).failed
    assert finding.reproduction.splitlines()[1:3] == ["# make_env is the factory that you passed", "env = make_env()"]


@pytest.mark.parametrize(
    ("env", "name"),
    [
        (foreign.Picture(), "restart"),
        (foreign.RareStart(), "final_observation"),
        (foreign.KeyedWalk(), "draws_from_its_keys"),
        (foreign.KeyedWalk("one_start"), "draws_from_its_keys"),
        (foreign.KeyedWalk("no_noise"), "draws_from_its_keys"),
        (foreign.KeyedWalk("fixed_matrix"), "draws_from_its_keys"),
    ],
)
def test_a_sound_environment_that_looks_unsound_passes(env, name):
    certificate = certify(env, "gymnax", properties=[name], seed=300, seconds=LONG)
    assert [r.status for r in certificate.results] == ["passed", "passed"], str(certificate)


def test_a_key_in_the_state_that_an_end_alone_replaces_is_found():
    certificate = certify(foreign.KeyedWalk("key_stays"), "gymnax", properties=["draws_from_its_keys"], seconds=LONG)
    assert "state.key stays the same" in certificate.failed[0].seen


def test_an_end_at_the_limit_may_be_a_termination():
    certificate = certify(foreign.Walk("limit_told_as_termination"), "gymnax", properties=["truncation"], seconds=LONG)
    assert re.match(r"at the limit, step 12, \d+ episodes terminated", certificate.results[1].evidence)
    assert certificate.exit_status == 0


def test_attributes_that_equal_nothing_stay_as_they_are():
    env = foreign.Walk()
    env.pad, env.key = [1.0, float("nan")], jax.random.key(0)
    assert certify(env, "gymnax", properties=["pure"], seconds=LONG).exit_status == 0


def test_a_timeout_error_of_an_environment_is_an_error_like_others():
    def make():
        made.append(0)
        if len(made) > 1:
            raise TimeoutError("no answer")
        return foreign.Walk()

    made: list[int] = []
    reason = certify(make, "gymnax", properties=["pure"], seconds=LONG).results[1].evidence
    assert reason.startswith("TimeoutError: no answer")


def test_more_seconds_than_a_thread_can_wait_are_refused():
    with pytest.raises(ValueError, match=r"certify: seconds must be in \[0, .*got 1000000000000"):
        certify(foreign.Walk(), "gymnax", seconds=1e12)
    with pytest.raises(ValueError, match=r"check_env: max_seconds must be in \[0, .*got 1000000000000"):
        check_env(Chain(), max_seconds=1e12)


@pytest.mark.parametrize("kind", ["number", "array", "callback"])
def test_an_instance_that_differs_is_found(kind):
    numbers = itertools.count()

    class FirstPaysMore(foreign.Walk):
        def __init__(self):
            super().__init__()
            is_first = next(numbers) == 0
            self.more = jax.numpy.arange(9.0) + is_first if kind == "array" else float(is_first)

        def pay(self, reward):
            return np.full_like(reward, self.more)

        def step(self, *args):
            obs, state, reward, *ends = super().step(*args)
            more = self.more[3] if kind == "array" else self.more
            if kind == "callback":
                more = jax.pure_callback(self.pay, reward, reward, vmap_method="expand_dims")
            return obs, state, reward + more, *ends

    (finding,) = certify(FirstPaysMore, "gymnax", properties=["pure"], seconds=LONG).failed
    assert finding.expected == "the same step from every instance"
    assert finding.seen.startswith("reward is ")
    assert finding.reproduction.endswith("print(reward)")


class PaysFirstStepsWithoutJit(foreign.Walk):
    def step(self, key, state, action, params):
        obs, new, reward, *ends = super().step(key, state, action, params)
        is_traced = isinstance(state.time, jax.core.Tracer)
        return obs, new, reward + (not is_traced and int(state.time) == 0), *ends


class SharesFirstRewards(foreign.Walk):
    def step(self, key, state, action, params):
        obs, new, reward, *ends = super().step(key, state, action, params)

        def shared(reward, time):
            return np.where(time < 1, np.mean(reward), reward).astype(np.float32)

        return obs, new, jax.pure_callback(shared, reward, reward, state.time, vmap_method="broadcast_all"), *ends


@pytest.mark.parametrize(
    ("env", "name"), [(PaysFirstStepsWithoutJit, "jit_equals_eager"), (SharesFirstRewards, "vmap_equals_single")]
)
def test_a_fault_of_first_steps_alone_is_found(env, name):
    (finding,) = certify(env, "gymnax", properties=[name], seconds=LONG).failed
    assert (finding.name, finding.step) == (name, 0)


def test_a_class_of_craftax_without_restarts_is_not_blamed_for_them():
    class EnvironmentNoAutoReset(foreign.Walk):  # the name of Craftax's base class
        pass

    names = ["restart", "ends_within_its_limit", "final_observation"]

    class Craft(EnvironmentNoAutoReset):
        def step(self, *args):
            obs, state, reward, terminated, truncated, info = super().step(*args)
            return obs, state, reward, terminated | truncated, info

    report = certify(Craft("no_restart"), "gymnax0", properties=names, seconds=LONG)
    assert [r.name for r in report.of("not applicable")] == ["restart", "final_observation"], str(report)
    assert report.ok


def test_spaces_of_gymnasium_without_bounds_or_shapes():
    gymnasium = imported("gymnasium")
    binary = gymnasium.spaces.MultiBinary([2, 3])
    values = np.ones((1, 1, 2, 3), np.int8)
    assert not list(violations(binary, values, True, "obs"))
    assert [expected for expected, *_ in violations(binary, 2 * values, True, "obs")] == [
        "obs[0, 0] at most 1, as its space says"
    ]

    class Words(gymnasium.Env):
        action_space = gymnasium.spaces.Discrete(2)
        observation_space = gymnasium.spaces.Dict(said=gymnasium.spaces.Text(5))

    [result] = certify(Words(), properties=["runs_under_jit"]).results
    assert (result.status, result.evidence) == (
        "not applicable",
        "values of the space Text have no fixed shape and dtype",
    )


@pytest.mark.parametrize("masked", [True, False])
def test_integers_of_jumanji_within_bounds_are_drawn_as_integers(masked):
    mask = jax.numpy.array([[False, True, False], [False, False, True]])
    spec = SimpleNamespace(shape=(2,), dtype=np.int16, minimum=np.int16(0), maximum=np.int16(2))
    timestep = SimpleNamespace(observation=SimpleNamespace(**({"action_mask": mask} if masked else {})))
    env = SimpleNamespace(action_spec=spec, reset=None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jax, "eval_shape", lambda reset, key: (0, timestep))
        draw = DIALECTS["jumanji"].adapt(env)["action"]
    names = {"env": env, "jax": jax, "jnp": jax.numpy, "timestep": timestep, "key_action": jax.random.PRNGKey(0)}
    exec(draw, names)
    assert names["action"].dtype.kind == "i"
    assert names["action"].tolist() == [1, 2] if masked else names["action"].shape == (2,)


def test_two_replays_on_the_host_leave_time_for_their_comparison(monkeypatch):
    class Clock:
        now = 0.0

        def perf_counter(self):
            return self.now

    class Slow:
        spec, observation_space = None, foreign.Box(0.0, 1.0, ())
        action_space = SimpleNamespace(seed=lambda seed: None, sample=lambda: 0)

        def reset(self, seed=None):
            return np.float32(0), {}

        def step(self, action):
            clock.now += 1.0
            return np.float32(0), 0.0, False, False, {}

    clock = Clock()
    monkeypatch.setattr(_trial, "time", clock)
    source = SimpleNamespace(name="Slow", make=Slow, setup=())
    trial = _trial.HostTrial(source, DIALECTS["gymnasium"], Slow(), 0, 1000.0)
    rows = [trial.replay(600).done.shape for _ in range(2)]
    assert min(rows)[0] > 10
    assert clock.now < 600


def test_restarts_are_not_judged_by_starts_that_no_key_determines():
    certificate = certify(foreign.Walk("numpy_draws_the_start"), "gymnax", properties=["pure", "restart"], seconds=LONG)
    [restart] = [r for r in certificate.results if r.name == "restart"]
    assert (restart.status, restart.evidence) == ("not run", "pure failed: starts depend on more than their keys")


def test_an_environment_that_never_ends_an_episode_passes_nothing_about_ends():
    certificate = certify(foreign.EndlessWalk(), "gymnax")
    assert [r.name for r in certificate.of("not run")] == ["restart", "final_observation"]
    assert "0 episodes ended in" in certificate.of("not run")[0].evidence
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
        joined()
    assert {r.status for r in certificate.results} <= {"not run", "not applicable"}
    assert certificate.results[0].evidence == "did not finish in 3 s, the time for a property (seconds=, --seconds)"
    assert certificate.results[1].evidence == "runs_under_jit did not pass"


@pytest.mark.parametrize(
    ("env", "api", "error", "message"),
    [
        ("gymnx:CartPole-v1", None, ValueError, "got 'gymnx:CartPole-v1', did you mean 'gymnax'"),
        ("CartPole-v1", None, ValueError, "env must be 'library:ID' or 'module:factory', got 'CartPole-v1'"),
        ("no_such_module:make", "brax", ValueError, "no_such_module:make failed to make .* No module named"),
        ("tests.testing.foreign:no_such", "brax", ValueError, "cannot import name 'no_such'"),
        (lambda: 1 / 0, "brax", ValueError, "failed to make an environment: ZeroDivisionError"),
        (foreign.Walk(), "brax", TypeError, "Walk has no observation_size, action_size, which the API 'brax' demands"),
        ((foreign.Meet(), 1), "jaxmarl", TypeError, "Meet is a tuple of 2, which the API 'jaxmarl' does not have"),
        (foreign.Deaf(), "jaxmarl", ValueError, "Deaf fails before its first reset: KeyError: 'north' .*foreign.py:"),
        (foreign.Unset(), "gymnax", ValueError, "Unset fails before its first reset: RuntimeError: no params"),
        (foreign.Unlimited(), "jaxmarl", ValueError, "Unlimited fails before its first reset: ValueError: invalid"),
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
        joined()


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
    assert found.results[-1].evidence.startswith("lock-step: 1600 steps from equal states")
    found = certify(foreign.light_mountain_car, "gymnax", against="gymnasium:MountainCar-v0", seconds=LONG)
    assert [r.name for r in found.failed] == ["matches_reference"]
    exec(found.failed[0].reproduction, {})
    _, other = capsys.readouterr().out.splitlines()
    assert other.startswith("(array(")
    assert len(found.failed[0].reproduction.splitlines()) <= 15


def test_other_references_are_compared_by_the_distributions_of_their_episodes():
    found = certify(foreign.Walk(), "gymnax", against=foreign.Walk(), seed=1, **MATCHES)
    assert found.results[-1].evidence.startswith("equivalent at level 0.05: mean length"), str(found)
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
    assert re.search(
        r"finite +failed +lane \d, step \d+: expected .* to be a number; seen nan", capsys.readouterr().out
    )
    assert cli.main([*command, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["target"], found["api"], found["exit_status"]) == ("tests.testing.foreign:nan_walk", "gymnax", 1)
    assert found["results"][1]["seen"] == "nan"
    assert "tests.testing.foreign:nan failed to make" in refusal(capsys, "certify", "tests.testing.foreign:nan")


def test_the_command_does_not_wait_for_a_factory_that_does_not_return():
    ended = python("-m", "jaxenv", "certify", "tests.testing.foreign:no_walk", "--api", "gymnax", "--seconds", "0.5")
    assert ended.returncode == 2
    assert ended.stderr == "jaxenv certify: error: the environment was not made in 0.5 s\n"


def test_the_command_counts_the_properties_that_it_checks(monkeypatch):
    def counted(*options):
        assert cli.main(["certify", "gymnax:X", *options]) == 0
        return totals.pop()

    totals: list[int] = []
    monkeypatch.setattr(command, "progress", lambda total, unit: contextlib.nullcontext(totals.append(total)))
    monkeypatch.setattr(command, "certify", lambda *args, **kwargs: Report("X", (), "gymnax"))
    assert counted() == len(PROPERTIES)
    assert counted("--against", "gymnax:Y") == len(PROPERTIES) + 1
    assert counted("--properties", "runs_under_jit", "pure") == 2
    assert counted("--properties", "matches_reference", "--against", "gymnax:Y") == 2
