"""The options that several commands share, and what their values mean."""

import argparse
import contextlib
import os
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import jax

from jaxenv._util.checks import INT32_MAX
from jaxenv.wrappers.stack._make import OPTIONS


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


_ASSIGNMENTS: dict[str, Any] = {"metavar": "NAME=VALUE", "nargs": "+", "action": "extend", "default": []}
# Each metavar has one type: N and T count from 1, S from 0.
_TYPES = {"N": integer(1), "T": integer(1), "S": integer(0)}
_OPTIONS: dict[str, dict[str, Any]] = {
    "id": {"metavar": "ID", "help": "an environment from `jaxenv list`, or one of a suite: gymnax:ID"},
    "folder": {
        "metavar": "DIR",
        "type": pathlib.Path,
        "help": "the folder of a run of `jaxenv train`, or baseline:ID[:LEARNER]",
    },
    "--policy-seed": {
        "metavar": "S",
        "help": "which seed of the run to show, from 0 (default: the one with the best last evaluation)",
    },
    "--module": {
        "metavar": "NAME",
        "dest": "modules",
        "action": "append",
        "default": [],
        "help": "import this module first, which registers the environment of the run; may be repeated",
    },
    "--num-envs": {"metavar": "N", "help": "number of lanes"},
    "--seed": {"metavar": "S", "default": 0, "help": "seed of all random numbers"},
    "--devices": {"metavar": "N", "default": 1},
    "--fps": {"metavar": "N", "default": 30, "help": "steps per second"},
    "--properties": {"metavar": "NAME", "nargs": "+", "default": [], "help": "names of properties (default: all)"},
    "--json": {"action": "store_true", "help": "print a JSON object"},
    "--env": {
        **_ASSIGNMENTS,
        "help": "options and params of the environment: a number, true, false, or N comma-separated numbers, one per "
        "lane",
    },
    "--set": _ASSIGNMENTS,
    "--max-episode-steps": {
        "metavar": "N",
        "type": integer(0),
        "help": "time limit in agent steps, 0 for none (default: the registered one)",
    },
}


def add_options(command: argparse._ActionsContainer, *names: str, **changes: Any) -> None:
    """Adds options; ``changes`` are arguments of ``add_argument`` that differ from those that commands share."""
    for name in names:
        options: dict[str, Any] = _OPTIONS.get(name, {}) | changes
        if "action" not in options and (kind := _TYPES.get(options.get("metavar", ""))):
            options = {"type": kind} | options
        command.add_argument(name, **options)


def simulate_devices(number: int) -> None:
    """Splits the CPU into several devices, before JAX has started; other kinds of devices are unaffected."""
    if number > 1:
        with contextlib.suppress(RuntimeError):  # JAX has already started
            jax.config.update("jax_num_cpu_devices", number)


def settings_of(args: argparse.Namespace, lanes: bool = False) -> dict[str, Any]:
    """Returns the assignments of an environment, and its time limit if given, as keywords of `jaxenv.make`.

    ``num_envs`` is refused unless the command lets it choose the ``lanes``.
    """
    given = dict(assignment(text, args.parser, "--env") for text in args.env)
    if "num_envs" in given and not lanes:
        args.parser.error("argument --env: the command itself chooses num_envs")
    if "self" in given:
        args.parser.error("argument --env: self is not a parameter of an environment")
    if of_make := [name for name in given if name in OPTIONS]:
        args.parser.error(f"argument --env: {of_make[0]} is an option of jaxenv.make, which is called in Python")
    return given if args.max_episode_steps is None else {**given, "max_episode_steps": args.max_episode_steps}


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


def load_policy(folder: str | os.PathLike, seed: int | None = None, modules: Sequence[str] = ()) -> Any:
    """Loads the policy of a run's folder, or a shipped one: ``baseline:ID`` or ``baseline:ID:LEARNER``."""
    from jaxenv import training  # which the other commands need not wait for

    prefix, _, name = str(folder).partition(":")
    if prefix != "baseline":
        return training.load(folder, seed, modules)
    if seed is not None:
        raise ValueError(f"{folder} is one policy: leave out --policy-seed")
    if modules:
        raise ValueError(f"{folder} is a policy of this library: leave out --module")
    env_id, _, algorithm = name.partition(":")
    return training.baseline(env_id, algorithm or None)


def columns(table: list[list[str]], left: int) -> list[str]:
    """Aligns the cells of a table: the first ``left`` columns to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    rows = (enumerate(zip(cells, widths, strict=True)) for cells in table)
    return ["  ".join(c.ljust(n) if i < left else c.rjust(n) for i, (c, n) in row) for row in rows]
