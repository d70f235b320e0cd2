"""`PROPERTIES`: sound environments have them, and every check rejects a broken twin."""

import dataclasses
import functools
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import specs, tree, wrappers
from jaxenv.core.environment import Environment
from jaxenv.core.task import Task
from jaxenv.core.timestep import Transition
from jaxenv.testing import PROPERTIES, Chain, Counting, Report, check_env, random_environment
from jaxenv.testing._properties.transformations import _with_other_params
from jaxenv.testing.report import Status
from tests.ids import with_first_of_class
from tests.testing.twins import TWINS, Walk
from tests.testing.twins.values import Counted


def test_a_callback_of_a_wrapper_leaves_the_starts_of_the_task_to_be_checked(tmp_path):
    env = wrappers.RecordVideo(jaxenv.spec("CartPole-v1").make(), tmp_path)
    report = check_env(env, properties=["starts_distribution"], num_steps=16, progress=None)
    assert report["starts_distribution"].status is Status.PASSED


def test_every_property_has_a_description():
    assert all(check.__doc__.rstrip().endswith(".") for check in PROPERTIES.values())


def test_params_are_varied_within_their_ranges():
    @tree.struct
    class Params:
        lowest: float = tree.leaf(default=1.0, low=1)
        highest: float = tree.leaf(default=1.0, high=1)
        only: float = tree.leaf(default=1.0, low=1, high=1)

    class Narrow(Chain):
        params: Params = Params()

    changed = dict(_with_other_params(Narrow()))
    assert list(changed) == ["lowest", "highest"]
    assert (changed["lowest"].params.lowest > 1, changed["highest"].params.highest < 1) == (True, True)


# --- sound environments ----------------------------------------------------------------------------------------------


@functools.cache
def counting_report() -> Report:
    return check_env(Counting(np.array([1, 3, 2])))


@pytest.mark.parametrize("name", PROPERTIES)
def test_counting_has_the_property(name):
    assert counting_report()[name].status in (Status.PASSED, Status.NOT_APPLICABLE), str(counting_report()[name])


# Properties that apply to wrappers, masks, continuous actions or several agents.
SPECIAL = {
    "sharding_invariant",
    "nan_action_contained",
    "mask_leaves_an_action",
    "owned_fields_only",
    "noop_settings",
    "statistics_exact",
    "repeat_stops_at_end",
    "agents_agree",
}
RANDOM_START = {"lanes_differ", "episodes_differ", "no_word_reused", "starts_distribution"}


def test_only_properties_without_a_subject_do_not_apply_to_counting():
    assert not_applicable(counting_report()) == SPECIAL | RANDOM_START | {"nan_contained", "time_limit_exact"}


# `jaxenv check --all` checks the other environments.
def test_cart_pole_has_every_property_that_applies():
    report = check_env(jaxenv.make("CartPole-v1"), raise_on_failure=True)
    assert not_applicable(report) == SPECIAL


def test_gradients_of_a_smooth_task_are_compared_with_finite_differences():
    [result] = check_env(jaxenv.make("Pendulum-v1"), properties=["gradients_sound"], raise_on_failure=True)
    assert "equal finite differences" in result.evidence


def not_applicable(report: Report) -> set[str]:
    return {r.name for r in report if r.status is Status.NOT_APPLICABLE}


def ids_and_modes():
    """Every id in every mode; further ids of a class and modes other than ``next_step`` are left to thorough runs."""
    for id, first in with_first_of_class():
        yield pytest.param(id, "next_step", marks=() if first else pytest.mark.thorough)
        if id in ("Breakout-MinAtar", "CartPole-v1"):
            yield from ((id, "same_step"), (id, None))
        elif not id.endswith("MinAtar"):  # all games of MinAtar restart alike
            yield from (pytest.param(id, mode, marks=pytest.mark.thorough) for mode in ("same_step", None))


