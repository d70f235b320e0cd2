"""The command ``jaxenv``: list, show, play, roll out, film and check environments; train, watch and evaluate policies.

Results go to stdout; the progress bar and errors go to stderr. Wrong input is reported in one line with exit code 2.
JAX and the module of a command are imported when the command is parsed.
"""

import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

import jaxenv
from jaxenv.cli._parser import Parser
from jaxenv.cli._process import keep_programs, quit_process

# In the order of the help: the module and the summary of each command, see `Parser`.
COMMANDS = {
    "list": ("listing", "list the environments, or those that match some words"),
    "show": ("show", "show an environment: spec sheet, params, options, stack, picture"),
    "play": ("play", "play an environment with the keyboard, in the terminal"),
    "rollout": ("rollout", "step an environment with random actions: speed and episode statistics"),
    "render": ("render", "write a film of an environment or a trained policy: GIF, MP4 or a strip of pictures"),
    "train": ("train", "train a policy from several seeds: learning curve as CSV and PNG, checkpoints"),
    "watch": ("watch", "watch a trained policy in the terminal, also while it is being trained"),
    "eval": ("evaluate", "evaluate the policy of a training run on whole episodes"),
    "check": ("check", "check the properties of environments; exit code 1 if one fails"),
    "certify": ("certify", "check an environment of another library in the words of its own API"),
    "bench": ("bench", "run a part of the benchmarks (in a clone of the repository); `jaxenv bench --help` lists them"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command, by default the process's, and returns its exit code.

    0 is success, 1 a failed check or training run, 2 wrong input, 130 Ctrl-C, 143 SIGTERM and 141 a closed pipe.
    """
    if argv is None:
        signal.signal(signal.SIGINT, quit_process)
        sys.path.append("")  # finds the caller's environments: `jaxenv show my_module:Hover-v0`
        keep_programs()
    try:
        try:
            args = make_parser().parse_args(argv)
            args.parser.run(args)
        finally:
            sys.stdout.flush()
    except SystemExit as stop:  # argparse: --help, --version and wrong usage
        return int(stop.code or 0)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # `jaxenv list | head -1`
        # Python flushes stdout again at exit, so the rest of the output needs a destination.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    return 0


def make_parser() -> Parser:
    """Builds the parser with all commands, which add their own arguments when they parse."""
    about = "Batched reinforcement learning environments under JAX, from the command line."
    parser = Parser(prog="jaxenv", description=about)
    parser.add_argument("--version", action="version", version=f"jaxenv {jaxenv.__version__}")
    parser.set_defaults(parser=parser)  # without a command
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command")
    for name, (module, summary) in COMMANDS.items():
        # `bench` passes all of its arguments on, so none of them is an option here.
        options: dict[str, Any] = {"add_help": False, "prefix_chars": "\0"} if name == "bench" else {}
        commands.add_parser(name, module=f"{__name__}.{module}", help=summary, **options)
    return parser
