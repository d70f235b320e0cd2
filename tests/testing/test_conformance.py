"""The conformance kit: sound environments pass, and every check rejects a broken twin."""

import functools
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import specs, tree, wrappers
from jaxenv.environment import Environment
from jaxenv.task import Task, Transition
from jaxenv.testing import (
    ALLOWED_OPT_OUTS,
    PROPERTIES,
    Chain,
    Counting,
    Report,
    check_env,
    check_wrapper,
    random_environment,
)
from jaxenv.testing.report import Result, Status
from jaxenv.wrapper import layers
from tests.testing.twins import TWINS, PaysAndEnds, Walk
from tests.wrappers.catalogue import WRAPPERS

# --- sound environments ----------------------------------------------------------------------------------------------


@functools.cache
def counting_report() -> Report:
    return check_env(Counting(np.array([1, 3, 2])))


@pytest.mark.parametrize("name", PROPERTIES)
def test_a_counting_toy_has_the_property(name):
    counting_report()[name].raise_if_failed()


def test_no_property_falls_silent_that_applies_to_a_counting_toy():
    assert silent(counting_report()) == {
        "sharding_invariant",
        "nan_contained",
        "lanes_differ",
        "episodes_differ",
        "no_word_reused",
        "starts_distribution",
        "nan_action_contained",
        "mask_leaves_an_action",
        "time_limit_exact",
        "owned_fields_only",
        "autoreset_commutes",
        "noop_settings",
        "statistics_exact",
        "repeat_stops_at_end",
    }


# The others are gone through by `jaxenv check --all`.
def test_cart_pole_has_every_property_that_applies():
    report = check_env(jaxenv.make("CartPole-v1"), raise_on_failure=True)
    assert silent(report) == {
        "sharding_invariant",
        "nan_action_contained",
        "mask_leaves_an_action",
        "owned_fields_only",
        "autoreset_commutes",
        "noop_settings",
        "statistics_exact",
        "repeat_stops_at_end",
    }


# MinAtar's games share what restarts do with Breakout.
@pytest.mark.parametrize(
    ("id", "autoreset"),
    [
        (id, mode)
        for id in jaxenv.ids()
        for mode in ("next_step", "same_step", None)
        if mode == "next_step" or id == "Breakout-MinAtar" or not id.endswith("MinAtar")
    ],
)
def test_every_environment_has_the_shapes_that_it_says(id, autoreset):
    check_env(
        jaxenv.make(id, 2, autoreset=autoreset),
        properties=["same_tree", "leading_lanes", "rows_match_specs"],
        raise_on_failure=True,
    )


def silent(report: Report) -> set[str]:
    return {r.name for r in report if r.status is Status.NOT_APPLICABLE}


# Those that cost little once the shared rollout is compiled.
CHEAP = (
    "same_tree",
    "leading_lanes",
    "rows_match_specs",
    "strict_promotion",
    "cond_compatible",
    "loop_compatible",
    "no_callback",
    "donation_safe",
    "lane_independent",
    "nan_contained",
    "wrong_actions_refused",
    "reproducible",
    "episodes_differ",
    "within_specs",
    "stays_finite",
    "actions_clipped",
    "nan_action_contained",
    "episode_grammar",
    "discount_zero_only_at_last",
    "both_ends_on_one_step",
)


class Shifted(wrappers.ObservationWrapper):
    def observation(self, observation):
        return observation + 1


class Doubled(wrappers.RewardWrapper):
    def reward(self, reward):
        return 2 * reward


class Swapped(wrappers.ActionWrapper):
    def action(self, action):
        return 1 - action


class Tally(wrappers.LaneWrapper):
    """Adds the number of rows since FIRST to env_info."""

    owns = frozenset({"env_info"})

    def init(self, timestep, stream):
        return jnp.zeros_like(timestep.step_type)

    def after(self, own, timestep, stream):
        return own + 1, tree.set_field(timestep, "env_info", {**timestep.env_info, "rows": own})


class Bandit(Task):
    """Episodes of one step each; counts how often each arm was pulled."""

    def initial(self, stream):
        return jnp.zeros((*stream.shape, 3), jnp.int32)

    def carry(self, old, new):
        return old

    def transition(self, state, action, stream):
        pulls = state.at[jnp.arange(len(state)), action].add(1)
        return Transition(pulls, action.astype(jnp.float32), jnp.ones_like(action, bool))

    def observe(self, state):
        return state > 5

    def observation_spec(self):
        return specs.Array((3,), bool, "observation")

    def action_spec(self):
        return specs.discrete(3, name="action")


