"""The command line of the parts: argument types, one-line error messages, and the result file."""

import argparse
import json
import pathlib
import sys
import types
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

import jax

import jaxenv
from benchmarks import measure, tables
from jaxenv.core.registry import SUITES


class Parser(argparse.ArgumentParser):
    """Argument parser of one part. An invalid argument ends the program with status 2 and a one-line message.

    Args:
        part: Name on the command line.
        doc: Docstring of the module. Its first line is the description.
    """

    def __init__(self, part: str, doc: str):
        super().__init__(
            f"jaxenv bench {part}",
            description=doc.partition("\n")[0],
            allow_abbrev=False,
            formatter_class=_Help,
        )

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")

    def add_ids(
        self, ids: Sequence[str] | None, type: Callable[[str], str] | None = None, help: str = "ids to run"
    ) -> None:
        """Adds ``--ids`` with this default."""
        default = None if ids is None else list(ids)
        self.add_argument("--ids", nargs="+", type=type or id, default=default, metavar="ID", help=help)

    def add_peers(self, peers: Sequence[str], default: Sequence[str] | None = None) -> None:
        """Adds ``--peers``, by default all."""
        help = "peers, or nothing for jaxenv alone"
        self.add_argument("--peers", nargs="*", choices=peers, default=default or peers, help=help)

    def add_sizes(
        self, num_envs: Sequence[int], num_steps: int | None, repeats: int = 5, steps: str = "steps of each lane"
    ) -> None:
        """Adds ``--num-envs``, ``--num-steps`` and ``--repeats`` with these defaults."""
        default = "at least three mean episodes and 2^20 steps over all lanes"
        self.add_lanes(num_envs)
        self.add_argument(
            "--num-steps",
            type=positive,
            default=num_steps,
            metavar="T",
            help=steps + (f" (default: {default})" if num_steps is None else ""),
        )
        self.add_repeats(repeats)

    def add_lanes(self, default: Sequence[int] | None, help: str = "numbers of lanes") -> None:
        """Adds ``--num-envs``."""
        lanes = default and list(default)
        self.add_argument("--num-envs", nargs="+", type=positive, default=lanes, metavar="B", help=help)

    def add_repeats(self, default: int) -> None:
        """Adds ``--repeats``."""
        self.add_argument("--repeats", type=positive, default=default, metavar="R", help="timed runs of each side")

    def add_folder(self) -> None:
        """Adds ``--folder`` and ``--prefix``, for parts that write several files."""
        self.add_argument("--folder", type=folder, default="benchmarks/results", metavar="PATH", help="of files")
        self.add_argument("--prefix", default=jax.default_backend(), help="prefix of the names of the files")


class _Help(argparse.HelpFormatter):
    """Appends the default value to the help text of an argument that has one."""

    def _get_help_string(self, action):
        default = action.default
        if default in (None, False, argparse.SUPPRESS, []):
            return action.help
        shown = " ".join(map(str, default)) if isinstance(default, list) else "%(default)s"
        return f"{action.help or ''} (default: {shown})".strip()


