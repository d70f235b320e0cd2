"""The command line of the parts: argument types, one-line error messages, and the result file."""

import argparse
import json
import pathlib
import sys
import types
from collections.abc import Callable, Collection, Sequence
from typing import Any, NoReturn

import jax

import jaxenv
from benchmarks import measure
from benchmarks.measure import Unavailable
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

    def parse_args(self, args=None, namespace=None):
        found = super().parse_args(args, namespace)
        if getattr(found, "update", False) and found.json is None:
            self.error("argument --update: needs --json, the file to update")
        return found

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
        """Adds ``--num-envs``, ``--num-steps``, ``--repeats`` and ``--json`` with these defaults."""
        default = "at least three mean episodes and 2^20 steps over all lanes"
        self.add_argument(
            "--num-envs", nargs="+", type=positive, default=list(num_envs), metavar="B", help="numbers of lanes"
        )
        self.add_argument(
            "--num-steps",
            type=positive,
            default=num_steps,
            metavar="T",
            help=steps + (f" (default: {default})" if num_steps is None else ""),
        )
        self.add_argument("--repeats", type=positive, default=repeats, metavar="R", help="timed runs of each side")
        self.add_json()

    def add_json(self) -> None:
        """Adds ``--json``."""
        self.add_argument("--json", type=new_file, metavar="PATH", help="write all results to this file")

    def add_update(self) -> None:
        """Adds ``--update``, for parts whose rows take long: `finish` then adds to the file of ``--json``."""
        self.add_argument("--update", action="store_true", help="replace only these rows in the file of --json")


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


def natural(text: str) -> int:
    """Parses a whole number of at least 0."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 0, got {text!r}")
    return int(text)


def fraction(text: str) -> float:
    """Parses a number from 0 to 1."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"must be a number from 0 to 1, got {text!r}")
    return value


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


def one_of(names: Collection[str]) -> Callable[[str], str]:
    """Returns a check that a text is one of the names."""

    def name(text: str) -> str:
        if text not in names:
            raise argparse.ArgumentTypeError(f"must be one of {', '.join(names)}, got {text!r}")
        return text

    return name


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
    combinations of options, and ``NAMES``, the entries by which ``--update`` finds a row. The file is written after
    every row, so a part that is stopped keeps what it has measured.
    """
    args = parse(part, module, arguments)
    given = {k: v for k, v in vars(args).items() if k not in ("json", "update") and not isinstance(v, pathlib.Path)}
    names, rows, shown = getattr(module, "NAMES", ()), [], []
    old = _old(args)
    try:
        for row in module.rows(args):
            rows.append(row)
            print("  ".join(f"{k} {v}" for k, v in row.items() if type(v) in (str, int)), file=sys.stderr)
            shown = _replaced(old, rows, names)
            _write(part, args, shown, given)
    except Unavailable as error:
        print(f"jaxenv bench {part}: {error}", file=sys.stderr)
        return 1
    print(module.report(shown, args) if rows else "nothing to run")
    return 0


def start_with_devices(number: int) -> None:
    """Starts JAX with simulated devices.

    Raises:
        Unavailable: if it has already started with fewer.
    """
    try:
        jax.config.update("jax_num_cpu_devices", number)
    except RuntimeError:
        if len(jax.devices()) < number:
            raise Unavailable(f"JAX has started with {len(jax.devices())} devices, {number} are needed") from None


def parse(part: str, module: types.ModuleType, arguments: Sequence[str]) -> argparse.Namespace:
    """Parses the options of a part; an invalid one ends the program with status 2 and a one-line message."""
    parser = Parser(part, module.__doc__ or "")
    module.options(parser)
    args = parser.parse_args(arguments)
    if hasattr(module, "check"):
        module.check(parser, args)
    return args


def finish(
    part: str,
    args: argparse.Namespace,
    rows: Sequence[dict[str, Any]],
    report: Callable[[Sequence[dict[str, Any]]], str],
    *,
    names: Sequence[str] = (),
    **settings: Any,
) -> int:
    """Prints the table, writes the result file if ``--json`` is given, and returns exit status 0.

    With ``--update`` both hold the rows of the file too, but those with the same entries under ``names`` as a new row.
    """
    shown = _replaced(_old(args), rows, names)
    print(report(shown))
    _write(part, args, shown, settings)
    return 0


def _old(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Returns the rows that ``--update`` keeps."""
    return json.loads(args.json.read_text())["rows"] if getattr(args, "update", False) and args.json.is_file() else []


def _replaced(
    old: Sequence[dict[str, Any]], new: Sequence[dict[str, Any]], names: Sequence[str]
) -> list[dict[str, Any]]:
    """Returns the new rows, and the old ones that have other entries under the names."""

    def named(row: dict[str, Any]) -> str:
        return json.dumps([row[name] for name in names])

    replaced = {named(row) for row in new}
    kept = [row for row in old if named(row) not in replaced]
    return sorted([*new, *kept], key=named) if kept else list(new)


def _write(part: str, args: argparse.Namespace, rows: Sequence[dict[str, Any]], settings: dict[str, Any]) -> None:
    if args.json is not None:
        content = {"benchmark": part, "record": measure.record(), "settings": settings, "rows": list(rows)}
        measure.write_json(args.json, content)
