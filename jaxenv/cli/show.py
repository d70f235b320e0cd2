"""Shows an environment: its spec sheet, its params and options with their values, the stack that jaxenv.make builds,
and in terminals with colours a picture of its first state.

example: jaxenv show CartPole-v1 --env length=1.5
"""

import argparse
import dataclasses
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import jax
import numpy as np
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

import jaxenv
from jaxenv.canvas import _terminal
from jaxenv.cli._arguments import add_options, settings_of
from jaxenv.cli._parser import Parser
from jaxenv.cli._spec_sheet import Argument, SpecSheet, as_written, plain, spec_sheet
from jaxenv.cli.listing import spec_text
from jaxenv.core._describe import described_layers, size, state_bytes
from jaxenv.core.environment import Environment
from jaxenv.rollout.play import action_names
from jaxenv.training import _algorithms

_WIDEST = 100  # columns of text
_PICTURE = 48  # pixels


def add(command: Parser) -> None:
    """Adds the arguments."""
    add_options(command, "id", "--json")
    picture = "whether to show the picture (default: in terminals with at least 256 colours)"
    add_options(command, "--picture", action=argparse.BooleanOptionalAction, help=picture)
    add_options(command, "--env", "--max-episode-steps")


def run(args: argparse.Namespace) -> None:
    """Prints the text, or a JSON object."""
    env, sheet = jaxenv.make(args.id, **settings_of(args, lanes=True)), spec_sheet(args.id)
    if args.json:
        print(json.dumps(as_data(sheet, env), indent=2))
        return
    console = _terminal.console(always=bool(args.picture))
    picture = _picture(env, console, args.picture)
    text = Console(width=min(console.width, _WIDEST) if console.is_terminal else _WIDEST, highlight=False)
    title = Text.assemble((sheet.id, "bold"), sheet.family.rjust(text.width - len(sheet.id)))
    _print(text, [title, Text(plain(sheet.summary)), ""])
    if picture is not None:
        console.print(picture, "")
    _print(text, _text(sheet, env))


def _print(console: Console, parts: Iterable[RenderableType]) -> None:
    """Prints lines of text as they are, and what is fitted to the width of the console."""
    with console.capture() as shown:
        for part in parts:
            console.print(part, soft_wrap=isinstance(part, str), markup=False)
    print("\n".join(line.rstrip() for line in shown.get().splitlines()))


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
        "stack": [{"layer": title, "adds": adds} for title, adds in described_layers(env)],
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


def _picture(env: Environment, console: Console, wanted: bool | None) -> RenderableType | None:
    """Returns the picture of the first state; by default only where the console can show one."""
    if wanted is False or not _terminal.shows_pictures(console):
        if wanted:
            raise ValueError(f"--picture: stdout must have half blocks, as UTF-8, got {console.encoding}")
        return None
    columns, lines = console.size
    side = min(_terminal.side(columns, max(lines - 4, 8)), _PICTURE)
    state, _ = env.reset(jax.random.key(0))
    try:
        return _terminal.half_blocks(np.asarray(env.render(state, max(side, 8))[0]))
    except ValueError:  # environments of suites have no pictures
        if wanted:
            raise
        return None


def _text(sheet: SpecSheet, env: Environment) -> Iterator[RenderableType]:
    if not any(map(as_written, sheet.paragraphs)):
        yield f"Observation  {spec_text(env.observation_spec())}"
        yield f"Action       {spec_text(env.action_spec())}"
    for number, paragraph in enumerate(sheet.paragraphs):
        yield from [""] if number else []
        yield plain(paragraph) if as_written(paragraph) else Text(plain(" ".join(paragraph.split())))
    if names := action_names(env):
        yield ""
        yield _grid([(Text("actions", "bold"), ", ".join(names))])
    for kind, arguments in (("params", sheet.params), ("options", sheet.options)):
        if arguments:
            yield ""
            yield Text(kind, "bold")
            yield _arguments(arguments, env, kind)
    yield ""
    yield Text("stack", "bold")
    yield _grid([(f"  {title}", adds) for title, adds in described_layers(env)])
    yield f"  {size(env)}"
    if learners := _algorithms.made_for(env):
        yield from ("", Text("learners", "bold"))
        yield _grid([(f"  jaxenv train {sheet.id} --algo {name}", summary) for name, summary in learners.items()])


def _grid(rows: Sequence[tuple[Any, ...]]) -> Table:
    """Returns aligned columns, without those that are empty; the last one is wrapped."""
    used = [i for i in range(len(rows[0])) if any(row[i] for row in rows)]
    grid = Table.grid(padding=(0, 2))
    for _ in used:
        grid.add_column(overflow="fold")
    for row in rows:
        grid.add_row(*(row[i] if isinstance(row[i], Text) else Text(row[i]) for i in used))
    return grid


def _arguments(arguments: Sequence[Argument], env: Environment, kind: str) -> Table:
    """Returns name, value and unit, allowed range, and description of each argument."""
    rows = []
    for argument in arguments:
        value = _value(argument, env, kind)
        text = _number(value) + (f" {argument.unit}" if argument.unit else "")
        text += f" (default {_number(argument.default)})" if value != argument.default else ""
        rows.append((f"  {argument.name}", text, argument.range, plain(argument.description)))
    return _grid(rows)


def _number(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_number, value))}]"
    return f"{value:.7g}" if isinstance(value, float) else repr(value) if isinstance(value, str) else str(value)
