"""The outputs on the page about the command line are those of the commands, where they do not depend on the machine."""

import pathlib
import re

import pytest

from jaxenv import cli

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "guides" / "command-line.md"
BLOCKS = dict(re.findall(r"```console\n\$ jaxenv (.*)\n([\s\S]*?)```", PAGE.read_text()))


@pytest.mark.pages
@pytest.mark.parametrize(
    "command",
    [
        "list CartPole-",
        "show Pendulum-v1 --env length=2",
        "check CardGame-v0 --properties same_tree lane_independent",
    ],
)
def test_a_command_prints_what_the_page_shows(capsys, command):
    assert cli.main(command.split()) == 0
    # A line of dots stands for lines that the page leaves out.
    shown = "(.*\n)+".join(map(re.escape, BLOCKS[command].split("...\n")))
    assert re.fullmatch(shown, capsys.readouterr().out)


def test_the_page_names_every_command():
    text = PAGE.read_text()
    for name in cli.COMMANDS:
        assert f"| `jaxenv {name} " in text
