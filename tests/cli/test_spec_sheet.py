"""Spec sheets as data: every id has one, shared sheets read as those of one id, and users' environments have one."""

import re

import jax.numpy as jnp
import pytest

import jaxenv
from jaxenv import specs, tree
from jaxenv.cli._spec_sheet import REGISTERED, Argument, families, family, plain, spec_sheet

ROWS = ("Observation", "Action", "Reward", "Starts", "Terminates", "Time limit")


@pytest.mark.parametrize("id", jaxenv.ids())
def test_every_id_has_a_complete_sheet(id):
    sheet = spec_sheet(id)
    assert re.fullmatch(r"[A-Z].*\.", sheet.summary)
    names = [row.name for row in sheet.rows]
    assert [name for name in names if name in ROWS] == list(ROWS)
    for row in sheet.rows:
        assert row.entries
        assert all(text and "\n" not in text for _, text in row.entries)
        assert not re.search(r"see \S+\.py|see `", row.text), row
    assert not any("tests/" in row.text for row in sheet.rows)
    assert sheet.references


@pytest.mark.parametrize("id", jaxenv.ids())
def test_every_argument_of_a_sheet_is_a_keyword_of_make_with_its_default(id):
    sheet = spec_sheet(id)
    arguments = [*sheet.params, *sheet.options]
    jaxenv.spec(id).check_keywords([argument.name for argument in arguments])
    for name, value in jaxenv.spec(id).kwargs.items():
        assert next(argument.default for argument in arguments if argument.name == name) == value


def test_a_row_has_a_head_and_continues_on_the_lines_below():
    rows = {row.name: row.entries for row in spec_sheet("FourRooms-misc").rows}
    assert rows["Observation"] == (
        ("float32[4]", "row and column of the agent, row and column of the goal, 1 to 11 from the top left"),
        ("float32[13, 13, 3]", "with use_visual_obs: walls, agent, goal, each 0 or 1"),
    )
    assert rows["Terminates"] == (("", "at the goal"),)
    assert spec_sheet("FourRooms-misc").row("Ramping") is None


def test_a_row_that_refers_to_another_sheet_is_that_row():
    door_key, lava = spec_sheet("MiniGrid-DoorKey-5x5-v0"), spec_sheet("MiniGrid-LavaGapS7-v0")
    assert lava.row("Action").text == door_key.row("Action").text + "; the last four have no effect"
    assert door_key.row("Action").entries[0][0] == "int32"
    assert spec_sheet("MaskedCartPole-v0").row("Action") == spec_sheet("CartPole-v0").row("Action")


def test_the_time_limit_is_that_of_the_id():
    limits = {id: spec_sheet(id).row("Time limit").text for id in ("CartPole-v0", "CartPole-v1", "MetaMaze-misc")}
    assert limits["CartPole-v0"] == "200 steps"
    assert limits["CartPole-v1"] == "500 steps"
    assert limits["MetaMaze-misc"] == "200 steps, a termination: the horizon is part of the task"
    assert spec_sheet("CardGame-v0").row("Time limit").text == "none; an episode has at most 21 draws"


def test_the_classes_of_one_module_have_their_own_summary_and_reward():
    value, policy = spec_sheet("ValueUnittest-v0"), spec_sheet("PolicyUnittest-v0")
    assert policy.summary == "The best action is the observed number."
    assert value.row("Reward").text.endswith("1 for any action; the observation is all ones")
    assert "ValueUnittest" not in policy.row("Reward").text


def test_references_are_labelled():
    references = dict(spec_sheet("Taxi-v4").references)
    assert references["Reference"] == "Gymnasium ``Taxi-v4`` (tests/envs/toy_text/test_taxi.py)."
    assert references["Paper"].startswith("Dietterich (2000)")


def test_tables_in_the_notes_keep_their_lines():
    assert spec_sheet("RiskyBranch-v0").notes[0].startswith("    state  action  next state")
    assert "\n" in spec_sheet("RiskyBranch-v0").notes[0]
    assert "\n" not in spec_sheet("RiskyBranch-v0").notes[1]


def test_arguments_have_unit_range_and_description():
    params = {argument.name: argument for argument in spec_sheet("CartPole-v1").params}
    assert params["length"] == Argument("length", 0.5, "m", "above 0", "half the length of the pole")
    options = {argument.name: argument for argument in spec_sheet("MiniGrid-Empty-5x5-v0").options}
    assert options["max_size"].default == 5
    assert options["see_through_walls"].description == "whether the agent sees through walls and doors"


def test_families_are_the_packages_in_the_order_of_listings():
    groups = families(jaxenv.ids())
    assert list(groups)[:2] == ["Classic control", "Toy text"]
    assert sorted(id for ids in groups.values() for id in ids) == jaxenv.ids()
    assert groups["Games"] == ["CardGame-v0", "TicTacToe-v0"]
    assert REGISTERED not in groups


class Thermostat(jaxenv.Task):
    """Keep a room warm.

    Observation   float32[1]   the ``temperature``
    Action        int32        0 waits, 1 heats

    Attributes:
        strong: whether the heater is strong.
    """

    strong: bool = tree.static(default=False)

    def initial(self, stream):
        return jnp.zeros(stream.shape)

    def transition(self, state, action, stream):
        return jaxenv.Transition(state, state, state > 1)

    def observe(self, state):
        return state[:, None]

    def observation_spec(self):
        return specs.Array((1,), jnp.float32, "observation")

    def action_spec(self):
        return specs.discrete(2, name="action")


def test_environments_of_users_have_a_sheet_and_a_family_of_their_own(empty_registry):
    jaxenv.register("Thermostat-v0", Thermostat, kwargs={"strong": True})
    sheet = spec_sheet("Thermostat-v0")
    assert sheet.summary == "Keep a room warm."
    assert plain(sheet.row("Observation").text) == "float32[1]  the temperature"
    assert sheet.options == (Argument("strong", True, description="whether the heater is strong"),)
    assert sheet.family == family("Thermostat-v0") == REGISTERED
    assert list(families(["Thermostat-v0", "CartPole-v1"])) == ["Classic control", REGISTERED]


def test_a_function_has_a_sheet(empty_registry):
    def cold(num_envs: int = 1, strong: bool = True):
        """A cold room."""
        return Thermostat(strong=strong, num_envs=num_envs)

    jaxenv.register("Cold-v0", cold)
    sheet = spec_sheet("Cold-v0")
    assert (sheet.summary, sheet.rows, sheet.options) == ("A cold room.", (), (Argument("strong", True),))


def test_an_environment_of_a_suite_has_summary_and_params():
    sheet = spec_sheet("gymnax:CartPole-v1")
    assert sheet.family == "gymnax"
    assert "CartPole" in sheet.summary
    assert sheet.params[0] == Argument("gravity", 9.800000190734863)


def test_an_unknown_id_is_refused():
    with pytest.raises(ValueError, match="did you mean 'CartPole-v1'"):
        spec_sheet("CartPole-v7")


@pytest.fixture
def empty_registry(monkeypatch):
    """A registry whose new entries disappear after the test."""
    from jaxenv.core import registry

    monkeypatch.setattr(registry, "_registry", dict(registry._registry))
    monkeypatch.setattr(registry, "listeners", [])
