"""``jaxenv bench``: the benchmarks, in a clone of the repository."""

import argparse
import importlib
import pathlib
import sys

from jaxenv._util import source
from jaxenv.cli._parser import Parser


def add(command: Parser) -> None:
    """Adds the arguments."""
    command.add_argument("arguments", nargs="*")


def run(args: argparse.Namespace) -> None:
    """Passes all arguments to the benchmarks."""
    folders = [folder for folder in (pathlib.Path.cwd(), source.clone()) if folder is not None]
    root = next((folder for folder in folders if (folder / "benchmarks" / "__main__.py").is_file()), None)
    if root is None:
        args.parser.error("the benchmarks are not installed with the library: run this in a clone of its repository")
    sys.path.insert(0, str(root))
    raise SystemExit(importlib.import_module("benchmarks.__main__").main(args.arguments))
