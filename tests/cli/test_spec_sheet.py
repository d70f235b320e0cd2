"""Spec sheets as data: every id has one, shared sheets read as those of one id, and users' environments have one."""

import importlib
import inspect
import re

import jax.numpy as jnp
import pytest

import jaxenv
from jaxenv import specs, tree
from jaxenv.cli._spec_sheet import REGISTERED, Argument, as_written, families, family, plain, spec_sheet

ROWS = ("Observation", "Action", "Reward", "Starts", "Terminates", "Time limit")
FOUR_ROOMS = jaxenv.spec("FourRooms-misc")


def table(id):
    return next(
        paragraph for paragraph in spec_sheet(id).paragraphs if paragraph.startswith(("Observation", "Agents  "))
    )


@pytest.mark.parametrize("id", jaxenv.ids())
def test_every_id_has_a_complete_sheet(id):
    sheet = spec_sheet(id)
    assert re.fullmatch(r"[A-Z].*\.", sheet.summary)
    assert [name for name in re.findall(r"^(\w+(?: \w+)?)  ", table(id), re.MULTILINE) if name in ROWS] == list(ROWS)
    assert "tests/" not in table(id)
    assert sheet.paragraphs.index(table(id)) > 0  # references come first


@pytest.mark.parametrize("id", jaxenv.ids())
def test_every_argument_of_a_sheet_is_a_keyword_of_make_with_its_default(id):
    sheet = spec_sheet(id)
    arguments = [*sheet.params, *sheet.options]
    jaxenv.spec(id).check_keywords([argument.name for argument in arguments])
    for name, value in jaxenv.spec(id).kwargs.items():
        assert next(argument.default for argument in arguments if argument.name == name) == value


def test_a_table_is_shown_as_it_is_written():
    assert table("FourRooms-misc") in inspect.getdoc(importlib.import_module(FOUR_ROOMS.module))
    assert re.search(r"\n {14}float32\[13, 13, 3\] +with", table("FourRooms-misc"))


def test_the_tables_that_a_table_refers_to_follow():
    fetch = spec_sheet("MiniGrid-Fetch-5x5-N2-v0").paragraphs
    assert [paragraph for paragraph in fetch if paragraph.endswith(".py:")] == ["object_world.py:", "grid_world.py:"]
    assert fetch[-1].startswith("Observation   image: uint8[7, 7, 3]")
    assert table("CartPole-v0") in spec_sheet("MaskedCartPole-v0").paragraphs


def test_the_classes_of_one_module_have_their_own_summary():
    assert spec_sheet("PolicyUnittest-v0").summary == "The best action is the observed number."
    assert spec_sheet("ValueUnittest-v0").summary != spec_sheet("PolicyUnittest-v0").summary


def test_drawings_in_the_notes_keep_their_lines():
    notes = spec_sheet("RiskyBranch-v0").paragraphs
    assert [as_written(note) for note in notes[-2:]] == [True, False]
    assert notes[-2].startswith("    state  action  next state")


def test_arguments_have_unit_range_and_description():
    params = {argument.name: argument for argument in spec_sheet("CartPole-v1").params}
    assert params["length"] == Argument("length", 0.5, "m", "above 0", "half the length of the pole")
    options = {argument.name: argument for argument in spec_sheet("MiniGrid-Empty-5x5-v0").options}
    assert options["max_size"].default == 5
    assert options["see_through_walls"].description == "whether the agent sees through walls and doors"


def test_a_field_whose_default_a_level_changes_keeps_its_description():
    for id in ("MiniGrid-Empty-5x5-v0", "MiniGrid-Fetch-5x5-N2-v0"):
        options = {argument.name: argument.description for argument in spec_sheet(id).options}
        assert options["see_through_walls"] == "whether the agent sees through walls and doors"


def test_families_are_the_packages_in_the_order_of_listings():
    groups = families(jaxenv.ids())
    assert list(groups)[:2] == ["Classic control", "Toy text"]
    assert sorted(id for ids in groups.values() for id in ids) == jaxenv.ids()
    assert {"CardGame-v0", "CoinGame-v0", "TicTacToe-v0"} <= set(groups["Games"])
    assert {"ConnectFour-v0", "Othello-v0"} <= set(groups["Board games"])
    assert REGISTERED not in groups


class Thermostat(jaxenv.Task):
    """Keep a room warm.

    Observation   float32[1]   the ``temperature``
    Action        int32        0 waits, 1 heats

    Attributes:
        strong: what only readers of the source see.
    """

    strong: bool = tree.static(default=False, doc="whether the heater is strong")

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


def test_environments_of_users_have_a_sheet_and_a_family_of_their_own(without_listeners):
    jaxenv.register("Thermostat-v0", Thermostat, kwargs={"strong": True})
    sheet = spec_sheet("Thermostat-v0")
    assert sheet.summary == "Keep a room warm."
    assert plain(sheet.paragraphs[0]).splitlines()[0] == "Observation   float32[1]   the temperature"
    assert len(sheet.paragraphs) == 1
    assert sheet.options == (Argument("strong", True, description="whether the heater is strong"),)
    assert sheet.family == family("Thermostat-v0") == REGISTERED
    assert list(families(["Thermostat-v0", "CartPole-v1"])) == ["Classic control", REGISTERED]


def test_a_function_has_a_sheet(without_listeners):
    def cold(num_envs: int = 1, strong: bool = True):
        """A cold room."""
        return Thermostat(strong=strong, num_envs=num_envs)

    jaxenv.register("Cold-v0", cold)
    sheet = spec_sheet("Cold-v0")
    assert (sheet.summary, sheet.paragraphs, sheet.options) == ("A cold room.", (), (Argument("strong", True),))


def test_an_environment_of_a_suite_has_summary_and_params():
    sheet = spec_sheet("gymnax:CartPole-v1")
    assert sheet.family == "gymnax"
    assert "CartPole" in sheet.summary
    assert sheet.params[0] == Argument("gravity", 9.800000190734863)


def test_an_unknown_id_is_refused():
    with pytest.raises(ValueError, match="did you mean 'CartPole-v1'"):
        spec_sheet("CartPole-v7")


@pytest.fixture
def without_listeners(monkeypatch):
    """Nothing hears of new ids, such as Gymnasium."""
    from jaxenv.core import registry

    monkeypatch.setattr(registry, "listeners", [])
