"""`jaxenv train`: learner, settings and preset, what is reported, signals, and that wrong input is one line."""

import contextlib
import csv
import errno
import pathlib
import re
import signal
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import cli, rollout, tree
from jaxenv.cli import train
from jaxenv.testing import Counting
from jaxenv.training import ppo, presets, seeds
from tests.cli.commands import printed_json, refusal
from tests.rollout.test_writers import points
from tests.training import drift

pytestmark = pytest.mark.usefixtures("drifting")


@pytest.fixture(autouse=True)
def _undrawn(monkeypatch):
    monkeypatch.setattr(seeds, "draw_curve", lambda path, *_: path.touch())


def parsed(*argv):
    return cli.make_parser().parse_args(["train", *argv])


def run(folder, *argv):
    return ["train", "Catch-bsuite", "--algo", "drift", "--out", str(folder), *argv]


# --- learner and settings --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("id", "algorithm"), [("CartPole-v1", "ppo"), ("Pendulum-v1", "sac"), ("Swimmer-misc", "sac")])
def test_the_action_spec_chooses_the_learner_where_there_is_no_preset(id, algorithm):
    assert train._algorithms.suited(jaxenv.make(id).action_spec()) == algorithm


def test_wrappers_are_part_of_the_environment_that_chooses_the_learner(monkeypatch):
    monkeypatch.setattr(presets, "PRESETS", {"ppo": {}})
    name, config, _ = train.configured(parsed("Pendulum-v1", "--set", "wrappers=DiscretizeAction(num_actions=3)"))
    assert (name, config.wrappers) == ("ppo", (("DiscretizeAction", {"num_actions": 3}),))


def test_options_of_the_maze_are_defaults_of_ued_for_mazes_alone():
    options = [
        train.configured(parsed(id, "--algo", "ued"))[1].env_options for id in ("AMaze-13x13-v0", "LunarLander-v3")
    ]
    assert options == [(("num_walls", 25), ("normalize_obs", True)), ()]


@pytest.fixture
def preset(monkeypatch):
    """A preset of drift for Catch, and none of ppo."""
    table = {"ppo": {}, "drift": {"Catch-bsuite": {"total_steps": 800, "gamma": 0.5, "num_eval_episodes": 2}}}
    monkeypatch.setattr(presets, "PRESETS", table)


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        ((), ("drift", 800, 0.5)),
        (("--total-steps", "4000"), ("drift", 4000, 0.5)),
        (("--set", "gamma=0.25"), ("drift", 800, 0.25)),
        (("--algo", "drift", "--no-preset"), ("drift", 400, 0.99)),
        (("--algo", "ppo"), ("ppo", 300_000, 0.98)),
        (("--no-preset",), ("ppo", 300_000, 0.98)),
    ],
)
def test_a_preset_is_used_by_default_and_options_change_it(preset, argv, expected):
    name, config, origin = train.configured(parsed("Catch-bsuite", *argv))
    assert (name, config.total_steps, config.gamma, config.env_id) == (*expected, "Catch-bsuite")
    assert ("its preset for Catch-bsuite" in origin) == (expected[0] == "drift" and "--no-preset" not in argv)


@pytest.mark.parametrize(
    ("argv", "expected"),  # the rows that are run, and the evaluations
    [
        (("--algo", "ppo", "--total-steps", "300000"), (319_488, 13)),  # 13 updates of 24,576 rows
        (("--algo", "ppo", "--total-steps", "300000", "--set", "num_evaluations=5"), (368_640, 5)),
        (("--algo", "ppo", "--total-steps", "2482176"), (2_506_752, 6)),  # 101 updates, a prime number: one more
        (("--algo", "ppo", "--total-steps", "491520"), (491_520, 10)),
        (("--algo", "ppo", "--total-steps", "1"), (24_576, 1)),
        (("--algo", "ppo", "--total-steps", "50000"), (73_728, 3)),
        (("--algo", "dqn", "--total-steps", "8001"), (8_040, 11)),  # a warm-up of 1,000 rows and 176 updates of 40
        (("--algo", "dqn", "--total-steps", "41001"), (41_400, 10)),  # less than 1% of 1,001 updates more
    ],
)
def test_total_steps_are_run_to_the_next_update(argv, expected):
    lanes = ("--set", "num_envs=192", "num_steps=128") if "ppo" in argv else ("--set", "num_envs=20", "num_steps=2")
    _, config, _ = train.configured(parsed("Catch-bsuite", "--no-preset", *argv, *lanes))
    assert (config.num_rows, config.num_evaluations) == expected
    assert config.total_steps == config.num_rows


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("sizes=3,4", (3, 4)),
        ("sizes=3", (3,)),
        ("sizes=(3,)", (3,)),
        ("sizes=(3,4)", (3, 4)),
        ("sizes=()", ()),
        ("gamma=0.5", 0.5),
        ("recurrent=true", True),
        ("nan_in=loss", "loss"),
    ],
)
def test_every_kind_of_setting_can_be_set(text, value):
    _, config, _ = train.configured(parsed("Catch-bsuite", "--algo", "drift", "--set", text))
    assert getattr(config, text.partition("=")[0]) == value


