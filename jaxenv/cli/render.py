"""Plays an environment with random actions, or the policy of a run of `jaxenv train`, and writes a film of all lanes.

examples: jaxenv render CartPole-v1 --num-envs 6 --out cart.gif; jaxenv render runs/CartPole-v1 --env gravity=20 --out
heavy.gif
"""

import argparse
import pathlib
import sys
import warnings
from typing import Any

import jax

import jaxenv
from jaxenv.cli._arguments import add_options, integer, settings_of
from jaxenv.cli._parser import Parser
from jaxenv.cli._policies import load_policy


def add(command: Parser) -> None:
    """Adds the arguments."""
    either = "an environment from `jaxenv list`, the folder of a run, or baseline:ID[:LEARNER]"
    add_options(command, "id", nargs="?", help=either)
    policy = "show the policy of a run of `jaxenv train`, or of baseline:ID[:LEARNER]"
    add_options(command, "--run", metavar="DIR", dest="folder", help=policy)
    add_options(command, "--policy-seed", "--module")
    add_options(command, "--out", metavar="FILE", default="rollout.gif", help="the file: .gif, .mp4 or .png")
    add_options(command, "--num-envs", help="number of lanes, side by side (default: those of one game)")
    length = "steps of every lane (default: until the first episode of every lane has ended, at most 1000)"
    add_options(command, "--num-steps", metavar="T", help=length)
    pixels = "pixels along either side of a lane"
    add_options(command, "--size", metavar="N", type=integer(8, 4096), default=256, help=pixels)
    add_options(command, "--fps", metavar="N", default=30, help="steps per second")
    add_options(command, "--seed", "--env", "--max-episode-steps")


def run(args: argparse.Namespace) -> None:
    """Records the film and prints its path."""
    refuse = args.parser.error
    if args.id is None and args.folder is None:
        refuse("an ID is required, or --run DIR")
    if args.folder is None and _names_policy(args.id):
        args.folder, args.id = args.id, None
    settings, shown, played = settings_of(args), "", dict[str, Any]()
    if args.folder is None:
        if args.policy_seed is not None:
            refuse("argument --policy-seed: it is a seed of a run, give --run DIR")
        if args.modules:
            refuse("argument --module: it is for a run, give --run DIR; here module:ID imports it")
        env = jaxenv.load(args.id, args.num_envs, **settings)
    else:
        trained = load_policy(args.folder, args.policy_seed, args.modules)
        if args.id not in (None, trained.config.env_id):
            refuse(f"{args.folder} is a run of {trained.config.env_id}, not of {args.id}: leave out ID")
        env = trained.make_env(args.num_envs, **settings)
        played = {"policy": trained.policy, "initial_memory": trained.make_memory(env.num_envs)}
        shown = f"  {trained.config.env_id}, seed {trained.seed} after {trained.steps:,} steps"
    played |= {"num_steps": args.num_steps, "size": args.size, "fps": args.fps}
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        path = jaxenv.record(env, path=pathlib.Path(args.out), key=jax.random.key(args.seed), **played)
    print(f"{path}  {path.stat().st_size / 1000:,.0f} kB{shown}")
    for warning in warned:
        print(f"{args.parser.prog}: {warning.message}", file=sys.stderr)


def _names_policy(id: str) -> bool:
    """Returns whether an ID names a trained policy: a baseline, or a folder unless an environment has that id."""
    return id.startswith("baseline:") or (id not in jaxenv.ids() and pathlib.Path(id).is_dir())
