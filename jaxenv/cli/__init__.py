"""The command ``jaxenv``: list, show, play, roll out, film and check environments; train, watch and evaluate policies.

Results go to stdout; the progress bar and errors go to stderr. Wrong input is reported in one line with exit code 2.
"""

import os
import signal
import sys
from collections.abc import Sequence

import jaxenv
from jaxenv.cli import bench, check, evaluate, listing, play, render, rollout, show, train, watch
from jaxenv.cli._arguments import Parser
from jaxenv.cli._signals import quit_process

# In the order of the help. The function ``add(commands)`` of each module adds its parser.
COMMANDS = (listing, show, play, rollout, render, train, watch, evaluate, check, bench)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code.

    The code is 0 for success, 1 for a failed check or training run, 2 for wrong input, 130 for Ctrl-C, 143 for SIGTERM
    and 141 for a closed pipe.

    Args:
        argv: the arguments; those of the process by default.
    """
    if argv is None:
        signal.signal(signal.SIGINT, quit_process)
        sys.path.append("")  # for environments of the caller: `jaxenv show my_module:Hover-v0`
    try:
        try:
            args = make_parser().parse_args(argv)
            args.run(args)
        finally:
            sys.stdout.flush()
    except SystemExit as stop:  # argparse: --help, --version and wrong usage
        return int(stop.code or 0)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # `jaxenv list | head -1`
        # Python flushes stdout once more at exit; the rest of the output needs a place to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    return 0


def make_parser() -> Parser:
    """The parser with all commands."""
    parser = Parser(
        prog="jaxenv", description="Batched reinforcement learning environments under JAX, from the command line."
    )
    parser.add_argument("--version", action="version", version=f"jaxenv {jaxenv.__version__}")
    parser.set_defaults(run=lambda args: parser.print_help())  # without a command
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command")
    for command in COMMANDS:
        command.add(commands)
    return parser
