"""`jaxenv train`: the folder of a run, and that wrong input is reported in one line."""

import pathlib

import pytest

from jaxenv.cli import train
from tests.cli.commands import refusal


@pytest.mark.parametrize(("id", "name"), [("CartPole-v1", "CartPole-v1"), ("gymnax:CartPole-v1", "gymnax-CartPole-v1")])
def test_the_default_folder_is_a_valid_path_on_every_system(id, name):
    assert train.default_folder(id) == pathlib.Path("runs") / name


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["CartPol-v1"], "no environment 'CartPol-v1', did you mean 'CartPole-v1'"),
        (
            ["CartPole-v1", "--set", "learnin_rate=1"],
            "argument --set: no setting 'learnin_rate', did you mean 'learning_",
        ),
        (["CartPole-v1", "--set", "x=1"], "argument --set: no setting 'x', the settings are clip, "),
        (["CartPole-v1", "--set", "wrappers=A(64)"], "wrappers must be names or calls with options, as A,B(size=64), "),
        (["CartPole-v1", "--set", "wrappers=A(x=y)"], "got 'A(x=y)'"),
        (["CartPole-v1", "--set", "wrappers=A("], "got 'A('"),
        (["CartPole-v1", "--set", "total_steps=1"], "total_steps is an option of the command: --total-steps 1"),
        (
            ["CartPole-v1", "--total-step", "1"],
            "jaxenv train: error: unrecognized arguments: --total-step 1, did you mean",
        ),
    ],
)
def test_wrong_input_to_train_is_reported_in_one_line_with_exit_code_2(capsys, argv, message):
    assert message in refusal(capsys, "train", *argv)


def test_wrappers_are_names_or_calls_with_options():
    name, wrappers = train._setting("wrappers=ClipReward,PixelObservation(size=(8, 12)),NormalizeReward()", None)
    assert (name, wrappers) == (
        "wrappers",
        ["ClipReward", ("PixelObservation", {"size": (8, 12)}), ("NormalizeReward", {})],
    )