def test_wrappers_are_names_or_calls_with_options():
    given = "wrappers=ClipReward,PixelObservation(size=(8, 12)),NormalizeReward()"
    name, wrappers = train._setting(given, ppo.Config, None)
    assert (name, wrappers) == (
        "wrappers",
        ("ClipReward", ("PixelObservation", {"size": (8, 12)}), ("NormalizeReward", {})),
    )


def test_options_of_the_environment_choose_the_task(monkeypatch):
    table = {"ppo": {"DeepSea-bsuite": {"env_options": {"size": 9, "deterministic": False}}}}
    monkeypatch.setattr(presets, "PRESETS", table)
    argv = ("DeepSea-bsuite", "--env", "size=5", "--max-episode-steps", "4")
    _, config, origin = train.configured(parsed(*argv))
    assert dict(config.env_options) == {"size": 5, "deterministic": False, "max_episode_steps": 4}
    assert origin == "its preset for DeepSea-bsuite, size=5, max_episode_steps=4"


@pytest.mark.parametrize(("id", "name"), [("CartPole-v1", "CartPole-v1"), ("gymnax:CartPole-v1", "gymnax-CartPole-v1")])
def test_the_default_folder_is_a_valid_path_on_every_system(id, name):
    assert train.default_folder(id) == pathlib.Path("runs") / name


# --- what is reported ------------------------------------------------------------------------------------------------


def test_a_run_prints_its_learner_and_a_line_per_evaluation(capsys, tmp_path):
    assert cli.main(run(tmp_path, "--seeds", "2", "--set", "gamma=0.5", "--total-steps", "401")) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "drift with its default settings, gamma=0.5, 404 steps (401 in whole updates, 4 evaluations)"
    assert out[1].split() == ["step", "train_return", "eval_return", "worst_seed", "best_seed"]
    assert [line.split()[0] for line in out[2:6]] == ["100", "200", "300", "400"]
    assert out[6].startswith("2 seeds in ")


def test_the_table_of_a_curriculum_shows_how_far_its_buffer_is_filled(capsys, tmp_path, monkeypatch):
    rows = seeds.rows
    filled = lambda run: [{**row, "buffer_fill": row["steps"] / 400 + row["seed"] / 10} for row in rows(run)]  # noqa: E731
    monkeypatch.setattr(seeds, "rows", filled)
    assert cli.main(run(tmp_path, "--seeds", "2")) == 0
    header, *lines = capsys.readouterr().out.splitlines()[1:6]
    assert header.split()[-1] == "buffer_fill"
    assert [line.split()[-1] for line in lines] == ["0.3", "0.55", "0.8", "1.05"]


def test_a_run_on_trials_reports_the_gain_from_the_first_to_the_last_episode(capsys, tmp_path):
    """Each episode of a trial has one more step than the one before, and every step pays 1."""
    jaxenv.register("Longer-v0", longer, max_episode_steps=9)
    settings = ("num_envs=2", "num_steps=12", "num_minibatches=1", "num_eval_episodes=2", "hidden=4", "recurrent=4")
    wrappers = "wrappers=Trials(num_episodes=3),PreviousActionAndReward"
    argv = ["train", "Longer-v0", "--algo", "ppo", "--out", str(tmp_path), "--total-steps", "48"]
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):  # as networks need
        assert cli.main([*argv, "--set", wrappers, *settings, "num_evaluations=2"]) == 0
    header, *lines = capsys.readouterr().out.splitlines()[1:4]
    assert header.split()[-1] == "train_gain"
    assert [line.split()[-1] for line in lines] == ["2", "2"]
    with (tmp_path / "curve.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["train_return"], row["train_first_return"], row["train_gain"]) for row in rows] == [
        ("9.0", "2.0", "2.0")
    ] * 2
    assert [row["eval_return"] for row in rows] == ["9.0"] * 2


