"""The command line: what it prints, and that wrong input is reported in one line with exit code 2."""

import importlib
import json
import os
import subprocess
import sys

import jax
import numpy as np
import pytest

import jaxenv
from jaxenv import cli
from jaxenv.cli import _arguments, listing, rollout
from jaxenv.envs.bsuite import digits
from jaxenv.rollout import chunked_rollout, random_policy, unroll
from jaxenv.rollout._progress import progress
from jaxenv.rollout.chunked_rollout import chunk_lengths

CARDS = ["rollout", "CardGame-v0", "--num-envs", "3", "--num-steps", "20", "--seed", "5"]


def printed_json(capsys, *argv):
    """The JSON value that a command prints."""
    assert cli.main([*argv, "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return json.loads(out)


def refusal(capsys, *argv):
    """The line that a command with wrong input prints."""
    assert cli.main(argv) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.endswith("\n")
    assert err.count("\n") == 1
    return err


def python(*argv, **kwargs):
    return subprocess.run([sys.executable, *argv], stderr=subprocess.PIPE, text=True, timeout=120, **kwargs)


# --- list ------------------------------------------------------------------------------------------------------------


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


# --- rollout ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
def test_rollout_prints_the_metrics_of_the_stored_rows_of_the_same_rollout(capsys, mode):
    printed = printed_json(capsys, *CARDS, "--autoreset", mode)
    env = jaxenv.make("CardGame-v0", 3, autoreset=mode)
    rows = jax.jit(lambda key: unroll(env, random_policy(env), *env.reset(key), 21)[1].timestep)(jax.random.key(5))
    step_type, reward = np.asarray(rows.step_type)[1:], np.asarray(rows.reward)[1:]
    returns, lengths = [], []
    for lane in range(3):
        ends = np.flatnonzero(step_type[:, lane] == 2)
        for start, end in zip([0, *ends[:-1] + 1], ends + 1, strict=False):
            steps = step_type[start:end, lane] != 0
            returns.append(reward[start:end, lane][steps].sum())
            lengths.append(steps.sum())
    assert printed["steps"] == np.sum(step_type != 0) == (60 if mode == "same_step" else 60 - np.sum(step_type == 0))
    assert printed["episodes"] == printed["terminated"] == len(returns) > 3
    assert printed["truncated"] == 0
    for name, values in (("return", returns), ("length", lengths)):
        assert printed[f"{name}_mean"] == pytest.approx(np.mean(values, dtype=np.float64))
        assert printed[f"{name}_std"] == pytest.approx(np.std(values, dtype=np.float64))


def test_metrics_do_not_depend_on_how_the_rollout_is_cut_into_chunks(capsys, monkeypatch):
    whole = printed_json(capsys, *CARDS)
    monkeypatch.setattr(chunked_rollout, "chunk_lengths", lambda num_steps, num_envs, chunk_steps: [7, 7, 6])
    parts = printed_json(capsys, *CARDS)
    timing = {name for name in whole if "second" in name}
    assert timing == {"compile_seconds", "run_seconds", "steps_per_second"}
    for name in whole.keys() - timing:
        rounded = isinstance(whole[name], float)
        assert parts[name] == (pytest.approx(whole[name], rel=1e-6) if rounded else whole[name]), name


@pytest.mark.parametrize(("steps", "lanes"), [(1000, 4096), (997, 4096), (10_007, 1), (1, 1), (10**6, 10**6)])
def test_chunks_add_up_and_have_at_most_two_lengths(steps, lanes):
    chunks = chunk_lengths(steps, lanes)
    assert sum(chunks) == steps
    assert len(set(chunks[:-1])) <= 1
    assert len(set(chunks)) == 1 or steps in (997, 10_007)
    assert len(chunks) <= 1 + steps // 50


def test_json_includes_the_arguments_of_the_run(capsys):
    printed = printed_json(capsys, *CARDS, "--reset", "compact")
    given = {"id": "CardGame-v0", "num_envs": 3, "num_steps": 20, "seed": 5, "autoreset": "next_step"}
    assert given.items() <= printed.items()
    assert (printed["reset"], printed["params"], printed["device"]) == ("compact", {}, jax.devices()[0].platform)


def test_rollout_prints_aligned_text_and_a_time_limit_counts_as_truncation(capsys):
    argv = ["rollout", "MountainCar-v0", "--num-envs", "4", "--num-steps", "202"]
    assert cli.main(argv) == 0
    out, err = capsys.readouterr()
    assert err == ""
    title, *lines = out.splitlines()
    assert title.startswith("MountainCar-v0, 4 lanes x 202 steps on ")
    block = {line[:21].strip(): line[21:] for line in lines}
    assert all(line[20] == " " != line[21] for line in lines)
    assert block["environment steps"] == "804 (and 4 restarts)"
    assert (block["episodes finished"], block["by termination"], block["by truncation"]) == ("4", "0", "4")
    assert block["mean return"] == "-200.00, standard deviation 0.00"
    assert block["mean length"] == "200.00, standard deviation 0.00"


def test_rollout_says_that_no_episode_finished():
    block = rollout.format_metrics(
        {"compile_seconds": 1.0, "run_seconds": 1.0, "steps_per_second": 3.0, "steps": 3, "episodes": 0}
        | {"terminated": 0, "truncated": 0, "return_mean": None, "return_std": None, "reward_per_step": [0.5, 2.0]},
        rows=3,
    )
    assert block.count("no episode finished") == 2
    assert "restarts" not in block
    assert block.splitlines()[-1].split() == ["reward", "per", "step", "0.5,", "2"]


def test_set_takes_numbers_flags_and_one_value_per_lane(capsys):
    argv = ["rollout", "CartPole-v1", "--num-envs", "2", "--num-steps", "12"]
    # The first pole starts upright, is never pushed and never falls; the second starts out of bounds and falls at once.
    argv += ["--set", "force=0", "start_range=0,20", "--set", "sutton_barto_reward=true"]
    printed = printed_json(capsys, *argv)
    assert printed["params"] == {"force": 0, "start_range": [0, 20], "sutton_barto_reward": True}
    assert printed["episodes"] == 6  # all in the second lane: LAST, FIRST, LAST, FIRST, ...
    assert printed["return_mean"] == -1


@pytest.mark.parametrize(
    ("text", "value"),
    [("3", 3), ("-2.5", -2.5), ("1e-3", 0.001), ("true", True), ("false", False), ("abc", "abc"), ("1,2.5", [1, 2.5])],
)
def test_values_are_parsed_as_numbers_flags_or_strings(text, value):
    name, read = _arguments.assignment(f"gravity={text}", cli.make_parser())
    assert (name, read) == ("gravity", value)
    assert type(read) is type(value)


def test_nan_and_infinity_become_null_in_json():
    assert rollout.finite({"a": float("nan"), "b": float("inf"), "c": 1.0}) == {"a": None, "b": None, "c": 1.0}


# --- the progress bar ------------------------------------------------------------------------------------------------


def test_progress_is_shown_on_a_terminal_only(capsys, monkeypatch):
    with progress(2) as advance:
        advance(2)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with progress(2) as advance:
        advance(2)
    out, err = capsys.readouterr()
    assert out == ""
    assert err != ""


def test_progress_shows_nothing_without_rich(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setitem(sys.modules, "rich.progress", None)
    with progress(2) as advance:
        advance(2)
    assert capsys.readouterr() == ("", "")


# --- missing libraries -----------------------------------------------------------------------------------------------


@pytest.fixture
def no_digits(monkeypatch):
    """A machine without scikit-learn."""
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    digits.load.cache_clear()


@pytest.mark.parametrize("argv", [["rollout", "MNISTBandit-bsuite"], ["check", "MNISTBandit-bsuite"]])
def test_a_missing_library_is_reported_in_one_line_with_exit_code_2(capsys, no_digits, argv):
    assert "pip install jaxenv[mnist]" in refusal(capsys, *argv)


def test_list_shows_no_bytes_for_an_environment_whose_library_is_missing(capsys, monkeypatch, no_digits):
    monkeypatch.setattr(jaxenv, "ids", lambda: ["CardGame-v0", "MNISTBandit-bsuite"])
    assert printed_json(capsys, "list", "--bytes")[1]["bytes"] is None
    assert cli.main(["list", "--bytes"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].endswith(" -")


# --- wrong input -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["CartPole-v9"], "no environment 'CartPole-v9'; the closest ids are CartPole-v1"),
        (["atari:Pong"], "no suite 'atari'"),
        (["CartPole-v1", "--num-envs", "0"], "argument --num-envs: must be an integer from 1 to"),
        (["CartPole-v1", "--num-envs", "many"], "got 'many'"),
        (["CartPole-v1", "--num-steps", "-5"], "argument --num-steps: must be an integer from 1 to"),
        (["CartPole-v1", "--seed", "-1"], "argument --seed: must be an integer from 0 to"),
        (["CartPole-v1", "--autoreset", "never"], "choose from 'next_step', 'same_step'"),
        (["CartPole-v1", "--set", "gravitas=1"], "unknown keyword 'gravitas', the valid ones are"),
        (["CartPole-v1", "--set", "mode=eval"], "unknown keyword 'mode', the valid ones are"),
        (["CartPole-v1", "--set", "num_envs=3"], "num_envs is not a parameter"),
        (["CartPole-v1", "--set", "gravity=abc"], "gravity must be a number or an array of numbers, got 'abc'"),
        (["CartPole-v1", "--set", "position_limit=abc"], "position_limit"),
        (["CartPole-v1", "--num-envs", "2", "--set", "gravity=1,2,3"], "one per lane would be num_envs = 2"),
        (["CartPole-v1", "--set", "gravity"], "must be NAME=VALUE, got 'gravity'"),
        (["CartPole-v1", "--set", "gravity="], "must be NAME=VALUE, got 'gravity='"),
        (["CartPole-v1", "--set", "=1"], "must be NAME=VALUE, got '=1'"),
        (["CartPole-v1", "--num", "3"], "unrecognized arguments: --num"),
        ([], "the following arguments are required: ID"),
    ],
)
def test_wrong_input_to_rollout_is_reported_in_one_line_with_exit_code_2(capsys, argv, message):
    assert message in refusal(capsys, "rollout", *argv)


@pytest.mark.parametrize(("argv", "message"), [([], "required: COMMAND"), (["fly"], "invalid choice: 'fly'")])
def test_a_missing_or_unknown_command_is_refused(capsys, argv, message):
    assert message in refusal(capsys, *argv)


# --- bench -----------------------------------------------------------------------------------------------------------


def test_bench_passes_its_arguments_to_the_benchmarks(capsys):
    assert cli.main(["bench", "--help"]) == 0
    assert "python -m benchmarks PART [options]" in capsys.readouterr().out
    assert "no part 'fly'; the parts are throughput" in refusal(capsys, "bench", "fly", "--json", "a.json")
    assert "argument --num-envs: must be a whole number" in refusal(capsys, "bench", "limit", "--num-envs", "-3")


def test_bench_returns_the_status_of_the_part(monkeypatch):
    benchmarks = importlib.import_module("benchmarks.__main__")
    monkeypatch.setattr(benchmarks, "main", lambda arguments: 1 if arguments == ["compare", "a", "b"] else 0)
    assert cli.main(["bench", "compare", "a", "b"]) == 1


def test_bench_outside_a_clone_is_refused(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(jaxenv, "__file__", str(tmp_path / "jaxenv" / "__init__.py"))
    assert "run this in a clone" in refusal(capsys, "bench", "limit")


# --- help ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("argv", [[], ["list"], ["rollout"], ["check"]])
def test_every_command_has_a_help(capsys, argv):
    assert cli.main([*argv, "--help"]) == 0
    assert capsys.readouterr().out.startswith(" ".join(["usage: jaxenv", *argv]))


def test_help_shows_the_defaults(capsys):
    cli.main(["rollout", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    for default in ("lanes (default: 1024)", "lane (default: 1000)", "numbers (default: 0)", "(default: next_step)"):
        assert default in text
    assert "default: None" not in text
    assert "default: False" not in text
    assert "default: []" not in text


def test_version_prints_the_version_of_the_library(capsys):
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"jaxenv {jaxenv.__version__}\n"


# --- as a process ----------------------------------------------------------------------------------------------------


def test_ctrl_c_ends_a_call_with_130_and_no_output(capsys, monkeypatch):
    def interrupt(args):
        raise KeyboardInterrupt

    monkeypatch.setattr(listing, "run", interrupt)
    assert cli.main(["list"]) == 130
    assert capsys.readouterr() == ("", "")


def test_ctrl_c_ends_the_process_with_130_even_if_python_code_would_swallow_it():
    code = """
import os, signal, sys, jaxenv.cli
def swallow(args):
    try:
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:
        pass
jaxenv.cli.listing.run = swallow
sys.argv = ["jaxenv", "list"]
sys.exit(jaxenv.cli.main())
"""
    done = python("-c", code)
    assert (done.returncode, done.stderr) == (130, "")


def test_importing_the_command_line_starts_no_backend():
    code = "import jaxenv.cli, jax._src.xla_bridge as bridge; assert not bridge.backends_are_initialized()"
    assert python("-c", code).returncode == 0


def test_the_package_runs_as_a_module():
    done = python("-m", "jaxenv", "list", stdout=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (0, "")
    assert "CartPole-v1" in done.stdout


def test_the_process_ends_with_code_2_and_no_traceback():
    done = python("-m", "jaxenv", "rollout", "CartPole-v9")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr


def test_a_closed_pipe_causes_no_traceback():
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = python("-m", "jaxenv", "list", stdout=writer)
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


# --- check -----------------------------------------------------------------------------------------------------------


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

    monkeypatch.setattr(jaxenv, "load", lambda id: LosesItsLanes(name=id))
    assert cli.main(["check", "Lost-v0", "--properties", "same_tree", "leading_lanes"]) == 1
    out, _ = capsys.readouterr()
    assert "<Lost-v0>: 0 passed, 1 failed, 1 not applicable" in out
    assert "RuntimeError: lost" in out


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
    assert report["results"][1] == {
        "name": "mask_leaves_an_action",
        "number": 40,
        "title": "an action mask leaves a legal action",
        "status": "not applicable",
        "evidence": "env_info has no action_mask",
    }


def test_check_prints_a_row_per_environment_and_per_property(capsys):
    assert cli.main(["check", "CardGame-v0", "--properties", "same_tree", "mask_leaves_an_action", "--markdown"]) == 0
    environments, properties = capsys.readouterr().out.strip().split("\n\n")
    row = environments.splitlines()[2].strip("| ").split(" | ")
    assert row[:5] == ["`<AutoReset<CardGame-v0>>`", "1", "-", "mask_leaves_an_action", "-"]
    assert [line.split(" | ")[:2] for line in properties.splitlines()[2:]] == [
        ["| `same_tree`", "1"],
        ["| `mask_leaves_an_action`", "40"],
    ]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "one ID is required, or --all"),
        (["CardGame-v0", "--all"], "one ID is required, or --all"),
        (["CardGame-v9"], "no environment 'CardGame-v9'"),
        (
            ["CardGame-v0", "--properties", "lane_independence"],
            "unknown property 'lane_independence', did you mean lane_independent",
        ),
        (["CardGame-v0", "--properties", "56"], "unknown property '56', the properties are same_tree, leading_lanes, "),
        (["CardGame-v0", "--json", "--markdown"], "not allowed with"),
    ],
)
def test_wrong_input_to_check_is_reported_in_one_line_with_exit_code_2(capsys, argv, message):
    assert message in refusal(capsys, "check", *argv)
