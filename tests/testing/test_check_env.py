"""`check_env`: arguments, opt-outs, failures and progress. `test_properties` covers the properties."""

import os
import re
import subprocess
import sys
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenv import random, specs, tree
from jaxenv.core.task import Task
from jaxenv.core.timestep import Transition
from jaxenv.testing import ALLOWED_OPT_OUTS, PROPERTIES, Chain, _elsewhere, check_env
from jaxenv.testing._elsewhere import THREADS
from jaxenv.testing.report import Status
from tests.testing.twins import TWINS, Walk
from tests.testing.twins.structure import LocalState
from tests.testing.twins.walk import Paying

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


def test_only_environments_of_the_host_may_opt_out_of_repeated_steps():
    class Unrepeatable(Walk):
        opt_outs = {"step_repeatable": "its state lives elsewhere"}

    class OnHost(Unrepeatable):
        opt_outs = {**Unrepeatable.opt_outs, "no_callback": "every step is a callback"}

    refused, allowed = (
        check_env(cls(), properties=["step_repeatable"])["step_repeatable"] for cls in (Unrepeatable, OnHost)
    )
    assert refused.status is Status.FAILED
    assert refused.evidence.startswith("only a class that opts out of no_callback may opt out of it: Unrepeatable: its")
    assert allowed.status is Status.OPTED_OUT


def test_a_task_whose_levels_fix_a_part_of_the_start_may_say_so():
    class Partly(Walk):
        opt_outs = {"restart_is_reset": "a level fixes the maze, not the start in it"}

    assert check_env(Partly(), properties=["restart_is_reset"])["restart_is_reset"].status is Status.OPTED_OUT


def test_allowed_opt_outs_are_properties():
    assert PROPERTIES.keys() > ALLOWED_OPT_OUTS


# --- rounding --------------------------------------------------------------------------------------------------------


def test_floats_are_compared_with_the_rounding_that_the_task_states():
    class Coarse(Paying):
        """Its compiled rewards differ from the eager ones, as those of a solver that has not converged."""

        def extra(self, x, action):
            return jnp.full_like(x, 5e-4 * isinstance(x, jax.core.Tracer))

    class Stated(Coarse):
        rounding = 1e-3

    unstated, stated = (
        check_env(cls(), properties=["jit_equals_eager"])["jit_equals_eager"] for cls in (Coarse, Stated)
    )
    assert unstated.status is Status.FAILED
    assert stated.status is Status.PASSED


# --- failures --------------------------------------------------------------------------------------------------------


def test_evidence_names_the_field_the_step_the_lane_and_both_values():
    report = check_env(TWINS["terminal reward lost"].broken(), properties=["boundary_keeps_step"])
    evidence = report["boundary_keeps_step"].evidence
    assert evidence.startswith("reward at step 1, lane 0 is ")
    assert evidence.endswith(" without AutoReset and 0.0 in next_step mode")


def test_without_a_prerequisite_no_other_property_is_checked():
    report = check_env(TWINS["weakly typed reward"].broken())
    assert [r.name for r in report.failed] == ["same_tree"]
    others = list(report)[1:]
    assert {(r.status, r.evidence) for r in others} == {(Status.NOT_RUN, "not checked: same_tree failed")}
    assert len(report.results) == len(PROPERTIES)


def test_an_exception_of_the_environment_is_evidence():
    class Crashes(Walk):
        def initial(self, stream):
            raise RuntimeError("out of order")

    report = check_env(Crashes(), properties=["same_tree", "wrong_actions_refused"])
    line = rf"{re.escape(os.path.relpath(__file__))}:\d+, in initial"
    assert re.fullmatch(rf"RuntimeError: out of order \(raised at {line}\)", report["same_tree"].evidence)
    with pytest.raises(AssertionError, match="out of order"):
        check_env(Crashes(), properties=["same_tree"], raise_on_failure=True)


def test_both_draws_of_the_same_words_are_named_by_the_lines_of_the_author():
    class DrawsTwice(Walk):
        def initial(self, stream):
            random.uniform(stream)
            return super().initial(stream)

    evidence = check_env(DrawsTwice(), properties=["no_word_reused"])["no_word_reused"].evidence
    here, walk = (re.escape(os.path.relpath(file)) for file in (__file__, sys.modules[Walk.__module__].__file__))
    draws = rf"lane 0, episode 0, step 0, {here}:\d+, in initial; lane 0, episode 0, step 0, {walk}:\d+, in initial"
    assert re.search(draws + r"; a second draw needs random\.fold_in\(stream, 'name'\)$", evidence)


