"""What the arguments of all commands have in common."""

import argparse
import contextlib
from collections.abc import Callable
from typing import Any, NoReturn


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line; the usage is a ``--help`` away."""

    def __init__(self, **kwargs):
        super().__init__(allow_abbrev=False, **kwargs)

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {message}\n")


class Help(argparse.ArgumentDefaultsHelpFormatter):
    """Shows defaults, but no "(default: None)" or "(default: [])"."""

    def _get_help_string(self, action):
        untold = action.default is None or action.default is False or action.default == []
        return action.help if untold else super()._get_help_string(action)


def integer(least: int) -> Callable[[str], int]:
    """A type of argument: whole numbers of at least ``least``."""

    def integer(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if not least <= value < 2**31:
            raise argparse.ArgumentTypeError(f"must be an integer from {least} to {2**31 - 1}, got {text!r}")
        return value

    return integer


def one_line(fault: Exception) -> str:
    """The message of an error without its line breaks."""
    return " ".join(str(fault).split())


def assignment(text: str, parser: argparse.ArgumentParser) -> tuple[str, Any]:
    """Name and value of one ``--set``; text that is no number stays text, for whoever gets it to refuse."""
    name, equals, value = text.partition("=")
    if not (name.isidentifier() and equals and value):
        parser.error(f"argument --set: must be NAME=VALUE, got {text!r}")
    values = [_value(part) for part in value.split(",")]
    return name, values if "," in value else values[0]


def _value(text: str) -> bool | int | float | str:
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    return text
