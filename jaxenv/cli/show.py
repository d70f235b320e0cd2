"""``jaxenv show``: an environment's spec sheet, its params and options, and the stack that `make` builds."""

import argparse
import dataclasses
import json
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

import jax
import numpy as np

import jaxenv
from jaxenv.canvas._terminal import colour_depth, fit, half_blocks, has_half_blocks, terminal_size
from jaxenv.cli._arguments import add_env_settings, add_time_limit, bold, one_line, settings_of
from jaxenv.cli._parser import Parser
from jaxenv.cli._spec_sheet import Argument, SpecSheet, as_written, plain, spec_sheet
from jaxenv.cli.listing import spec_text
from jaxenv.core._describe import additions, described_layers, state_bytes
from jaxenv.core.environment import Environment
from jaxenv.rollout.play import action_names

_WIDEST = 100  # columns of text
_PICTURE = 48  # pixels


def add(command: Parser) -> None:
    """Adds description and arguments."""
    command.description = (
        "Shows an environment: its spec sheet, its params and options with their values, the stack that "
        "jaxenv.make builds, and in terminals with colours a picture of its first state."
    )
    command.epilog = "example: jaxenv show CartPole-v1 --env length=1.5"
    command.add_argument("id", metavar="ID", help="an environment from `jaxenv list`, or one of a suite: gymnax:ID")
    command.add_argument("--json", action="store_true", help="print a JSON object")
    command.add_argument(
        "--picture",
        action=argparse.BooleanOptionalAction,
        help="whether to show the picture (default: in terminals with at least 256 colours)",
    )
    add_env_settings(command)
    add_time_limit(command)
    command.set_defaults(run=run, parser=command)


def run(args: argparse.Namespace) -> None:
    """Prints the text, or a JSON object."""
    given = settings_of(args, lanes=True)
    try:
        env = jaxenv.load(args.id, **given)
        sheet = spec_sheet(args.id)
        if args.json:
            print(json.dumps(as_data(sheet, env), indent=2))
            return
        width = min(terminal_size()[0], _WIDEST) if sys.stdout.isatty() else _WIDEST
        lines = [*_title(sheet, width), *_picture(env, args.picture), *_text(sheet, env, width)]
    except (ImportError, TypeError, ValueError) as error:
        args.parser.error(one_line(error))
    print("\n".join(lines))


def as_data(sheet: SpecSheet, env: Environment) -> dict[str, Any]:
    """Returns the spec sheet as plain data."""
    per_lane, shared = state_bytes(env)
    return {
        "id": sheet.id,
        "family": sheet.family,
        "summary": plain(sheet.summary),
        "text": plain("\n\n".join(sheet.paragraphs)),
        "actions": list(action_names(env)),
        "params": [_argument(argument, env, "params") for argument in sheet.params],
        "options": [_argument(argument, env, "options") for argument in sheet.options],
        "stack": [{"layer": layer.title, "adds": ", ".join(additions(layer))} for layer in described_layers(env)],
        "bytes_per_lane": per_lane,
        "bytes_shared": shared,
    }


def _argument(argument: Argument, env: Environment, kind: str) -> dict[str, Any]:
    data = dataclasses.asdict(argument)
    return {"name": data.pop("name"), "value": _value(argument, env, kind), **data}


def _value(argument: Argument, env: Environment, kind: str) -> Any:
    """Returns the value that an argument has in this environment, as a Python value."""
    owner = env.unwrapped
    if kind == "params":
        for part in ("params", *argument.name.split(".")[:-1]):
            owner = getattr(owner, part)
    value = getattr(owner, argument.name.split(".")[-1], argument.default)
    if isinstance(value, np.ndarray | np.generic | jax.Array):
        value = np.asarray(value).tolist()
    default = argument.default
    if isinstance(default, tuple) and isinstance(value, list):
        value = tuple(value)
    # Values are stored in float32; the number as it was written reads better.
    same = not isinstance(default, bool) and isinstance(default, int | float | tuple)
    return default if same and np.shape(value) == np.shape(default) and _equal(value, default) else value