class Mean(wrappers.BatchWrapper):
    """Carries the sum of all rewards."""

    def init(self, timestep):
        return jnp.zeros(())

    def after(self, shared, lanes, timestep, learn):
        return shared + jnp.sum(timestep.reward), lanes, timestep


def _spaces() -> Environment:
    observation = {"image": specs.Bounded((2, 2, 1), np.uint8, 0, 255), "nothing": specs.Array((0,), np.float32)}
    action = {"move": specs.Bounded((2,), np.float32, -1, 1), "press": specs.Bounded((3,), np.int32, 0, [1, 2, 3])}
    return random_environment(observation, action, specs.Bounded((2,), np.float32, -1, 1), 0.2)


ENVIRONMENTS = {
    "Chain": Chain,
    "AutoReset": lambda: wrappers.AutoReset(Chain()),
    "CardGame-v0": lambda: jaxenv.make("CardGame-v0"),
    "Pendulum-v1": lambda: jaxenv.make("Pendulum-v1"),
    "TicTacToe-v0": lambda: jaxenv.make("TicTacToe-v0"),
    "dict spaces": _spaces,
    "episodes of one step": Bandit,
    "AutoReset same_step": lambda: wrappers.AutoReset(Walk(), "same_step", "compact"),
    "FixedResetKey": lambda: wrappers.FixedResetKey(Walk(), jax.random.key(3)),
    "ObservationWrapper": lambda: Shifted(Walk()),
    "RewardWrapper": lambda: Doubled(wrappers.AutoReset(Walk())),
    "ActionWrapper": lambda: Swapped(Walk()),
    "LaneWrapper": lambda: Tally(wrappers.AutoReset(Walk())),
    "BatchWrapper": lambda: Mean(wrappers.AutoReset(Walk())),
}


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_a_sound_stack_passes(name):
    check_env(ENVIRONMENTS[name](), properties=CHEAP, raise_on_failure=True)


# Shapes for all, and streams for those that carry something; all 55 properties of every wrapper are gone through by
# `python -m tests.wrappers.catalogue`.
OF_WRAPPERS = (
    "same_tree",
    "leading_lanes",
    "rows_match_specs",
    "strict_promotion",
    "cond_compatible",
    "wrong_actions_refused",
)
OF_WRAPPERS_WITH_STATE = (
    "lane_independent",
    "within_specs",
    "episode_grammar",
    "discount_zero_only_at_last",
    "restart_is_reset",
)


@pytest.mark.parametrize("name", WRAPPERS)
def test_a_wrapper_keeps_its_promises(name):
    entry = WRAPPERS[name]
    env = entry.env()
    added = layers(entry.wrapper(env))[: -len(layers(env))]
    stateless = all(type(layer).inner is jaxenv.Wrapper.inner and not layer.multi_step for layer in added)
    properties = OF_WRAPPERS if stateless else OF_WRAPPERS + OF_WRAPPERS_WITH_STATE
    check_wrapper(entry.wrapper, env, properties=properties, raise_on_failure=True)


STANDARD = [
    ("ActionRepeat", {"num": 2}),
    ("StickyAction", {"probability": 0.25}),
    ("FrameStack", {"num": 3}),
    "EpisodeStatistics",
    "NormalizeObservation",
    "NormalizeReward",
]


@pytest.mark.parametrize("id", ["CartPole-v1", "Pendulum-v1"])
def test_a_stack_of_many_wrappers_around_a_real_environment_passes(id):
    properties = (
        "same_tree",
        "leading_lanes",
        "rows_match_specs",
        "wrong_actions_refused",
        "within_specs",
        "episode_grammar",
        "discount_zero_only_at_last",
        "restart_is_reset",
    )
    check_env(jaxenv.make(id, wrappers=STANDARD), properties=properties, raise_on_failure=True)


def test_no_wrapper_is_left_out():
    kinds = ("Action", "Observation", "LeafObservation", "Reward", "RowReward", "Lane", "Batch")
    bases = {f"{kind}Wrapper" for kind in kinds}
    known = {name for name, x in vars(wrappers).items() if isinstance(x, type) and issubclass(x, jaxenv.Wrapper)}
    checked = {type(layer).__name__ for e in WRAPPERS.values() for layer in layers(e.wrapper(e.env()))}
    assert known - bases - checked == {"AutoReset", "FixedResetKey"}  # among the environments above


