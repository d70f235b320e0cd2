"""Arguments of commands that show a trained policy, and its loading."""

import argparse
import os
from collections.abc import Sequence

from jaxenv import training
from jaxenv.cli._arguments import integer
from jaxenv.cli._parser import Parser
from jaxenv.training import Trained


def add_policy(command: argparse._ActionsContainer) -> None:
    """Adds ``--policy-seed``, for commands that show a trained policy."""
    command.add_argument(
        "--policy-seed",
        metavar="N",
        type=integer(0),
        help="which seed of the run to show, from 0 (default: the one with the best last evaluation)",
    )


def add_modules(command: Parser) -> None:
    """Adds ``--module``, for commands that read the folder of a run."""
    command.add_argument(
        "--module",
        metavar="NAME",
        dest="modules",
        action="append",
        default=[],
        help="import this module first, which registers the environment of the run; may be repeated",
    )


def load_policy(folder: str | os.PathLike, seed: int | None = None, modules: Sequence[str] = ()) -> Trained:
    """Loads the policy of a run's folder, or a shipped one: ``baseline:ID`` or ``baseline:ID:LEARNER``."""
    prefix, _, name = str(folder).partition(":")
    if prefix != "baseline":
        return training.load(folder, seed, modules)
    if seed is not None:
        raise ValueError(f"{folder} is one policy: leave out --policy-seed")
    if modules:
        raise ValueError(f"{folder} is a policy of this library: leave out --module")
    env_id, _, algorithm = name.partition(":")
    return training.baseline(env_id, algorithm or None)