def positive(text: str) -> int:
    """Parses a whole number of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, got {text!r}")
    return int(text)


def id(text: str) -> str:
    """Checks that an id is registered."""
    try:
        return jaxenv.spec(text).id
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def any_id(text: str) -> str:
    """Checks that an id is registered or names a suite, which knows its own ids."""
    suite = text.partition(":")[0]
    return text if suite != text and suite in SUITES else id(text)


def folder(text: str) -> pathlib.Path:
    """Checks that a folder exists."""
    path = pathlib.Path(text)
    if not path.is_dir():
        raise argparse.ArgumentTypeError(f"must be an existing folder, got {text!r}")
    return path


def result_file(text: str) -> dict[str, Any]:
    """Reads the result file of a part: its benchmark, device and rows."""
    try:
        content = json.loads(pathlib.Path(text).read_text())
        for row in content["rows"]:
            row["contestants"].values()
        return {"benchmark": content["benchmark"], "device": content["record"]["device"], "rows": content["rows"]}
    except OSError as error:
        raise argparse.ArgumentTypeError(f"cannot read {text!r}: {error.strerror}") from None
    except (ValueError, LookupError, TypeError, AttributeError):
        raise argparse.ArgumentTypeError(f"{text!r} is not a result file of a benchmark") from None


def new_file(text: str) -> pathlib.Path:
    """Parses the path of a file in an existing folder."""
    path = pathlib.Path(text)
    if path.is_dir() or not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"cannot write {text!r}: it must be a file in an existing folder")
    return path


def png_file(text: str) -> pathlib.Path:
    """Parses the path of a PNG file in an existing folder."""
    path = new_file(text)
    if path.suffix != ".png":
        raise argparse.ArgumentTypeError(f"must end with .png, got {text!r}")
    return path


def run(part: str, module: types.ModuleType, arguments: Sequence[str]) -> int:
    """Runs a part and returns its exit status.

    A part is a module with ``options(parser)``, which adds its options; ``rows(args)``, which yields the rows of the
    result file; and ``report(rows, args)``, which formats them. It may have ``check(parser, args)``, which refuses
    combinations of options; ``NAMES``, the entries by which ``--update`` finds a row; and ``failed(rows, args)``,
    whether the exit status is 1. A part that writes no result file of its own has ``main(args)`` in place of ``rows``.
    """
    args = parse(part, module, arguments)
    if hasattr(module, "main"):
        return module.main(args)
    try:
        rows = written(part, args, module.rows(args), getattr(module, "NAMES", ()))
    except measure.Unavailable as error:
        print(f"jaxenv bench {part}: {error}", file=sys.stderr)
        return 1
    print(module.report(rows, args) if rows else "nothing to run")
    return int(hasattr(module, "failed") and module.failed(rows, args))


def parse(part: str, module: types.ModuleType, arguments: Sequence[str]) -> argparse.Namespace:
    """Parses the options of a part; an invalid one ends the program with status 2 and a one-line message."""
    parser = Parser(part, module.__doc__ or "")
    module.options(parser)
    if hasattr(module, "rows"):
        parser.add_argument("--json", type=new_file, metavar="PATH", help="write all results to this file")
    if hasattr(module, "NAMES"):
        parser.add_argument("--update", action="store_true", help="replace only these rows in the file of --json")
    args = parser.parse_args(arguments)
    args.arguments = list(arguments)
    if getattr(args, "update", False) and args.json is None:
        parser.error("argument --update: needs --json, the file to update")
    if hasattr(module, "check"):
        module.check(parser, args)
    return args


def written(
    part: str, args: argparse.Namespace, rows: Iterable[dict[str, Any]], names: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """Writes the file of ``--json`` after every row, so a part that is stopped keeps what it has measured.

    Returns:
        The rows; with ``--update`` also those of the file that have other entries under ``names``. Empty if there is no
        new row.
    """
    kept = getattr(args, "update", False) and args.json.is_file()
    old, new, shown = json.loads(args.json.read_text())["rows"] if kept else [], [], []
    given = vars(args).items()
    settings = {k: v for k, v in given if k not in ("json", "update", "arguments") and not isinstance(v, pathlib.Path)}
    for row in rows:
        new.append(row)
        print(tables.progress(row), file=sys.stderr, flush=True)
        shown = _replaced(old, new, names)
        if args.json is not None:
            content = {"benchmark": part, "record": measure.record(), "settings": settings, "rows": shown}
            measure.write_json(args.json, content)
    return shown


def _replaced(
    old: Sequence[dict[str, Any]], new: Sequence[dict[str, Any]], names: Sequence[str]
) -> list[dict[str, Any]]:
    """Returns the new rows, and the old ones that have other entries under the names."""

    def named(row: dict[str, Any]) -> str:
        return json.dumps([row[name] for name in names])

    replaced = {named(row) for row in new}
    kept = [row for row in old if named(row) not in replaced]
    return sorted([*new, *kept], key=named) if kept else list(new)