# --- wrappers --------------------------------------------------------------------------------------------------------


def test_a_wrapper_is_checked_around_all_toys_that_it_fits():
    report = check_wrapper(
        lambda env: wrappers.RescaleAction(env, 0, 1),
        properties=["same_tree", "rows_match_specs", "mask_leaves_an_action"],
    )
    assert report.target == "RescaleAction around <RandomEnvironment>"
    assert [r.status for r in report] == [Status.PASSED, Status.PASSED, Status.NOT_APPLICABLE]
    everywhere = check_wrapper(lambda env: wrappers.TimeLimit(env, 5), properties=["same_tree"])
    assert everywhere.target.count(",") == 3


def test_a_failure_around_one_environment_is_one_and_names_it():
    report = check_wrapper(
        lambda env: Doubled(env) if isinstance(env, Chain) else PaysAndEnds(env),
        Chain(),
        Walk(),
        properties=["owned_fields_only"],
    )
    assert report["owned_fields_only"].evidence.startswith("around <Walk>: ")
    assert "discount" in report["owned_fields_only"].evidence
    with pytest.raises(AssertionError, match="PaysAndEnds around <Walk>: 0 passed, 1 failed"):
        check_wrapper(PaysAndEnds, Walk(), properties=["owned_fields_only"], raise_on_failure=True)


def test_a_wrapper_that_fits_nowhere_is_refused_with_its_own_words():
    def fussy(env):
        raise ValueError(f"fussy: not around {env}")

    with pytest.raises(ValueError, match=r"refuses all toy environments.*fussy: not around <Counting>"):
        check_wrapper(fussy)


# --- opt-outs --------------------------------------------------------------------------------------------------------


class OptsOut(Walk):
    opt_outs = {"gradients_sound": "its reward is drawn from a table", "episode_grammar": "it begins as it likes"}


def test_what_is_declared_not_to_hold_is_listed_with_its_reason_and_counted():
    report = check_env(OptsOut(), properties=["same_tree", "gradients_sound"])
    assert report["gradients_sound"].status is Status.OPTED_OUT
    assert report["gradients_sound"].evidence == "OptsOut: its reward is drawn from a table"
    assert str(report).startswith("<OptsOut>: 1 passed, 0 failed, 0 not applicable, 1 opted out")
    assert report.ok


def test_nobody_may_opt_out_of_the_contract():
    assert "episode_grammar" not in ALLOWED_OPT_OUTS
    assert check_env(OptsOut(), properties=["episode_grammar"])["episode_grammar"].evidence.startswith(
        "no class may opt out of it: OptsOut: it begins"
    )


def test_allowed_opt_outs_are_properties_with_reasons():
    assert ALLOWED_OPT_OUTS.keys() <= PROPERTIES.keys()
    assert all(ALLOWED_OPT_OUTS.values())


# --- several devices -------------------------------------------------------------------------------------------------

_ON_FOUR_DEVICES = """
import jax
jax.config.update("jax_num_cpu_devices", 4)
from jaxenv.testing import check_env
from tests.testing.twins import SumOfNothing, Walk
print(check_env(Walk(), properties=["sharding_invariant"], raise_on_failure=True)["sharding_invariant"].status)
print(check_env(SumOfNothing(), properties=["sharding_invariant"])["sharding_invariant"].evidence)
"""


