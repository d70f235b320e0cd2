"""Suggestions for names that were not found, and the table of other libraries' names."""

import dataclasses
import importlib
import importlib.util
import pathlib
import re
import tomllib
import warnings

import jax
import pytest

import jaxenv
from jaxenv._util.names import closest, did_you_mean, meaning, table, unknown_keyword
from jaxenv.core.registry import SUITES
from jaxenv.training import dqn, ppo, sac
from jaxenv.wrappers.stack._make import OPTIONS
from jaxenv.wrappers.stack._wrapper_data import _known as wrappers

LIBRARIES = {library: names for library, names in table().items() if library != "ids"}
USES = sorted(
    {
        (name, use)
        for names in LIBRARIES.values()
        for name, uses in names.items()
        for use in ([uses] if isinstance(uses, str) else uses)
        if not use.startswith("- ")
    }
)


@pytest.mark.parametrize(
    ("name", "known", "found"),
    [
        ("cartpole", ["Taxi-v4", "CartPole-v1"], ["CartPole-v1"]),
        ("CartPole-v9", ["Taxi-v9", "CartPole-v1", "CartPole-v0"], ["CartPole-v1", "CartPole-v0"]),
        ("max_steps", ["mode", "max_episode_steps"], ["max_episode_steps"]),
        ("steps", ["mode", "max_episode_steps"], ["max_episode_steps"]),
        ("Ant-v4", ["Taxi-v4", "Pendulum-v4"], []),
        ("ant", ["AsymmAdvantages", "brax:ant"], ["brax:ant"]),
        ("tic_tac_toe", ["Hex", "TicTacToe-v0"], ["TicTacToe-v0"]),
        ("n", ["num", "name"], []),
        ("", ["num", "name"], []),
    ],
)
def test_the_closest_names_ignore_case_and_version_and_leave_out_distant_ones(name, known, found):
    assert closest(name, known) == found


def test_at_most_three_names_are_suggested():
    assert did_you_mean("length", [f"length_{x}" for x in "abcd"]).count("'length_") == 3


def test_without_a_close_name_the_hint_is_the_alternative():
    assert did_you_mean("x", ["length"], otherwise="see the list") == "see the list"


def test_the_message_about_a_keyword_leaves_out_empty_groups():
    message = unknown_keyword("A", "x", {"params": [], "arguments": ["length"]})
    assert message == "A: unknown keyword 'x'; arguments: length"


def test_a_keyword_of_another_library_is_explained_where_what_takes_its_place_exists():
    assert "'agent_num', use jaxenv.make(..., num_agents=...);" in unknown_keyword(
        "A", "agent_num", {"a": ["num_agents"]}
    )
    assert unknown_keyword("A", "agent_num", {"a": ["width"]}) == "A: unknown keyword 'agent_num'; a: width"


# --- the table -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def owners():
    env = jaxenv.make("CartPole-v1")
    return {
        "env": env,
        "timestep": env.reset(jax.random.key(0))[1],
        "spec": jaxenv.specs.Bounded((), int, 0, 1),
        "random": jaxenv.random,
        "jaxenv": jaxenv,
    }


@pytest.mark.parametrize(("name", "use"), USES)
def test_what_takes_the_place_of_a_name_exists(owners, name, use):
    for first, path in re.findall(r"(?<![\w.])(env|timestep|spec|random|jaxenv)((?:\.\w+)+)", use):
        found = owners[first]
        for part in path[1:].split(".")[:2] if first != "jaxenv" else path[1:].split("."):
            try:
                found = getattr(found, part)
            except AttributeError:
                found = importlib.import_module(f"{found.__name__}.{part}")
            if first != "jaxenv":
                break
    if keyword := re.match(r"jaxenv\.make\(\.\.\., (\w+)=", use):
        assert keyword[1] in [*OPTIONS, "num_envs", "num_agents"]
    for setting in re.findall(r"Config\((\w+)=", use):
        assert any(setting in [f.name for f in dataclasses.fields(x.Config)] for x in (ppo, dqn, sac)), setting
    if argument := re.match(r"([A-Z]\w+)\(env, (\w+)=", use):
        assert argument[2] in [f.name for f in dataclasses.fields(wrappers[argument[1]])]


def test_a_name_without_a_counterpart_has_one_reason_and_no_other_meaning():
    reasons = [
        (name, uses) for names in LIBRARIES.values() for name, uses in names.items() if str(uses).startswith("- ")
    ]
    assert len(reasons) > 30
    assert not {name for name, _ in reasons} & {name for name, _ in USES}


