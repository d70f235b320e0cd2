"""Plays an environment with the keyboard, in the terminal. The keys are shown with the picture.

example: jaxenv play FrozenLake-v1 --env is_slippery=false
"""

import argparse

import jax

import jaxenv
from jaxenv.cli._arguments import add_options, integer, settings_of
from jaxenv.cli._parser import Parser


def add(command: Parser) -> None:
    """Adds the arguments."""
    add_options(command, "id")
    command.add_argument(
        "--fps",
        metavar="N",
        type=integer(0),
        help="steps per second; 0 waits for a key before each step (default: the task's, 0 for games)",
    )
    command.add_argument(
        "--level",
        metavar="FILE",
        help="play the level that FILE holds as text; a new file gets the level of the seed, for your editor",
    )
    add_options(command, "--seed", "--env", "--max-episode-steps")


def run(args: argparse.Namespace) -> None:
    """Plays until the user quits."""
    env = jaxenv.load(args.id, **settings_of(args))
    jaxenv.play(env, jax.random.key(args.seed), args.fps, args.level)
