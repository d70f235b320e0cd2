"""`jaxenv list`: a table, JSON or Markdown."""

import io

import numpy as np
import pytest
from rich.console import Console

import jaxenv
from jaxenv import cli
from jaxenv.cli import listing
from jaxenv.core import registry
from tests.cli.commands import printed_json, refusal


def test_list_prints_a_table_of_every_id_with_observation_action_and_limit(capsys):
    assert cli.main(["list"]) == 0
    header, *lines = capsys.readouterr().out.splitlines()
    assert header.split() == ["id", "observation", "action", "limit"]
    assert [line.split()[0] for line in lines] == jaxenv.ids()
    assert len({len(line) for line in [header, *lines]}) == 1  # aligned on both sides
    rows = {line.split()[0]: line.split()[1:] for line in lines}
    assert rows["CartPole-v1"] == ["float32[4]", "int32", "0", "..", "1", "500"]
    assert rows["Pendulum-v1"] == ["float32[3]", "float32[1]", "-2", "..", "2", "200"]
    assert rows["CardGame-v0"][-1] == "none"


def test_list_prints_a_json_array(capsys):
    rows = {row["id"]: row for row in printed_json(capsys, "list")}
    assert list(rows) == jaxenv.ids()
    assert rows["CartPole-v1"]["max_episode_steps"] == 500
    assert rows["CartPole-v1"]["reward_threshold"] == 475.0
    assert rows["CardGame-v0"]["max_episode_steps"] is None


def test_list_shows_the_bytes_of_a_lane_in_markdown(capsys):
    assert cli.main(["list", "--bytes", "--markdown"]) == 0
    header, rule, *lines = capsys.readouterr().out.splitlines()
    assert [cell.strip() for cell in header.strip("|").split("|")] == ["id", "observation", "action", "limit", "bytes"]
    assert rule == "| --- | --- | --- | ---: | ---: |"
    # 4 bytes each: four numbers, two key words, lane, episode and step. One byte: whether the episode has ended.
    assert "| `CartPole-v1` | float32[4] | int32 0 .. 1 | 500 | 37 |" in lines


def test_a_tree_of_specs_is_shown_leaf_by_leaf():
    spec = {"camera": jaxenv.specs.Bounded((84, 84, 3), np.uint8, 0, 255), "speed": jaxenv.specs.Array((), np.float32)}
    assert listing.spec_text(spec) == "{camera: uint8[84, 84, 3] 0 .. 255, speed: float32}"
    assert listing.spec_text((jaxenv.specs.discrete(3),)) == "{int32 0 .. 2}"


def test_list_shows_no_bytes_for_an_environment_whose_library_is_missing(capsys, monkeypatch, no_digits):
    monkeypatch.setattr(registry, "ids", lambda: ["CardGame-v0", "MNISTBandit-bsuite"])
    assert printed_json(capsys, "list", "--bytes")[1]["bytes"] is None
    assert cli.main(["list", "--bytes"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].endswith(" -")


# --- families and words -----------------------------------------------------------------------------------------------


@pytest.fixture
def some_ids(monkeypatch):
    ids = (
        "BouncingSquares",
        "CartPole",
        "FourRooms-misc",
        "Maze",
        "MiniGrid-Empty-5x5",
        "MountainCarCont",
        "Pendulum",
        "Seaquest",
        "Taxi",
    )
    every = jaxenv.ids()
    monkeypatch.setattr(registry, "ids", lambda: [id for id in every if id.startswith(tuple(ids))])


def listed(capsys, *words):
    assert cli.main(["list", *words]) == 0
    return [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]]


def test_words_choose_by_id_family_summary_and_kind(capsys, some_ids):
    assert listed(capsys, "grid") == ["Maze-13x13-v0", "MiniGrid-Empty-5x5-v0"]  # Maze: by its family
    assert listed(capsys, "submarine") == ["Seaquest-MinAtar"]
    assert listed(capsys, "CONTINUOUS", "classic") == ["MountainCarContinuous-v0", "Pendulum-v1"]
    assert listed(capsys, "image", "probes") == ["BouncingSquares-v0"]
    assert "CartPole-v1" not in listed(capsys, "image")
    assert "FourRooms-misc" not in listed(capsys, "continuous")


