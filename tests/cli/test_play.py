"""`jaxenv play`: what is refused; tests/rollout/play has a whole game."""

import pytest

from tests.cli.commands import refusal


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["CartPole-v1"], "jaxenv play: error: stdin must be a terminal"),
        (["CartPole-v7"], "no environment 'CartPole-v7'"),
        (["CartPole-v1", "--fps", "-1"], "must be an integer from 0"),
        (["CartPole-v1", "--env", "fps=3"], "fps is an option of the command: --fps 3"),
        (["AMaze-13x13-v0", "--edit", "maze.txt"], "unrecognized arguments: --edit maze.txt, use --level FILE"),
    ],
)
def test_wrong_input_to_play_is_reported_in_one_line_with_exit_code_2(capsys, argv, message):
    assert message in refusal(capsys, "play", *argv)