class Longer(Counting):
    """Pays 1 a step."""

    def transition(self, state, action, stream):
        out = super().transition(state, action, stream)
        return tree.rebuild(out, reward=jnp.ones_like(out.reward))


def longer(num_envs=1):
    return Longer(np.array([2, 3, 4]), num_envs=num_envs)


def test_a_resumed_run_says_where_it_starts(capsys, tmp_path):
    next(seeds.train(drift.Config(), 1, folder=tmp_path / "run"))
    (tmp_path / "empty").mkdir()
    starts = {
        tmp_path / "run": f", resumed from {tmp_path}/run/checkpoint.npz",
        tmp_path / "empty": f", from the start: {tmp_path}/empty holds no checkpoint",
    }
    for folder, where in starts.items():
        assert cli.main(run(folder, "--resume")) == 0
        assert capsys.readouterr().out.splitlines()[0] == f"drift with its default settings, 400 steps{where}"


@pytest.mark.parametrize("checkpoint_format", ["npz", "orbax"])
def test_the_bar_of_a_resumed_run_starts_at_its_evaluations(tmp_path, monkeypatch, checkpoint_format):
    bars = []

    @contextlib.contextmanager
    def progress(total, unit, done):
        bars.append([total, done])
        yield lambda count, note: bars[-1].append(count)

    monkeypatch.setattr(train, "progress", progress)
    runs = seeds.train(drift.Config(), 1, folder=tmp_path / "run", checkpoint_format=checkpoint_format)
    next(runs), next(runs)
    runs.close()
    assert cli.main(run(tmp_path / "run", "--resume")) == 0
    assert cli.main(run(tmp_path / "run", "--resume")) == 0  # a complete run
    assert cli.main(run(tmp_path / "new")) == 0
    assert bars == [[4, 2, 1, 1], [4, 4, 0], [4, 0, 1, 1, 1, 1]]


def test_json_has_the_config_and_the_curve(capsys, tmp_path):
    found = printed_json(capsys, *run(tmp_path, "--seeds", "2"))
    assert (found["algorithm"], found["config"]["total_steps"], found["folder"]) == ("drift", 400, str(tmp_path))
    assert [row["steps"] for row in found["curve"]] == [100, 100, 200, 200, 300, 300, 400, 400]


def test_evaluated_episodes_that_were_cut_off_are_counted_in_one_line_on_stderr(capsys, tmp_path):
    assert cli.main(run(tmp_path, "--seeds", "2", "--set", "cut=True")) == 0
    error = capsys.readouterr().err
    assert re.fullmatch(r"jaxenv train: 8 of 24 evaluated episodes .*max_eval_steps.*\n", error)


def test_writers_get_every_evaluation_once_also_of_a_resumed_run(tmp_path, monkeypatch, capsys):
    written = []

    class Recorder(rollout.Table):
        def __init__(self, *args, **options):
            written.append((args, options))

        def __call__(self, step, metrics):
            written.append((step, metrics))

    monkeypatch.setattr(train, "TensorBoard", type("Board", (rollout.writers.Writer,), dict(vars(Recorder))))
    monkeypatch.setattr(train, "WandB", lambda *args, **options: written.append((args, options)) or rollout.Table([]))
    options = ("--seeds", "2", "--tensorboard", "--wandb", "drifts", "--json")
    stopped = seeds.train(drift.Config(), 2, folder=tmp_path)
    next(stopped), next(stopped), stopped.close()
    assert cli.main(run(tmp_path, "--resume", *options)) == 0
    assert written[0] == ((tmp_path / "tensorboard",), {"resume": True})
    assert written[1][0] == ("drifts",)
    assert written[1][1]["config"]["algorithm"] == "drift"
    # The evaluation of the last checkpoint, too: the run may have been killed before it was written.
    assert [step for step, _ in written[2:]] == [200, 300, 400]
    curve = seeds.rows(*seeds.train(drift.Config(), 2, folder=tmp_path, resume=True))
    for number, (_, metrics) in enumerate(written[2:]):
        first, second = curve[2 * (1 + number) :][:2]
        assert metrics["seed1/eval_return"] == pytest.approx(second["eval_return"])
        assert metrics["eval_return"] == pytest.approx((first["eval_return"] + second["eval_return"]) / 2)
        assert ("steps_per_second" in metrics) == (number > 0)
    assert cli.main(run(tmp_path, "--resume", *options)) == 0  # a complete run
    assert [step for step, _ in written[7:]] == [400]


