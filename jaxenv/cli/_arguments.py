"""Argument parsing shared by the commands."""

import argparse
import contextlib
import re
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from jaxenv._names import did_you_mean


class Parser(argparse.ArgumentParser):
    """A parser that reports errors in one line, without the usage."""

    def __init__(self, **kwargs):
        super().__init__(allow_abbrev=False, **kwargs)

    def parse_known_args(self, args=None, namespace=None):
        namespace, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.refuse_unknown(unknown)
        return namespace, unknown

    def refuse_unknown(self, arguments: Sequence[str]) -> None:
        """Exits with code 2; for an option, suggests the closest one of this command."""
        option = arguments[0].partition("=")[0]
        hint = did_you_mean(option, self._option_string_actions) if option.startswith("-") else ""
        self.error(f"unrecognized arguments: {' '.join(arguments)}{hint and f', {hint}'}")

    def error(self, message: str) -> NoReturn:
        if choice := re.search(r"invalid choice: '(.*)' \(choose from (.*)\)", message):
            hint = did_you_mean(choice[1], re.findall(r"\w+", choice[2]))
            message += f", {hint}" if hint else ""
        self.exit(2, f"{self.prog}: error: {message}\n")


class Help(argparse.ArgumentDefaultsHelpFormatter):
    """A formatter that shows defaults, except None, False and an empty list."""

    def _get_help_string(self, action):
        hidden = action.default is None or action.default is False or action.default == []
        return action.help if hidden else super()._get_help_string(action)


def integer(minimum: int) -> Callable[[str], int]:
    """An argument type: an int32 of at least ``minimum``."""

    def integer(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = minimum - 1
        if not minimum <= value < 2**31:
            raise argparse.ArgumentTypeError(f"must be an integer from {minimum} to {2**31 - 1}, got {text!r}")
        return value

    return integer


def one_line(error: Exception) -> str:
    """The message of an error without line breaks."""
    return " ".join(str(error).split())


def assignment(text: str, parser: argparse.ArgumentParser) -> tuple[str, Any]:
    """Name and value of one ``--set``. A value that is not a number stays a string, which the receiver may refuse."""
    name, equals, value = text.partition("=")
    if not (name.isidentifier() and equals and value):
        parser.error(f"argument --set: must be NAME=VALUE, got {text!r}")
    if (option := f"--{name.replace('_', '-')}") in parser._option_string_actions:
        parser.error(f"argument --set: {name} is an option of the command: {option} {value}")
    values = [_value(part) for part in value.split(",")]
    return name, values if "," in value else values[0]


def _value(text: str) -> bool | int | float | str:
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    return text