def test_lanes_are_spread_over_simulated_devices_and_a_word_between_them_is_a_fault():
    done = subprocess.run([sys.executable, "-c", _ON_FOUR_DEVICES], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines() == ["passed", "the step of 2 devices by select holds all-reduce"]


def test_on_one_device_it_is_not_applicable_and_says_what_to_do():
    result = check_env(Walk(), properties=["sharding_invariant"])["sharding_invariant"]
    assert result.status is Status.NOT_APPLICABLE
    assert "jax.config.update('jax_num_cpu_devices', 4)" in result.evidence


# --- broken twins ----------------------------------------------------------------------------------------------------


@functools.cache
def sound_passes(make, name: str) -> bool:
    return check_env(make(), properties=[name])[name].status is Status.PASSED


def one_for_each_property():
    """Names of twins; those that break nothing but what one before them breaks are left to thorough runs."""
    seen: set[str] = set()
    for name, twin in TWINS.items():
        again = seen.issuperset(twin.rejected_by)
        seen |= set(twin.rejected_by)
        yield pytest.param(name, marks=pytest.mark.thorough) if again else name


@pytest.mark.parametrize("name", list(one_for_each_property()))
def test_a_broken_twin_is_rejected_and_its_sound_one_is_not(name):
    twin = TWINS[name]
    report = check_env(twin.broken(), properties=twin.rejected_by)
    assert [r.name for r in report.failed] == list(twin.rejected_by), str(report)
    assert all(sound_passes(twin.sound, property) for property in twin.rejected_by)


def test_every_property_rejects_some_twin():
    # The twin of sharding_invariant needs several devices: above.
    assert {name for twin in TWINS.values() for name in twin.rejected_by} == set(PROPERTIES) - {"sharding_invariant"}


def test_a_batch_mean_passes_permutation_and_fails_independence():
    report = check_env(TWINS["batch mean leaking"].broken(), properties=["permutation_equivariant", "lane_independent"])
    assert [r.status for r in report] == [Status.PASSED, Status.FAILED]


# --- the report ------------------------------------------------------------------------------------------------------


def test_evidence_names_field_step_lane_and_both_values():
    report = check_env(TWINS["terminal reward lost"].broken(), properties=["boundary_keeps_step"])
    assert report["boundary_keeps_step"].evidence.startswith(
        "reward without AutoReset and in next_step at step 1, lane 0: "
    )
    assert report["boundary_keeps_step"].evidence.endswith(" and 0.0")


def test_the_report_is_a_table():
    results = (
        Result("short", 1, "a title", Status.PASSED),
        Result("a_longer_name", 20, "another title", Status.FAILED, "at step 3, lane 1: " + "0.25 and 0.5 " * 12),
        Result("masks", 40, "a third title", Status.NOT_APPLICABLE, "no mask"),
    )
    report = Report("<Toy>", results)
    title, first, *long, last = str(report).splitlines()
    assert title == "<Toy>: 1 passed, 1 failed, 1 not applicable"
    assert first == "  short           1  passed"
    assert last == "  masks          40  not applicable  no mask"
    assert len(long) > 1
    assert {len(line) - len(line.lstrip()) for line in long[1:]} == {long[0].index("at step 3")}
    assert (report.ok, report.failed, report["masks"]) == (False, results[1:2], results[2])
    with pytest.raises(AssertionError, match=r"1 failed.*\n  a_longer_name  20  failed"):
        report.raise_if_failed()
    with pytest.raises(AssertionError, match=r"a_longer_name \(another title\): at step 3, lane 1"):
        results[1].raise_if_failed()
    with pytest.raises(KeyError, match="no property 'shorter', it has short, a_longer_name, masks"):
        report["shorter"]


def test_failure_of_the_ground_spares_the_rest():
    report = check_env(TWINS["weak types"].broken())
    assert [r.name for r in report.failed] == ["same_tree"]
    assert {r.evidence for r in report if r.number > 1} >= {"not checked: same_tree failed"}
    assert len(report.results) == len(PROPERTIES)


def test_an_exception_is_evidence_and_no_crash():
    class Crashes(Walk):
        def initial(self, stream):
            raise RuntimeError("out of order")

    report = check_env(Crashes(), properties=["same_tree", "wrong_actions_refused"])
    assert report["same_tree"].evidence == "RuntimeError: out of order"
    with pytest.raises(AssertionError, match="out of order"):
        check_env(Crashes(), properties=["same_tree"], raise_on_failure=True)


def test_progress_is_told_every_result():
    seen = []
    report = check_env(Chain(), properties=["wrong_actions_refused", "same_tree"], progress=seen.append)
    assert tuple(seen) == report.results
    assert [r.name for r in seen] == ["same_tree", "wrong_actions_refused"]


def test_every_property_has_a_number_a_title_and_a_description():
    assert all(p.description.endswith(".") and p.title for p in PROPERTIES.values())
    assert [p.number for p in PROPERTIES.values()] == list(range(1, 56))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"properties": ["lane_independence"]}, "'lane_independence', did you mean lane_independent"),
        ({"properties": [56]}, "unknown property 56, the properties are same_tree, leading_lanes"),
        ({"properties": "same_tree"}, "must be a sequence of names, got the string 'same_tree'"),
        ({"num_steps": 3}, "at least 16, got 3"),
    ],
)
def test_wrong_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        check_env(Chain(), **arguments)