def _equal(value: Any, default: Any) -> bool:
    return bool(np.all(np.asarray(value, np.float32) == np.asarray(default, np.float32)))


# --- text -------------------------------------------------------------------------------------------------------------


def _title(sheet: SpecSheet, width: int) -> list[str]:
    family = sheet.family.rjust(width - len(sheet.id))
    return [f"{bold(sheet.id)}{family}", *textwrap.wrap(plain(sheet.summary), width), ""]


def _picture(env: Environment, wanted: bool | None) -> list[str]:
    """Returns the picture of the first state as lines of the terminal; by default only where it can show one."""
    depth = colour_depth() or (24 if wanted else 0)
    if not depth or wanted is False:
        return []
    if not has_half_blocks(sys.stdout):
        raise ValueError(f"--picture: stdout must have half blocks, as UTF-8, got {sys.stdout.encoding}")
    columns, lines = shutil.get_terminal_size((80, 24))
    size = max(min(fit(columns, max(lines - 4, 8))[0], _PICTURE), 8)
    state, _ = env.reset(jax.random.key(0))
    try:
        picture = np.asarray(env.render(state, size)[0])
    except ValueError:  # environments of suites have no pictures
        if wanted:
            raise
        return []
    return [*half_blocks(picture, depth).split("\n"), ""]


def _text(sheet: SpecSheet, env: Environment, width: int) -> Iterable[str]:
    if not any(map(as_written, sheet.paragraphs)):
        yield from (f"Observation  {spec_text(env.observation_spec())}", f"Action       {spec_text(env.action_spec())}")
    for number, paragraph in enumerate(sheet.paragraphs):
        yield from [""] if number else []
        yield from plain(paragraph).split("\n") if as_written(paragraph) else textwrap.wrap(plain(paragraph), width)
    if names := action_names(env):
        yield ""
        yield from _hanging(bold("actions") + "  ", ", ".join(names), width)
    for kind, arguments in (("params", sheet.params), ("options", sheet.options)):
        if arguments:
            yield ""
            yield bold(kind)
            yield from _arguments(arguments, env, kind, width)
    yield ""
    yield bold("stack")
    stack = described_layers(env)
    column = max(len(layer.title) for layer in stack) + 4
    for layer in stack:
        yield from _hanging(f"  {layer.title}".ljust(column), ", ".join(additions(layer)), width)
    per_lane, shared = state_bytes(env)
    yield f"  {per_lane} bytes of state per lane" + (f" and {shared} shared" if shared else "")


def _wrapped(text: str, width: int, indent: int) -> list[str]:
    return textwrap.wrap(text, max(width - indent, 20), break_long_words=False) or [""]


def _arguments(arguments: Sequence[Argument], env: Environment, kind: str, width: int) -> Iterable[str]:
    """Yields aligned lines: name, value and unit, allowed range, description."""
    table = []
    for argument in arguments:
        value = _value(argument, env, kind)
        text = _number(value) + (f" {argument.unit}" if argument.unit else "")
        text += f" (default {_number(argument.default)})" if value != argument.default else ""
        table.append((argument.name, text, argument.range, plain(argument.description)))
    widths = [max(len(cells[i]) for cells in table) for i in range(3)]
    for *cells, description in table:
        left = "  " + "".join(cell.ljust(n + 2) for cell, n in zip(cells, widths, strict=True) if n)
        yield from _hanging(left, description, width)


def _hanging(left: str, text: str, width: int) -> Iterable[str]:
    """Yields a line that starts with ``left``, then lines indented by its length."""
    first, *others = _wrapped(text, width, len(left))
    yield f"{left}{first}".rstrip()
    yield from (" " * len(left) + line for line in others)


def _number(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_number, value))}]"
    return f"{value:.7g}" if isinstance(value, float) else repr(value) if isinstance(value, str) else str(value)