def test_tensorboard_has_every_point_once_after_a_run_was_killed_and_resumed(tmp_path):
    pytest.importorskip("tensorboardX")
    options = "--seeds", "2", "--tensorboard"
    assert cli.main(run(tmp_path / "whole", *options)) == 0
    stopped = seeds.train(drift.Config(), 2, folder=tmp_path / "run")
    for _ in range(3):  # killed before it wrote the third evaluation
        next(stopped)
    stopped.close()
    with rollout.TensorBoard(tmp_path / "run" / "tensorboard") as writer:
        for row in (seeds.rows(*seeds.train(drift.Config(), 2, folder=tmp_path / "whole", resume=True)))[:4:2]:
            writer(row["steps"], {"seed0/eval_return": row["eval_return"]})
    assert cli.main(run(tmp_path / "run", *options, "--resume")) == 0
    found = points(tmp_path / "run" / "tensorboard")
    assert len(found) == len(set(found))
    expected = [point for point in points(tmp_path / "whole" / "tensorboard") if point[2] > 200]
    missing = {(name, step) for name, _, step in expected} - {(name, step) for name, _, step in found}
    assert missing == {("steps_per_second", 300)}  # which only the killed run knew
    returns = [step for name, _, step in found if name == "seed0/eval_return"]
    assert sorted(returns) == [100, 200, 300, 400]


# --- what goes wrong -------------------------------------------------------------------------------------------------


def test_a_run_that_diverges_ends_with_code_1_and_one_line(capsys, tmp_path):
    assert cli.main(run(tmp_path, "--seeds", "4", "--set", "nan_at=2")) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "jaxenv train: error: train: seed " in error
    assert re.search(rf"evaluation 2 of 4: loss error, weights now; .*{tmp_path} is unchanged", error)


def test_a_run_that_diverges_before_its_first_checkpoint_leaves_no_folder_behind(capsys, tmp_path):
    assert cli.main(run(tmp_path / "new", "--seeds", "4", "--set", "nan_at=1")) == 1
    assert "evaluation 1 of 4: loss error, weights now; there is no checkpoint" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_a_full_disk_ends_with_code_1_and_a_closed_pipe_as_in_other_commands(capsys, tmp_path, monkeypatch):
    def fails(error):
        def write(*_, **options):
            raise error

        return write

    monkeypatch.setattr(train.Table, "__call__", fails(BrokenPipeError()))
    with pytest.raises(BrokenPipeError):
        train.run(cli.make_parser().parse_args(run(tmp_path / "pipe")))
    capsys.readouterr()
    monkeypatch.setattr(jaxenv.data, "save", fails(OSError(errno.ENOSPC, "No space left on device")))
    assert cli.main(run(tmp_path / "full", "--json")) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "evaluation 1 of 4 cannot be saved" in error
    assert "No space left on device" in error


@contextlib.contextmanager
def running(folder, *argv):
    """A process that runs the command in ``folder`` and has finished the first evaluation."""
    # The second iteration takes much longer than a test may.
    code = f"""
import sys
from jaxenv import cli
from jaxenv.training import seeds
from tests.training import drift
seeds.draw_curve = lambda path, *_: path.touch()
sys.argv[1:] = {run(folder, *argv)!r}
with drift.registered():
    sys.exit(cli.main())
"""
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", code], **options) as child:
        try:
            for line in child.stdout:
                if line.split()[0] == "100":
                    break
            yield child
        finally:
            child.kill()


ENDLESS = ("--set", "work=1000000000", "num_evaluations=2")


def test_a_signal_ends_a_run_in_the_middle_of_an_iteration_and_says_how_to_resume(tmp_path):
    with running(tmp_path / "a run", *ENDLESS) as child:
        child.terminate()
        _, error = child.communicate(timeout=60)
    assert child.returncode == 128 + signal.SIGTERM
    assert error.startswith("jaxenv train: stopped; resume from the last checkpoint with: jaxenv train Catch")
    assert error.endswith(f"--out '{tmp_path}/a run' --set work=1000000000 num_evaluations=2 --resume\n")
    assert jaxenv.training.load(tmp_path / "a run").steps == 100


