"""The command ``jaxenv``: what there is, how fast it runs, and whether it keeps its promises.

Results go to stdout, the progress bar and errors to stderr. Faulty input ends with one line and exit code 2.
"""

import os
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

import jaxenv
from jaxenv.cli import bench, check, listing, rollout, train
from jaxenv.cli._arguments import Parser

# Each adds its parser by ``add(commands)``, in this order in the help.
COMMANDS = (listing, rollout, train, check, bench)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code.

    It is 0, 1 for a failed check, 2 for faulty input, 130 for Ctrl-C, 141 for a closed pipe.

    Args:
        argv: the arguments, those of the process by default.
    """
    if argv is None:
        signal.signal(signal.SIGINT, _quit)
    try:
        try:
            args = parser().parse_args(argv)
            args.run(args)
        finally:
            sys.stdout.flush()
    except SystemExit as stop:  # argparse: --help, --version and faulty usage
        return int(stop.code or 0)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # `jaxenv list | head -1`
        # Python flushes stdout once more on its way out; what is left has to go somewhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    return 0


def _quit(*_) -> NoReturn:
    """Ends the process on Ctrl-C without unwinding.

    JAX loses a KeyboardInterrupt raised in one of its callbacks, and may crash at exit with a compilation cut short.
    """
    if sys.stderr.isatty():
        os.write(sys.stderr.fileno(), b"\x1b[?25h\n")  # the progress bar hides the cursor
    os._exit(130)


def parser() -> Parser:
    """The parser of all commands."""
    whole = Parser(prog="jaxenv", description="Batched JAX environments from the command line.")
    whole.add_argument("--version", action="version", version=f"jaxenv {jaxenv.__version__}")
    commands = whole.add_subparsers(title="commands", metavar="COMMAND", dest="command", required=True)
    for command in COMMANDS:
        command.add(commands)
    return whole
