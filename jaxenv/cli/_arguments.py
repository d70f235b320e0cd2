"""Argument parsing shared by the commands."""

import argparse
import contextlib
import os
import sys
from collections.abc import Callable
from typing import Any

import jax

from jaxenv._util.checks import INT32_MAX
from jaxenv.cli._parser import Parser
from jaxenv.wrappers.stack._make import OPTIONS

# --- arguments of several commands ------------------------------------------------------------------------------------


def add_lanes(command: Parser, default: int | None, help: str = "number of lanes") -> None:
    """Adds ``--num-envs``; without a default it is ``None``, the lanes of one game."""
    command.add_argument("--num-envs", metavar="N", type=integer(1), default=default, help=help)


def add_seed(command: Parser) -> None:
    """Adds ``--seed``."""
    command.add_argument("--seed", metavar="S", type=integer(0), default=0, help="seed of all random numbers")


def add_devices(command: Parser, help: str) -> None:
    """Adds ``--devices``; `simulate_devices` makes them on a CPU."""
    command.add_argument(
        "--devices", metavar="N", type=integer(1), default=1, help=f"{help}; on a CPU, N of its threads"
    )


def simulate_devices(number: int) -> None:
    """Splits the CPU into several devices, before JAX has started; other kinds of devices are unaffected."""
    if number > 1:
        with contextlib.suppress(RuntimeError):  # JAX has already started
            jax.config.update("jax_num_cpu_devices", number)


def add_env_settings(
    command: Parser,
    help: str = "options and params of the environment: a number, true, false, or N comma-separated numbers, "
    "one per lane",
) -> None:
    """Adds ``--env``, which `settings_of` reads."""
    add_assignments(command, "--env", help)


def add_assignments(command: Parser, option: str, help: str) -> None:
    """Adds an option that takes one or several ``NAME=VALUE``."""
    command.add_argument(option, metavar="NAME=VALUE", nargs="+", action="extend", default=[], help=help)


def add_time_limit(command: Parser) -> None:
    """Adds ``--max-episode-steps``."""
    command.add_argument(
        "--max-episode-steps",
        metavar="N",
        type=integer(0),
        help="time limit in agent steps, 0 for none (default: the registered one)",
    )


def settings_of(args: argparse.Namespace, lanes: bool = False) -> dict[str, Any]:
    """Returns the assignments of an environment, and its time limit if given, as keywords of `jaxenv.load`.

    ``num_envs`` is refused unless the command lets it choose the ``lanes``.
    """
    given = dict(assignment(text, args.parser, "--env") for text in args.env)
    if "num_envs" in given and not lanes:
        args.parser.error("argument --env: the command itself chooses num_envs")
    if "self" in given:
        args.parser.error("argument --env: self is not a parameter of an environment")
    if of_make := [name for name in given if name in OPTIONS]:
        args.parser.error(f"argument --env: {of_make[0]} is an option of jaxenv.make, which is called in Python")
    if args.max_episode_steps is not None:
        given["max_episode_steps"] = args.max_episode_steps
    return given


# --- their types ------------------------------------------------------------------------------------------------------


def integer(minimum: int, maximum: int = INT32_MAX) -> Callable[[str], int]:
    """Returns an argument type that accepts integers in [minimum, maximum]."""

    def integer(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = minimum - 1
        if not minimum <= value <= maximum:
            raise argparse.ArgumentTypeError(f"must be an integer from {minimum} to {maximum}, got {text!r}")
        return value

    return integer


def one_line(error: Exception) -> str:
    """Returns the message of an error without line breaks."""
    return " ".join(str(error).split())


def assignment(text: str, parser: argparse.ArgumentParser, option: str) -> tuple[str, Any]:
    """Splits ``NAME=VALUE`` into name and value. A value that is not a number stays a string."""
    name, equals, value = text.partition("=")
    if not (all(part.isidentifier() for part in name.split(".")) and equals and value):
        parser.error(f"argument {option}: must be NAME=VALUE, got {text!r}")
    # `--size` is the size of a picture; some environments also have an option `size`.
    if name != "size" and (own := f"--{name.replace('_', '-')}") in parser._option_string_actions:
        parser.error(f"argument {option}: {name} is an option of the command: {own} {value}")
    values = [_value(part) for part in value.split(",")]
    return name, values if "," in value else values[0]


def _value(text: str) -> bool | int | float | str:
    if text in ("true", "false", "True", "False"):
        return text in ("true", "True")
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    return text


# --- text -------------------------------------------------------------------------------------------------------------


def bold(text: str) -> str:
    """Makes text bold, where stdout is a terminal and the user did not set ``NO_COLOR``."""
    plain = not sys.stdout.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return text if plain else f"\x1b[1m{text}\x1b[0m"


def cut(text: str, width: int) -> str:
    """Shortens text to a number of columns.

    >>> cut("Walk to the goal.", 10)
    'Walk to t…'
    """
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"
