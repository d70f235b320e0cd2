"""`jaxenv show`: the text, the picture, JSON, and what is refused."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

import jaxenv
from jaxenv import cli
from jaxenv.cli import show
from tests.cli.commands import printed_json, refusal


def printed(capsys, *argv):
    assert cli.main(["show", *argv]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def test_show_prints_the_sheet_params_options_and_stack(capsys):
    out = printed(capsys, "CartPole-v1", "--env", "length=1.5")
    title, summary, *lines = out.splitlines()
    assert title.split() == ["CartPole-v1", "Classic", "control"]
    assert summary == "Balance a pole on a cart by pushing the cart left or right."
    for line in (
        "Observation   float32[4]   cart position (m), velocity (m/s), pole angle (rad), rate (rad/s)",
        "actions  left, right",
        "  length       1.5 m (default 0.5)  above 0     half the length of the pole",
        "  gravity      9.8 m/s^2",
        "  37 bytes of state per lane",
    ):
        assert line in lines
    assert [line for line in lines if line.startswith("  TimeLimit")] == ["  TimeLimit(duration=500)"]
    assert "\x1b" not in out  # piped output has no colours


@pytest.mark.parametrize(
    ("id", "learners"),
    [
        ("AMaze-13x13-v0", ["ued"]),
        ("MiniGrid-DoorKey-5x5-v0", ["ued"]),
        ("LunarLander-v3", ["ued"]),
        ("ConnectFour-v0", ["self_play", "alphazero"]),
        ("CartPole-v1", []),
        ("FrozenLake-v1", []),  # the text of its map is an option, not a level
    ],
)
def test_the_learners_for_levels_and_for_games_of_turns_are_named(capsys, id, learners):
    _, head, text = printed(capsys, id).partition("\nlearners\n")
    commands = [re.split(r"\b  +", line)[0] for line in text.splitlines()]
    assert commands == [f"  jaxenv train {id} --algo {name}" for name in learners]
    assert bool(head) == bool(learners)


def test_long_descriptions_are_indented_below_their_first_line(capsys):
    lines = printed(capsys, "Pong-misc").splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("  use_ai_policy"))
    column = lines[first].index("whether")
    assert lines[first + 1][:column].isspace()
    assert lines[first + 1][column:] == "moves"


def test_show_prints_the_picture_on_demand(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "24")
    lines = printed(capsys, "Catch-bsuite", "--picture").splitlines()
    picture = [line for line in lines if "\x1b[38;2;" in line]
    assert len(picture) == 20  # 40 pixels
    assert "▀" in picture[0]


def test_show_prints_json(capsys):
    data = printed_json(capsys, "show", "MiniGrid-Empty-5x5-v0", "--env", "success_reward=2")
    assert data["id"] == "MiniGrid-Empty-5x5-v0"
    assert data["family"] == "Grid worlds"
    assert "\nTerminates    on the goal\n" in data["text"]
    assert data["actions"][2] == "forward"
    params = {param["name"]: param for param in data["params"]}
    assert (params["success_reward"]["value"], params["success_reward"]["default"]) == (2.0, 1.0)
    assert next(option["value"] for option in data["options"] if option["name"] == "max_size") == 5
    assert data["stack"][-1]["layer"] == "MiniGrid-Empty-5x5-v0(max_size=5)"
    assert data["bytes_per_lane"] == 81


@pytest.mark.thorough
@pytest.mark.parametrize("id", ["SimpleBandit-bsuite", "Swimmer-misc", "TicTacToe-v0", "gymnax:Asterix-MinAtar"])
def test_show_describes_every_kind_of_environment(capsys, id):
    assert "bytes of state per lane" in printed(capsys, id)


def test_an_environment_of_a_suite_is_shown_without_a_sheet(capsys):
    out = printed(capsys, "gymnax:CartPole-v1")
    assert "Action       int32 0 .. 1" in out
    assert "  masscart   1" in out


def test_a_value_that_is_stored_in_float32_is_shown_as_it_was_written():
    assert show._equal(0.1, 0.1)
    assert show._number(0.20943951023931953) == "0.2094395"
    assert show._number((1.0, 0.0)) == "[1, 0]"


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["CartPole-v7"], "no environment 'CartPole-v7', did you mean 'CartPole-v1'"),
        (["CartPole-v1", "--env", "length=-1"], "CartPole-v1: length must be above 0, got -1.0"),
        (["gymnax:DeepSea-bsuite", "--picture"], "gymnax:DeepSea-bsuite has no picture"),
    ],
)
def test_wrong_input_to_show_is_reported_in_one_line_with_exit_code_2(capsys, argv, message):
    assert message in refusal(capsys, "show", *argv)


def test_an_environment_of_a_module_in_the_working_directory(tmp_path):
    register = "jaxenv.register('Hover-v0', jaxenv.testing.Chain, max_episode_steps=7)"
    (tmp_path / "hover_tasks.py").write_text(f"import jaxenv\n\n{register}\n")
    # -P: without the working directory on the path, as the command `jaxenv` starts.
    command = [sys.executable, "-P", "-m", "jaxenv", "show", "hover_tasks:Hover-v0"]
    environment = os.environ | {"PYTHONPATH": str(pathlib.Path(jaxenv.__file__).parents[1])}
    shown = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout.startswith("hover_tasks:Hover-v0")
    assert "TimeLimit(duration=7)" in shown.stdout


def test_a_picture_needs_an_encoding_that_has_it():
    argv = [sys.executable, "-m", "jaxenv", "show", "Catch-bsuite", "--picture"]
    env = {**os.environ, "PYTHONIOENCODING": "ascii"}
    found = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=120)
    assert found.returncode == 2
    assert found.stderr.endswith("--picture: stdout must have half blocks, as UTF-8, got ascii\n")
    assert found.stderr.count("\n") == 1