def test_a_second_run_in_a_folder_is_refused_until_the_first_is_gone(capsys, tmp_path):
    with running(tmp_path / "run", *ENDLESS) as child:
        for resume in ([], ["--resume"]):
            error = refusal(capsys, *run(tmp_path / "run", *ENDLESS, *resume))
            assert f"run is in use by process {child.pid} on " in error
    error = refusal(capsys, *run(tmp_path / "run", *ENDLESS))
    assert "holds a run (checkpoint.npz)" in error
    assert jaxenv.training.load(tmp_path / "run").steps == 100


def test_a_long_run_says_after_its_first_evaluation_how_long_it_takes(capsys, tmp_path, monkeypatch):
    def slow(runs):
        for number, run in enumerate(runs):
            yield run, 90.0 - number

    monkeypatch.setattr(train, "_timed", slow)
    assert cli.main(run(tmp_path)) == 0  # four evaluations
    assert capsys.readouterr().err == "jaxenv train: at most 5 minutes left at this speed\n"


def test_a_run_that_is_stopped_before_its_first_checkpoint_offers_no_resume(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.json").write_text("{}")
    stopped = "jaxenv train: stopped before the first checkpoint; the same command starts again"
    assert train._stopped(tmp_path / "run", can_resume=True) == stopped
    assert not (tmp_path / "run").exists()
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "config.json").write_text("{}")
    assert train._stopped(tmp_path, can_resume=True) == stopped
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.json", "notes.txt"]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["CartPol-v1"], "no environment 'CartPol-v1', did you mean 'CartPole-v1'"),
        (["CartPole-v1", "--algo", "pp"], "argument --algo: invalid choice: 'pp'"),
        (
            ["CartPole-v1", "--set", "learnin_rate=1"],
            "argument --set: no setting 'learnin_rate', did you mean 'learning_",
        ),
        (["CartPole-v1", "--set", "x=1"], "argument --set: no setting 'x', the settings of ppo are activation, "),
        (["CartPole-v1", "--set", "gravity=20"], "; --env sets the environment's"),
        (["CartPole-v1", "--set", "gamma=2"], "ppo.Config: gamma must be in [0, 1], got 2"),
        (["CartPole-v1", "--set", "wrappers=A(64)"], "wrappers must be names or calls with named options, as A,"),
        (["CartPole-v1", "--set", "wrappers=A(x=y)"], "got 'A(x=y)'"),
        (["CartPole-v1", "--set", "wrappers=A("], "got 'A('"),
        (["CartPole-v1", "--set", "wrappers=A]+[B"], "got 'A]+[B'"),
        (["CartPole-v1", "--out", f"{__file__}/run"], "test_train.py is a file"),
        (["CartPole-v1", "--set", "total_steps=1"], "total_steps is an option of the command: --total-steps 1"),
        (["DeepSea-bsuite", "--env", "sze=4"], "DeepSea-bsuite: unknown keyword 'sze', did you mean 'size'?"),
        (["DeepSea-bsuite", "--env", "size"], "argument --env: must be NAME=VALUE, got 'size'"),
        (["CartPole-v1", "--set", "env_id=Catch-bsuite"], "argument --set: no setting 'env_id'"),
        (
            ["CartPole-v1", "--total-step", "1"],
            "jaxenv train: error: unrecognized arguments: --total-step 1, did you mean",
        ),
        (["CartPole-v1", "--lr", "1e-3"], "unrecognized arguments: --lr 1e-3, use --set learning_rate=VALUE"),
        (["CartPole-v1", "--ent-coef=0.1"], "arguments: --ent-coef=0.1, use --set entropy_cost=VALUE"),
        (["CartPole-v1", "--num-envs", "8"], "unrecognized arguments: --num-envs 8, use --set num_envs=VALUE"),
        (["CartPole-v1", "--set", "lr=1e-3"], "no setting 'lr', did you mean 'learning_rate'?"),
        (["CartPole-v1", "--gravity", "5"], "--gravity 5, --env NAME=VALUE sets params and options of the environment"),
        (["ConnectFour-v0"], "put Opponent in wrappers, or train with --algo self_play or --algo alphazero"),
        (["SimpleSpread-mpe", "--no-preset"], "has 3 agents: put AgentsAsLanes in wrappers\n"),
        (["runs/nothing"], "no id has a slash, and `jaxenv watch`, `eval` and `render` find no folder of a run there"),
    ],
)
def test_wrong_input_to_train_is_reported_in_one_line_with_exit_code_2(capsys, argv, message):
    assert message in refusal(capsys, "train", *argv)