def test_the_second_use_of_a_key_is_named_by_the_line_of_the_author():
    evidence = check_env(TWINS["one key for two draws"].broken(), properties=["no_word_reused"])[
        "no_word_reused"
    ].evidence
    assert re.search(r"KeyReuseError: .*\(raised at \S*randomness\.py:\d+, in transition\)$", evidence, re.DOTALL)


def test_a_stream_given_to_jax_random_is_explained_in_the_evidence():
    class DrawsWithJax(Walk):
        def initial(self, stream):
            jax.random.uniform(stream)

    evidence = check_env(DrawsWithJax(), properties=["same_tree"])["same_tree"].evidence
    assert re.search(r"TypeError: jax\.random takes JAX keys, not a Stream: .*jax_keys\(stream\) \(raised at", evidence)
    assert "JAX_TRACEBACK_FILTERING" not in evidence


def test_the_line_of_a_wrong_broadcast_is_named_by_the_checks_of_types_too():
    class Mixed(Walk):
        def transition(self, state, action, stream):
            return super().transition(state, action + 0.5 * state.x, stream)

    report = check_env(Mixed(), properties=["strict_promotion", "x64_invariant"])
    assert re.search(r"TypePromotionError.*test_check_env.py:\d+, in transition", report["strict_promotion"].evidence)


def test_failures_are_printed_first_and_causes_before_consequences():
    properties = ["same_tree", "gradients_sound", "lane_independent"]
    report = check_env(TWINS["reward depends on the batch mean"].broken(), properties=properties)
    assert [r.name for r in report.failed] == ["lane_independent", "gradients_sound"]
    assert [r.name for r in report] == properties
    assert str(report).splitlines()[1].startswith("  lane_independent  failed")
    with pytest.raises(AssertionError, match=r"1 passed, 2 failed.*\n  lane_independent"):
        report.raise_if_failed()


@tree.struct
class Scale:
    scale: float = 2.0
    other: float = 1.0


class Vectors(Task):
    """Its state is a vector per lane, which a number per lane does not multiply."""

    params: Scale = Scale()

    def initial(self, stream):
        return jnp.zeros((*stream.shape, 3)) + tree.expand(self.params.other, 2)

    def transition(self, state, action, stream):
        moved = jnp.clip(state + self.params.scale * state, -9, 9)
        return Transition(moved, jnp.sum(moved, axis=1), moved[:, 0] > 8)

    def observe(self, state):
        return state

    def observation_spec(self):
        return specs.Bounded((3,), np.float32, -9, 9, "observation")

    def action_spec(self):
        return specs.discrete(2, name="action")


class ExpandedVectors(Vectors):
    def transition(self, state, action, stream):
        changed = tree.rebuild(self.params, scale=tree.expand(self.params.scale, state.ndim))
        return Vectors.transition(tree.rebuild(self, params=changed), state, action, stream)


def test_a_param_that_breaks_per_lane_is_named_with_the_line_and_the_idiom():
    properties = ["scalar_equals_per_lane", "restart_is_reset"]
    report = check_env(Vectors(), properties=properties)
    assert [r.name for r in report.failed] == ["scalar_equals_per_lane"]
    evidence = report["scalar_equals_per_lane"].evidence
    assert evidence.startswith("scale with one value per lane raises ")
    assert re.search(r"test_check_env.py:\d+, in transition", evidence)
    assert evidence.endswith("write tree.expand(scale, x.ndim)")
    assert check_env(ExpandedVectors(), properties=properties).ok


# --- a bound on time -------------------------------------------------------------------------------------------------


class Hangs(Walk):
    """Waits in ``initial`` until a test has ended."""

    def initial(self, stream):
        ENDED.wait()
        return super().initial(stream)


ENDED = threading.Event()


def test_a_property_that_takes_too_long_is_not_run_and_not_passed_and_three_of_them_end_the_check():
    properties = ["same_tree", "leading_lanes", "episode_grammar", "within_specs", "no_callback"]
    report = check_env(Hangs(), properties=properties, max_seconds=0.05)
    ENDED.set()
    for thread in threading.enumerate():  # the command would end this process for one that is left
        if thread.name == THREADS:
            thread.join()
    assert [r.name for r in report] == [name for name in PROPERTIES if name in properties]
    assert {r.status for r in report} == {Status.NOT_RUN}
    slow, rest = "it takes longer than 0.05 s (max_seconds=, --max-seconds)", "3 other properties ran out of time"
    assert {r.name: r.evidence for r in report} == {
        **dict.fromkeys(["same_tree", "leading_lanes", "no_callback"], slow),
        **dict.fromkeys(["episode_grammar", "within_specs"], rest),
    }
    assert (report.ok, report.failed) == (False, ())
    with pytest.raises(AssertionError, match="0 passed, 0 failed, 0 not applicable, 5 not run\n  same_tree"):
        report.raise_if_failed()


