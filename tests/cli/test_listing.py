"""`jaxenv list`: a table, JSON or Markdown."""

import numpy as np

import jaxenv
from jaxenv import cli
from jaxenv.cli import listing
from tests.cli.commands import printed_json


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
    monkeypatch.setattr(jaxenv, "ids", lambda: ["CardGame-v0", "MNISTBandit-bsuite"])
    assert printed_json(capsys, "list", "--bytes")[1]["bytes"] is None
    assert cli.main(["list", "--bytes"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].endswith(" -")
