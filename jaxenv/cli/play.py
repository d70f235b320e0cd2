"""``jaxenv play``: play an environment with the keyboard."""

import argparse

import jax

import jaxenv
from jaxenv.cli._arguments import add_env_settings, add_seed, add_time_limit, integer, one_line, settings_of
from jaxenv.cli._parser import Parser


def add(command: Parser) -> None:
    """Adds description and arguments."""
    command.description = (
        "Plays an environment with the keyboard, in the terminal. The keys are shown with the picture."
    )
    command.epilog = "example: jaxenv play FrozenLake-v1 --env is_slippery=false"
    command.add_argument("id", metavar="ID", help="an environment from `jaxenv list`")
    command.add_argument(
        "--fps",
        metavar="N",
        type=integer(0),
        help="steps per second; 0 waits for a key before each step (default: the task's, 0 for games)",
    )
    command.add_argument(
        "--edit",
        metavar="FILE",
        help="edit a level as text, save it in FILE and play it; for FrozenLake, AMaze and some grid worlds",
    )
    add_seed(command)
    add_env_settings(command)
    add_time_limit(command)
    command.set_defaults(run=run, parser=command)


def run(args: argparse.Namespace) -> None:
    """Plays until the user quits."""
    params = settings_of(args)
    try:
        jaxenv.play(jaxenv.load(args.id, **params), jax.random.key(args.seed), args.fps, args.edit)
    except (ImportError, TypeError, ValueError) as error:
        args.parser.error(one_line(error).removeprefix("play: "))