def test_properties_that_end_in_time_have_the_same_results():
    properties = ["same_tree", "wrong_actions_refused", "episode_grammar"]
    timed = check_env(Walk(), properties=properties, max_seconds=10_000)
    assert timed == check_env(Walk(), properties=properties)
    failed = check_env(TWINS["reward at FIRST"].broken(), properties=["episode_grammar"], max_seconds=10_000)
    assert failed["episode_grammar"].status is Status.FAILED


def test_properties_that_compile_nothing_are_checked_first():
    seen = []
    report = check_env(Walk(), properties=["same_tree", "x64_invariant", "no_callback"], progress=seen.append)
    assert [r.name for r in seen] == ["same_tree", "no_callback", "x64_invariant"]
    assert [r.name for r in report] == ["same_tree", "x64_invariant", "no_callback"]


# --- another process -------------------------------------------------------------------------------------------------


def test_an_environment_of_a_function_is_compared_in_this_process_only_and_its_state_is_not_pickled():
    class Local(Walk):
        pass

    report = check_env(Local(), properties=["reproducible"])
    assert report["reproducible"].status is Status.PASSED
    assert report["reproducible"].evidence.startswith("in this process only: ")
    assert "<locals>.Local" in report["reproducible"].evidence


def test_a_state_whose_class_is_local_to_a_function_makes_pickling_not_applicable():
    result = check_env(LocalState(), properties=["state_round_trip"])["state_round_trip"]
    assert result.status is Status.NOT_APPLICABLE
    assert result.evidence.startswith("the class of the state is defined inside a function: ")


_NOTEBOOK = """
from tests.testing.twins import Walk
from jaxenv.testing import check_env
class Mine(Walk):
    pass
for result in check_env(Mine(), properties=["reproducible", "light_import"]):
    print(result.status, result.evidence, sep="; ")
"""


def test_an_environment_of_a_script_or_notebook_is_compared_in_its_process_only():
    done = subprocess.run([sys.executable, "-"], input=_NOTEBOOK, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "not applicable; the environment is defined in a script or notebook",
        "passed; in this process only: the environment is defined in a script or notebook",
    ]


def test_another_process_that_takes_too_long_is_reported(monkeypatch):
    monkeypatch.setattr(_elsewhere, "_TIMEOUT", 0.01)
    evidence = check_env(Walk(), properties=["reproducible"])["reproducible"].evidence
    assert evidence == "in this process only: another process took longer than 0.01 s to import and trace it"


# --- arguments -------------------------------------------------------------------------------------------------------


def test_progress_receives_every_result_in_the_order_of_the_table():
    seen = []
    report = check_env(Chain(), properties=["wrong_actions_refused", "same_tree"], progress=seen.append)
    assert tuple(seen) == report.results
    assert [r.name for r in seen] == ["same_tree", "wrong_actions_refused"]


def test_a_line_per_property_is_printed_on_stderr_as_it_ends(capsys):
    check_env(Chain(), properties=["leading_lanes", "same_tree"])
    out, err = capsys.readouterr()
    assert out == ""
    assert [line.split() for line in err.splitlines()] == [
        ["same_tree", "passed"],
        ["leading_lanes", "passed"],
    ]
    check_env(Chain(), properties=["leading_lanes"], progress=None)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"properties": ["lane_independence"]}, r"'lane_independence'.*'lane_independent'"),
        ({"properties": [56]}, "unknown property 56, the properties are same_tree, leading_lanes"),
        ({"properties": "same_tree"}, r"must be a.* 'same_tree'"),
        ({"num_steps": 3}, "at least 16, got 3"),
        ({"max_seconds": -1}, r"check_env: max_seconds .*got -1"),
    ],
)
def test_invalid_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        check_env(Chain(), **arguments)


# --- arguments -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("env", "got"),
    [(Walk, "the class Walk: call it"), ("CartPole-v1", r"'CartPole-v1': pass jaxenv\.make\('CartPole-v1'\)")],
)
def test_what_is_no_environment_is_refused_and_not_reported_as_a_failure(env, got):
    with pytest.raises(ValueError, match=rf"^check_env: env .*got {got}$"):
        check_env(env, properties=["same_tree"])
