"""Plays an environment with random actions, or the policy of a run of `jaxenv train`, and writes a film of all lanes.

examples: jaxenv render CartPole-v1 --num-envs 6 --out cart.gif; jaxenv render runs/CartPole-v1 --out long.gif
"""

import argparse
import pathlib
import sys
import warnings
from typing import Any

import jax

import jaxenv
from jaxenv.cli._arguments import add_options, integer, load_policy, settings_of
from jaxenv.cli._parser import Parser


def add(command: Parser) -> None:
    """Adds the arguments."""
    either = "an environment from `jaxenv list`, the folder of a run of `jaxenv train`, or baseline:ID[:LEARNER]"
    add_options(command, "id", help=either)
    add_options(command, "--policy-seed", "--module")
    add_options(command, "--out", metavar="FILE", default="rollout.gif", help="the file: .gif, .mp4 or .png")
    add_options(command, "--num-envs", help="number of lanes, side by side (default: those of one game)")
    length = "steps of every lane (default: until the first episode of every lane has ended, at most 1000)"
    add_options(command, "--num-steps", metavar="T", help=length)
    pixels = "pixels along either side of a lane"
    add_options(command, "--size", metavar="N", type=integer(8, 4096), default=256, help=pixels)
    add_options(command, "--fps", "--seed", "--env", "--max-episode-steps")


def run(args: argparse.Namespace) -> None:
    """Records the film and prints its path."""
    settings, shown, played = settings_of(args), "", dict[str, Any]()
    if args.id.startswith("baseline:") or (args.id not in jaxenv.ids() and pathlib.Path(args.id).is_dir()):
        trained = load_policy(args.id, args.policy_seed, args.modules)
        env = trained.make_env(args.num_envs, **settings)
        played = {"policy": trained.policy, "initial_memory": trained.make_memory(env.num_envs)}
        shown = f"  {trained.config.env_id}, seed {trained.seed} after {trained.steps:,} steps"
    elif args.policy_seed is not None or args.modules:
        option = "--module" if args.modules else "--policy-seed"
        raise ValueError(f"argument {option}: it is for the folder of a run, got {args.id}")
    else:
        env = jaxenv.make(args.id, args.num_envs, **settings)
    played |= {"num_steps": args.num_steps, "size": args.size, "fps": args.fps}
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        path = jaxenv.record(env, path=pathlib.Path(args.out), key=jax.random.key(args.seed), **played)
    print(f"{path}  {path.stat().st_size / 1000:,.0f} kB{shown}")
    for warning in warned:
        print(f"{args.parser.prog}: {warning.message}", file=sys.stderr)
