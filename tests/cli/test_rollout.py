"""`jaxenv rollout`: the metrics it prints, how it reads ``--env``, and that wrong input is reported in one line."""

import jax
import numpy as np
import pytest

import jaxenv
from jaxenv import cli
from jaxenv.cli import _arguments, rollout
from jaxenv.cli.rollout import chunk_lengths, compiled
from jaxenv.rollout import random_policy, unroll
from tests.cli.commands import printed_json, refusal

CARDS = ["rollout", "CardGame-v0", "--num-envs", "3", "--num-steps", "20", "--seed", "5"]


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
    monkeypatch.setattr(rollout, "chunk_lengths", lambda num_steps, num_envs: [7, 7, 6])
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


def test_a_rollout_can_be_repeated_and_reuses_the_buffers_of_its_chunks(monkeypatch):
    monkeypatch.setattr(rollout, "chunk_lengths", lambda num_steps, num_envs: [60, 60, 59])
    _, play = compiled(jaxenv.make("CardGame-v0", 3), 179, jax.random.key(3))
    first = [(length, metrics) for length, _, metrics in play()]
    alive = []
    for number, (length, seconds, metrics) in enumerate(play()):
        assert (length, metrics) == first[number]
        assert seconds > 0
        alive.append(len(jax.live_arrays()))
    assert alive == sorted(alive, reverse=True)


def test_on_a_gpu_short_loops_run_as_graphs(monkeypatch):
    given, compile = [], jax.stages.Lowered.compile

    def recorded(lowered, options=None):
        given.append(options)
        return compile(lowered)

    monkeypatch.setattr(jax.stages.Lowered, "compile", recorded)
    env = jaxenv.make("CardGame-v0", 3)
    compiled(env, 7, jax.random.key(0))
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    compiled(env, 7, jax.random.key(0))
    assert given == [None, {}, None, {"xla_gpu_graph_min_graph_size": 1}]


def test_json_includes_the_arguments_of_the_run(capsys):
    printed = printed_json(capsys, *CARDS, "--reset-strategy", "compact", "--max-episode-steps", "1")
    given = {"id": "CardGame-v0", "num_envs": 3, "num_steps": 20, "seed": 5, "autoreset": "next_step"}
    assert given.items() <= printed.items()
    assert (printed["reset_strategy"], printed["params"]) == ("compact", {})
    assert (printed["max_episode_steps"], printed["length_mean"]) == (1, 1)
    assert printed["device"] == jax.devices()[0].platform


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


def test_rollout_plays_an_environment_outside_jax(capsys):
    argv = ["rollout", "gymnasium:CartPole-v1", "--num-envs", "2", "--num-steps", "30", "--max-episode-steps", "5"]
    printed = printed_json(capsys, *argv, "--env", "vectorization=sync")
    assert (printed["truncated"], printed["length_mean"]) == (10, 5)


def test_rollout_says_that_no_episode_finished():
    block = rollout.format_metrics(
        {"compile_seconds": 1.0, "run_seconds": 1.0, "steps_per_second": 3.0, "steps": 3, "episodes": 0}
        | {"terminated": 0, "truncated": 0, "return_mean": None, "return_std": None, "reward_per_step": [0.5, 2.0]},
        rows=3,
    )
    assert block.count("no episode finished") == 2
    assert "restarts" not in block
    assert block.splitlines()[-1].split() == ["reward", "per", "step", "0.5,", "2"]


def test_env_takes_numbers_flags_and_one_value_per_lane(capsys):
    argv = ["rollout", "CartPole-v1", "--num-envs", "2", "--num-steps", "12"]
    # Nothing pushes, so the first pole stays upright; the second falls at once, since a step takes very long.
    argv += ["--env", "force=0", "tau=0.02,100", "start_range=0,0.05", "--env", "sutton_barto_reward=true"]
    printed = printed_json(capsys, *argv)
    assert printed["params"] == {
        "force": 0,
        "tau": [0.02, 100],
        "start_range": [0, 0.05],
        "sutton_barto_reward": True,
    }
    assert printed["episodes"] == 6  # all in the second lane: LAST, FIRST, LAST, FIRST, ...
    assert printed["return_mean"] == -1


