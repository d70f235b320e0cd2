"""Checks an environment of another library in the words of its own API.

The exit code is 1 if a property failed, and 3 if none failed but some were not run.

example: jaxenv certify my_module:make_env --api jumanji
"""

import argparse
import json
import sys

from jaxenv.cli._arguments import add_options
from jaxenv.cli._parser import Parser
from jaxenv.rollout._progress import progress
from jaxenv.testing import certify
from jaxenv.testing._certify import PROPERTIES
from jaxenv.testing._certify._dialects import DIALECTS
from jaxenv.testing._elsewhere import exit_with


def add(command: Parser) -> None:
    """Adds the arguments."""
    command.add_argument("env", metavar="ENV", help="library:ID, or module:factory of an environment of your own")
    api = "the API; gymnax0 is gymnax before 1.0 (default: the library's own)"
    command.add_argument("--api", choices=DIALECTS, help=api)
    command.add_argument("--against", metavar="ENV", help="a reference, given as ENV is, that ENV must match")
    add_options(command, "--properties", "--seed")
    command.add_argument("--seconds", type=float, default=60.0, help="the time for each property")
    add_options(command, "--json")


def run(args: argparse.Namespace) -> None:
    """Prints the report and exits with its status."""
    names = args.properties or [*PROPERTIES, *(["matches_reference"] if args.against else [])]
    options = {name: getattr(args, name) for name in ("against", "seed", "seconds")}
    try:
        with progress(len({"runs_under_jit", *names}), "properties") as done:
            report = certify(args.env, args.api, properties=names, progress=lambda name: done(1, name), **options)
    except TimeoutError as error:  # from the making of the environment
        print(f"{args.parser.prog}: error: {str(error).removeprefix('certify: ')}", file=sys.stderr)
        exit_with(2)
    print(json.dumps(report.as_dict()) if args.json else f"{report}\n\nbadge: {report.badge}")
    exit_with(report.exit_status)
