"""Plays an environment with the keyboard, in the terminal. The keys are shown with the picture.

examples: jaxenv play FrozenLake-v1 --env is_slippery=false; jaxenv play ConnectFour-v0 --against runs/ConnectFour-v0
"""

import argparse
from typing import Any

import jax

import jaxenv
from jaxenv import tree
from jaxenv.cli._arguments import add_options, integer, load_policy, settings_of
from jaxenv.cli._parser import Parser
from jaxenv.core.wrapper import Wrapper
from jaxenv.training import Trained
from jaxenv.wrappers import Opponent


def add(command: Parser) -> None:
    """Adds the arguments."""
    add_options(command, "id")
    fps = "steps per second; 0 waits for a key before each step (default: the task's, 0 for games)"
    command.add_argument("--fps", metavar="N", type=integer(0), help=fps)
    level = "play the level that FILE holds as text; a new file gets the level of the seed, for your editor"
    command.add_argument("--level", metavar="FILE", help=level)
    against = "in a game of turns, play against the policy of this run; each episode draws who begins"
    add_options(command, "--against", metavar="DIR", help=against)
    add_options(command, "--policy-seed", "--module", "--seed", "--env", "--max-episode-steps")


def run(args: argparse.Namespace) -> None:
    """Plays until the user quits."""
    if args.against is None:
        env = jaxenv.make(args.id, **settings_of(args))
    else:
        trained = load_policy(args.against, args.policy_seed, args.modules)
        if args.id != trained.config.env_id:
            raise ValueError(f"{args.against} is a run of {trained.config.env_id}, not of {args.id}")
        env = against(trained.make_env(1, **settings_of(args)), trained)
    jaxenv.play(env, jax.random.key(args.seed), args.fps, args.level)


def against(env: Any, trained: Trained) -> Any:
    """Returns the stack of a run whose `Opponent` plays by the trained policy, which must have no memory."""
    if isinstance(env, Opponent):

        def policy(timestep: jaxenv.TimeStep, stream: jaxenv.random.Stream, weights: Any) -> Any:
            return trained.policy(timestep, stream, weights).action

        return tree.rebuild(env, policy=policy, weights=trained.memory, league=0)
    if not isinstance(env, Wrapper):
        raise ValueError(f"--against must name a run in a game of turns, got one of {trained.config.env_id}")
    return tree.rebuild(env, env=against(env.env, trained))