@pytest.mark.parametrize(
    ("text", "value"),
    [("3", 3), ("-2.5", -2.5), ("1e-3", 0.001), ("true", True), ("False", False), ("abc", "abc"), ("1,2.5", [1, 2.5])],
)
def test_values_are_parsed_as_numbers_flags_or_strings(text, value):
    name, read = _arguments.assignment(f"gravity={text}", cli.make_parser(), "--env")
    assert (name, read) == ("gravity", value)
    assert type(read) is type(value)


def test_a_dotted_name_is_a_setting_of_a_nested_config():
    given = _arguments.assignment("vision_config.nworld=8", cli.make_parser(), "--env")
    assert given == ("vision_config.nworld", 8)


def test_nan_and_infinity_become_null_in_json():
    assert rollout.finite({"a": float("nan"), "b": float("inf"), "c": 1.0}) == {"a": None, "b": None, "c": 1.0}


# --- wrong input ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["CartPole-v9"], "no environment 'CartPole-v9', did you mean 'CartPole-v1'"),
        (["atari:Pong"], "no suite and no module 'atari'"),
        (["CartPole-v1", "--num-envs", "0"], "argument --num-envs: must be an integer from 1 to"),
        (["CartPole-v1", "--num-envs", "many"], "got 'many'"),
        (["CartPole-v1", "--num-steps", "-5"], "argument --num-steps: must be an integer from 1 to"),
        (["CartPole-v1", "--seed", "-1"], "argument --seed: must be an integer from 0 to"),
        (["CartPole-v1", "--autoreset", "never"], "choose from 'next_step', 'same_step'"),
        (["CartPole-v1", "--env", "gravitas=1"], "unknown keyword 'gravitas', did you mean 'gravity'"),
        (["CartPole-v1", "--env", "mode=eval"], "mode is an option of jaxenv.make"),
        (["CartPole-v1", "--env", "num_envs=3"], "argument --env: num_envs is an option of the command: --num-envs 3"),
        (["CartPole-v1", "--env", "gravity=abc"], "gravity must be a number or an array of numbers, got 'abc'"),
        (["CartPole-v1", "--env", "position_limit=abc"], "position_limit"),
        (["CartPole-v1", "--num-envs", "2", "--env", "gravity=1,2,3"], "holds 3 lanes, the batch has 2"),
        (["CartPole-v1", "--env", "gravity"], "must be NAME=VALUE, got 'gravity'"),
        (["CartPole-v1", "--env", "gravity="], "must be NAME=VALUE, got 'gravity='"),
        (["CartPole-v1", "--env", "=1"], "must be NAME=VALUE, got '=1'"),
        (["CartPole-v1", "--num", "3"], "unrecognized arguments: --num"),
        (["CartPole-v1", "--num-env", "3"], "unrecognized arguments: --num-env 3, did you mean '--num-envs'"),
        (
            ["CartPole-v1", "--seeed=3"],
            "jaxenv rollout: error: unrecognized arguments: --seeed=3, did you mean '--seed'",
        ),
        (["CartPole-v1", "3"], "unrecognized arguments: 3"),
        (["Unheard-v4"], "no environment 'Unheard-v4', `jaxenv list` and"),
        (
            ["CartPole-v1", "--env", "autoreset=x"],
            "argument --env: autoreset is an option of the command: --autoreset x",
        ),
        ([], "the following arguments are required: ID"),
    ],
)
def test_wrong_input_to_rollout_is_reported_in_one_line_with_exit_code_2(capsys, argv, message):
    assert message in refusal(capsys, "rollout", *argv)


def test_options_of_make_are_refused_as_params_of_an_environment(capsys):
    assert "option of the command: --max-episode-steps 3" in refusal(capsys, *CARDS, "--env", "max_episode_steps=3")
    assert "wrappers is an option of jaxenv.make" in refusal(capsys, *CARDS, "--env", "wrappers=FrameStack")