@pytest.mark.parametrize("names", LIBRARIES.values(), ids=LIBRARIES)
def test_every_row_is_found_by_its_name(names):
    for name, uses in names.items():
        for use in [uses] if isinstance(uses, str) else uses:
            text = use[2:] if use.startswith("- ") else f"use {use}"
            assert meaning(name, f"^{re.escape(text)}$") == text


def test_the_wrappers_of_other_libraries_in_the_documentation_lead_to_ours():
    page = (pathlib.Path(__file__).parents[2] / "docs" / "wrappers.md").read_text()
    found: dict[str, set[str]] = {}
    for here, row in re.findall(r"^\| ([A-Z]\w+) \|(.*)\|$", page, re.MULTILINE):
        for theirs in re.findall(r"(?<![\w`'])([A-Z][a-z]+[A-Z]\w*)", row.split("|")[1]):
            if here in wrappers and theirs not in wrappers and theirs not in ("SuperSuit", "JaxMARL"):
                found.setdefault(theirs, set()).add(here)
    assert len(found) > 40
    words = {name: re.findall(r"\w+", " ".join(use for x, use in USES if x == name)) for name in found}
    assert not [name for name in found if found[name].isdisjoint(words[name])]


MIGRATION = sorted((pathlib.Path(__file__).parents[2] / "docs" / "migrate").glob("*.md"))
PAGE_OF = {
    "ALF": "alf", "TF-Agents": "tf-agents", "DI-engine": "di-engine", "Gym": "gym-wrappers", "JaxMARL": "jaxmarl",
    "jaxued": "jaxued",
}  # fmt: skip


@pytest.mark.parametrize("page", MIGRATION, ids=lambda page: page.stem)
def test_the_names_of_jaxenv_in_a_migration_page_exist(page):
    for name in sorted(set(re.findall(r"`[^`\n]*?\b(jaxenv(?:\.\w+)+)", page.read_text()))):
        assert _found(jaxenv, name.split(".")[1:]) is not None


@pytest.mark.parametrize("library", PAGE_OF)
def test_a_migration_page_has_the_names_of_its_library(library):
    rows = re.findall(r"^\| (.*?) \|", (MIGRATION[0].parent / f"{PAGE_OF[library]}.md").read_text(), re.MULTILINE)
    shown = {name for row in rows for name in re.findall(r"`([\w-]+)`", row)}
    assert shown >= LIBRARIES[library].keys()


def _found(found, parts):
    for part in parts:
        try:
            found = getattr(found, part)
        except AttributeError:
            found = importlib.import_module(f"{found.__name__}.{part}")
    return found


@pytest.mark.parametrize("suite", [*SUITES])
def test_the_ids_of_a_suite_are_those_that_it_has(suite):
    listed = table()["ids"][suite]
    assert len(listed) == len(set(listed))
    assert not set(listed) & set(jaxenv.ids())
    try:
        with warnings.catch_warnings(action="ignore"):  # of other libraries when they are imported
            known = importlib.import_module(SUITES[suite]).ids()
    except ImportError:
        pytest.skip(f"{suite} is not installed")
    assert set(listed) <= set(known)
    others = set(known) - set(listed) - set(jaxenv.ids())
    assert suite in ("bsuite", "envpool", "gymnasium") or others <= {"fast"}  # Brax's environment for tests


def test_the_table_is_read_once(monkeypatch):
    table.cache_clear()
    read, loads = [], tomllib.loads
    monkeypatch.setattr(tomllib, "loads", lambda text: read.append(text) or loads(text))
    env = jaxenv.make("CartPole-v1", 2)
    assert not hasattr(env, "obs")
    assert not hasattr(env, "reward_range")
    assert len(read) == 1


@pytest.mark.parametrize(
    ("name", "use"),
    [
        ("RewardWrapper", "jaxenv.wrappers.RewardWrapper"),
        ("FrameStack", "jaxenv.wrappers.FrameStack"),
        ("AlfEnvironment", "jaxenv.Environment"),
        ("ArraySpec", "jaxenv.specs.Array"),
        ("batchify", "jaxenv.wrappers.AgentsAsLanes"),
    ],
)
def test_a_name_that_is_elsewhere_in_the_package_is_answered_with_its_place(name, use):
    with pytest.raises(AttributeError, match=f"^module 'jaxenv' has no attribute '{name}': use {use}"):
        getattr(jaxenv, name)
    with pytest.raises(AttributeError, match=r"^module 'jaxenv' has no attribute 'low'$"):
        jaxenv.low


def test_a_reason_stands_in_place_of_a_name():
    assert meaning("TFPyEnvironment") == "use an environment of jaxenv as it is: its steps are compiled"
    with pytest.raises(AttributeError, match=r"'shared_memory': lanes are rows of one array, so no process has to"):
        jaxenv.make("CartPole-v1").shared_memory