def test_words_that_match_nothing_are_refused_with_close_ones(capsys, some_ids):
    assert "no environment matches 'pendulom', did you mean 'Pendulum-v1'" in refusal(capsys, "list", "pendulom")
    assert "one suite or module at a time, got bsuite: navix:" in refusal(capsys, "list", "bsuite:", "navix:")
    assert "did you mean 'Toy text'" in refusal(capsys, "list", "Toytext")
    assert "'grid' matches 2, 'continuous' matches 2" in refusal(capsys, "list", "grid", "continuous")
    assert "no suite and no module 'gymnx' on Python's path; " in refusal(capsys, "list", "gymnx:")


def test_json_has_family_and_summary(capsys, some_ids):
    (row,) = printed_json(capsys, "list", "submarine")
    assert row == {
        "id": "Seaquest-MinAtar",
        "observation": "bool[10, 10, 10]",
        "action": "int32 0 .. 5",
        "max_episode_steps": None,
        "reward_threshold": None,
        "family": "MinAtar",
        "summary": "Steer a submarine, shoot fish and enemy submarines, rescue divers, and surface before the oxygen "
        "runs out.",
    }


def test_a_suite_is_listed_by_its_prefix(capsys):
    (row,) = printed_json(capsys, "list", "gymnax:pole")
    assert (row["id"], row["family"], row["action"]) == ("gymnax:CartPole-v1", "gymnax", "int32 0 .. 1")
    assert (row["observation"], row["max_episode_steps"]) == (None, 500)


def test_a_suite_is_listed_in_words_and_an_unknown_one_refused(capsys):
    (row,) = printed_json(capsys, "list", "gymnax:", "cartpole")
    assert row["id"] == "gymnax:CartPole-v1"
    assert "have no prefix, did you mean 'gymnax'" in refusal(capsys, "list", "gymnx:")


@pytest.fixture
def entries(monkeypatch):
    monkeypatch.setattr(registry, "ids", lambda: ["CartPole-v1", "MiniGrid-Empty-Random-5x5-v0", "Pendulum-v1"])
    return [entry | {"bytes": 37} for entry in listing._matching_entries(None, [])]


def grouped(entries, columns, with_bytes=True):
    """The lines of a terminal."""
    console = Console(file=io.StringIO(), width=columns)
    console.print(listing.grouped(entries, listing._table(entries, with_bytes), columns))
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


@pytest.mark.parametrize("columns", [60, 80, 100, 140, 250])
def test_a_terminal_shows_families_in_lines_that_fit(entries, columns):
    lines = grouped(entries, columns)
    assert max(map(len, lines)) <= columns
    first = [line.split("  ")[0].strip() or line.split()[0] for line in lines if line]
    assert first == [
        "id",
        "Classic control",
        "CartPole-v1",
        "Pendulum-v1",
        "Grid worlds",
        "MiniGrid-Empty-Random-5x5-v0",
    ]


def test_wide_terminals_show_summaries(entries):
    assert not any("pole" in line for line in grouped(entries, 70))
    assert any("Balance a pole on" in line for line in grouped(entries, 110))
    assert any(line.endswith("with a torque too weak to lift it in one swing.") for line in grouped(entries, 200))


def test_specs_give_way_to_the_numbers_in_narrow_terminals(entries):
    lines = grouped(entries, 66)
    assert next(line.split()[-2:] for line in lines if "CartPole-v1" in line) == ["500", "37"]
    assert any("{i" in line and "…" in line for line in lines)


def test_the_environments_of_a_module_are_listed_by_its_name(capsys):
    assert [row["id"] for row in printed_json(capsys, "list", "jaxenv.envs.toy_text:Lake")] == [
        "FrozenLake-v1",
        "FrozenLake8x8-v1",
    ]


def test_the_environments_of_a_module_of_the_user_have_its_prefix(capsys, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    text = "import jaxenv\n\n\nclass Lawn(jaxenv.testing.Chain):\n    pass\n\n\njaxenv.register('Lawn-v0', Lawn)\n"
    (tmp_path / "garden.py").write_text(text)
    (row,) = printed_json(capsys, "list", "garden:")
    assert row["id"] == "garden:Lawn-v0"
    assert cli.main(["show", row["id"]]) == 0