@pytest.mark.parametrize(("id", "autoreset"), list(ids_and_modes()))
def test_rows_of_every_environment_match_its_specs(id, autoreset):
    check_env(
        jaxenv.make(id, 2, autoreset=autoreset),
        properties=["same_tree", "leading_lanes", "rows_match_specs"],
        raise_on_failure=True,
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
    """Episodes of one step each; the state counts the pulls of each arm."""

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


class NamesItsDevice(Bandit):
    """Puts its rewards on a device by name, which compiled code ignores."""

    def transition(self, state, action, stream):
        out = super().transition(state, action, stream)
        return dataclasses.replace(out, reward=jax.device_put(out.reward, jax.devices()[0]))


class Sum(wrappers.BatchWrapper):
    """Keeps the sum of the rewards of all lanes."""

    def init(self, timestep):
        return jnp.zeros(())

    def after(self, shared, lanes, timestep, learn):
        return shared + jnp.sum(timestep.reward), lanes, timestep


def dict_spaces() -> Environment:
    observation = {"image": specs.Bounded((2, 2, 1), np.uint8, 0, 255), "nothing": specs.Array((0,), np.float32)}
    action = {"move": specs.Bounded((2,), np.float32, -1, 1), "press": specs.Bounded((3,), np.int32, 0, [1, 2, 3])}
    return random_environment(observation, action, specs.Bounded((2,), np.float32, -1, 1), 0.2)


# Properties that are cheap to check once the shared rollout is compiled.
CHEAP = [
    "same_tree",
    "leading_lanes",
    "rows_match_specs",
    "strict_promotion",
    "no_callback",
    "donation_safe",
    "lane_independent",
    "nan_contained",
    "wrong_actions_refused",
    "episodes_differ",
    "within_specs",
    "stays_finite",
    "actions_clipped",
    "nan_action_contained",
    "episode_grammar",
    "discount_zero_only_at_last",
]


def thorough(name, make):
    return pytest.param(make, id=name, marks=pytest.mark.thorough)


@pytest.mark.parametrize(
    "make",
    [
        thorough("Chain", Chain),
        pytest.param(lambda: wrappers.AutoReset(Chain()), id="AutoReset"),
        thorough("CardGame-v0", lambda: jaxenv.make("CardGame-v0")),
        thorough("Pendulum-v1", lambda: jaxenv.make("Pendulum-v1")),
        thorough("TicTacToe-v0", lambda: jaxenv.make("TicTacToe-v0")),
        thorough("dict spaces", dict_spaces),
        thorough("episodes of one step", Bandit),
        pytest.param(NamesItsDevice, id="a device by name"),
        pytest.param(lambda: wrappers.AutoReset(Walk(), "same_step", "compact"), id="AutoReset same_step"),
        thorough("FixedResetKey", lambda: wrappers.FixedResetKey(Walk(), jax.random.key(3))),
        thorough("ObservationWrapper", lambda: Shifted(Walk())),
        thorough("RewardWrapper", lambda: Doubled(wrappers.AutoReset(Walk()))),
        thorough("ActionWrapper", lambda: Swapped(Walk())),
        thorough("LaneWrapper", lambda: Tally(wrappers.AutoReset(Walk()))),
        pytest.param(lambda: Sum(wrappers.AutoReset(Walk())), id="BatchWrapper"),
    ],
)
def test_a_sound_stack_has_the_cheap_properties(make):
    check_env(make(), properties=CHEAP, raise_on_failure=True)


class Ends(Counted):
    """Its counter of 8 bits ends the episode at 9, exactly."""

    steps_dtype = jnp.int8

    def transition(self, state, action, stream):
        out = super().transition(state, action, stream)
        return dataclasses.replace(out, terminated=out.terminated | (out.state["steps"] == 9))


class Cycles(Ends):
    """Its counter of 8 bits starts again from 0 after 100 steps."""

    def transition(self, state, action, stream):
        out = Counted.transition(self, state, action, stream)
        return dataclasses.replace(out, state={**out.state, "steps": out.state["steps"] % np.int8(100)})


class Saturates(Ends):
    """Its counter of 8 bits stops at its largest value."""

    def transition(self, state, action, stream):
        out = Counted.transition(self, state, action, stream)
        steps = jnp.where(state["steps"] == 127, np.int8(127), out.state["steps"])
        return dataclasses.replace(out, state={**out.state, "steps": steps})


@pytest.mark.parametrize("make", [Ends, Cycles, Saturates])
def test_a_short_counter_that_cannot_overflow_is_sound(make):
    check_env(make(), properties=["stays_finite"], raise_on_failure=True)


# --- several devices -------------------------------------------------------------------------------------------------

_ON_FOUR_DEVICES = """
import jax
jax.config.update("jax_num_cpu_devices", 4)
from jaxenv.testing import check_env
from tests.testing.twins import Walk
from tests.testing.twins.batch import ZeroTimesSum
name = "sharding_invariant"
print(check_env(Walk(), properties=[name], raise_on_failure=True)[name].status)
print(check_env(ZeroTimesSum(), properties=[name])[name].evidence)
"""


def test_sharding_changes_nothing_and_cross_device_communication_is_a_failure():
    process = subprocess.run([sys.executable, "-c", _ON_FOUR_DEVICES], capture_output=True, text=True)
    assert process.returncode == 0, process.stderr[-3000:]
    assert process.stdout.splitlines() == ["passed", "the step on 2 devices with select contains all-reduce"]


def test_sharding_does_not_apply_to_one_device():
    result = check_env(Walk(), properties=["sharding_invariant"])["sharding_invariant"]
    assert result.status is Status.NOT_APPLICABLE
    assert "jax.config.update('jax_num_cpu_devices', 4)" in result.evidence


# --- broken twins ----------------------------------------------------------------------------------------------------


@functools.cache
def sound_passes(make, name: str) -> bool:
    return check_env(make(), properties=[name])[name].status is Status.PASSED


# Faults outside of the shared rollout, each of which has a check of its own within a property that has other twins too.
OUTSIDE = {
    "lane index of 8 bits",
    "lane index of 8 bits at the start",
    "start depends on the number of lanes",
    "compact restarts of the first block only",
    "time limit read from a clock of 16 bits",
    "step counter of 16 bits",
    "params dropped at a restart, with defaults",
    "params dropped by a wrapper when it begins",
    "state of a lane among the statistics of the batch",
    "uncounted repeat adds a reward past the end",
    "salt from the hash of a text",
    "state info of the episode that ended",
}


def one_twin_per_property():
    """Names of twins; a twin whose properties earlier twins cover is left to thorough runs, except for ``OUTSIDE``."""
    covered: set[str] = set()
    for name, twin in TWINS.items():
        redundant = covered.issuperset(twin.rejected_by) and name not in OUTSIDE
        covered |= set(twin.rejected_by)
        yield pytest.param(name, marks=pytest.mark.thorough) if redundant else name


@pytest.mark.parametrize("name", list(one_twin_per_property()))
def test_a_broken_twin_is_rejected_and_its_sound_twin_is_not(name):
    twin = TWINS[name]
    report = check_env(twin.broken(), properties=twin.rejected_by)
    assert {r.name for r in report.failed} == set(twin.rejected_by), str(report)
    assert all(sound_passes(twin.sound, property) for property in twin.rejected_by)


def test_faults_outside_of_the_rollout_are_twins():
    assert TWINS.keys() >= OUTSIDE


def test_every_property_rejects_a_twin():
    # The twin of sharding_invariant needs several devices, see above.
    assert {name for twin in TWINS.values() for name in twin.rejected_by} == set(PROPERTIES) - {"sharding_invariant"}
