"""``jaxenv bench``: the benchmarks, in a clone of the repository."""

import argparse
import importlib
import pathlib
import sys
from typing import Any

from jaxenv import _source


def add(commands: Any) -> None:
    """Adds the command."""
    command = commands.add_parser(
        "bench",
        help="run a part of the benchmarks (in a clone of the repository); `jaxenv bench --help` lists them",
        add_help=False,
        prefix_chars="\0",  # all arguments are passed on, so none of them is an option here
    )
    command.add_argument("arguments", nargs="*")
    command.set_defaults(run=run, parser=command)


def run(args: argparse.Namespace) -> None:
    """Passes all arguments to the benchmarks."""
    folders = [folder for folder in (pathlib.Path.cwd(), _source.clone()) if folder is not None]
    root = next((folder for folder in folders if (folder / "benchmarks" / "__main__.py").is_file()), None)
    if root is None:
        args.parser.error("the benchmarks are not installed with the library: run this in a clone of its repository")
    sys.path.insert(0, str(root))
    raise SystemExit(importlib.import_module("benchmarks.__main__").main(args.arguments))
