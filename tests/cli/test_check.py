"""`jaxenv check`: a table of properties, JSON or Markdown, and the exit code."""

import json
import subprocess
import sys

import pytest

import jaxenv
from jaxenv import cli
from tests.cli.commands import refusal


def test_check_prints_a_table_of_properties(capsys):
    assert (
        cli.main(
            ["check", "CardGame-v0", "--properties", "same_tree", "wrong_actions_refused", "mask_leaves_an_action"]
        )
        == 0
    )
    out, err = capsys.readouterr()
    assert err == ""
    title, *rows = out.splitlines()
    assert title == "<AutoReset<CardGame-v0>>: 2 passed, 0 failed, 1 not applicable"
    assert [row.split()[0] for row in rows] == ["same_tree", "wrong_actions_refused", "mask_leaves_an_action"]
    assert rows[-1].endswith("env_info has no action_mask")


def test_a_failed_check_is_exit_code_1(capsys, monkeypatch):
    class LosesItsLanes(jaxenv.testing.Chain):
        def transition(self, state, action, stream):
            raise RuntimeError("lost")

    monkeypatch.setattr(jaxenv, "make", lambda id: LosesItsLanes(name=id))
    assert cli.main(["check", "Lost-v0", "--properties", "same_tree", "leading_lanes"]) == 1
    out, _ = capsys.readouterr()
    assert "<Lost-v0>: 0 passed, 1 failed, 0 not applicable, 1 not run" in out
    assert "RuntimeError: lost" in out


_HANGS = """
import threading
import jaxenv
from jaxenv.cli import check, main
class Hangs(jaxenv.testing.Chain):
    def initial(self, stream):
        threading.Event().wait()
jaxenv.register("Hangs-v0", Hangs)
check._require_libraries = lambda *args: None  # traces a reset
main(["check", "Hangs-v0", "--properties", "same_tree", "within_specs", "--max-seconds", "0.1"])
"""


def test_an_environment_that_hangs_is_not_run_and_exit_code_3():
    done = subprocess.run([sys.executable, "-c", _HANGS], capture_output=True, text=True, timeout=600)
    assert done.returncode == 3, done.stderr
    title, *rows = done.stdout.splitlines()
    assert title == "<AutoReset<Hangs-v0>>: 0 passed, 0 failed, 0 not applicable, 2 not run"
    reason = "not run it takes longer than 0.1 s (max_seconds=, --max-seconds)"
    assert [row.split()[1:] for row in rows] == [reason.split()] * 2


def test_check_all_takes_every_environment(capsys, monkeypatch):
    monkeypatch.setattr(jaxenv, "ids", lambda: ["CardGame-v0", "Catch-bsuite", "TicTacToe-v0"])
    assert cli.main(["check", "--all", "--properties", "same_tree"]) == 0
    out = capsys.readouterr().out
    assert out.count("1 passed, 0 failed, 0 not applicable") == 3


def test_check_prints_json(capsys):
    assert cli.main(["check", "CardGame-v0", "--properties", "same_tree", "mask_leaves_an_action", "--json"]) == 0
    (report,) = json.loads(capsys.readouterr().out)
    assert report["target"] == "<AutoReset<CardGame-v0>>"
    assert report["seconds"] >= 0
    seconds = report["results"][1].pop("seconds")
    assert 0 <= seconds <= report["seconds"] + 0.01
    assert report["results"][1] == {
        "name": "mask_leaves_an_action",
        "status": "not applicable",
        "evidence": "env_info has no action_mask",
    }


def test_check_prints_a_row_per_environment_and_per_property(capsys):
    assert cli.main(["check", "CardGame-v0", "--properties", "same_tree", "mask_leaves_an_action", "--markdown"]) == 0
    environments, properties = capsys.readouterr().out.strip().split("\n\n")
    row = environments.splitlines()[2].strip("| ").split(" | ")
    assert row[:5] == ["`<AutoReset<CardGame-v0>>`", "1", "-", "mask_leaves_an_action", "-"]
    assert [line.split(" | ")[0] for line in properties.splitlines()[2:]] == [
        "| `same_tree`",
        "| `mask_leaves_an_action`",
    ]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "one ID is required, or --all"),
        (["CardGame-v0", "--all"], "one ID is required, or --all"),
        (["CardGame-v9"], "no environment 'CardGame-v9'"),
        (
            ["CardGame-v0", "--properties", "lane_independence"],
            "unknown property 'lane_independence', did you mean 'lane_independent'",
        ),
        (["CardGame-v0", "--properties", "56"], "unknown property '56', the properties are same_tree, leading_lanes, "),
        (["CardGame-v0", "--json", "--markdown"], "not allowed with"),
    ],
)
def test_wrong_input_to_check_is_reported_in_one_line_with_exit_code_2(capsys, argv, message):
    assert message in refusal(capsys, "check", *argv)
