"""``jaxenv render``: a film of random actions, or of a trained policy."""

import argparse
import pathlib
import sys
import warnings
from typing import Any

import jax

import jaxenv
from jaxenv.cli._arguments import add_env_settings, add_lanes, add_seed, add_time_limit, integer, one_line, settings_of
from jaxenv.cli._parser import Parser
from jaxenv.cli._policies import add_modules, add_policy, load_policy


def add(command: Parser) -> None:
    """Adds description and arguments."""
    command.description = (
        "Plays an environment with random actions, or the policy of a run of `jaxenv train`, and writes a "
        "film of all lanes."
    )
    command.epilog = (
        "examples: jaxenv render CartPole-v1 --num-envs 6 --out cart.gif; "
        "jaxenv render runs/CartPole-v1 --env gravity=20 --out heavy.gif"
    )
    command.add_argument(
        "id",
        metavar="ID",
        nargs="?",
        help="an environment from `jaxenv list`, the folder of a run, or baseline:ID[:LEARNER]",
    )
    command.add_argument(
        "--run",
        metavar="DIR",
        dest="folder",
        help="show the policy of a run of `jaxenv train`, or of baseline:ID[:LEARNER]",
    )
    add_policy(command)
    add_modules(command)
    command.add_argument("--out", metavar="FILE", default="rollout.gif", help="the file: .gif, .mp4 or .png")
    add_lanes(command, None, "number of lanes, side by side (default: those of one game)")
    command.add_argument(
        "--num-steps",
        metavar="T",
        type=integer(1),
        help="steps of every lane (default: until the first episode of every lane has ended, at most 1000)",
    )
    command.add_argument(
        "--size", metavar="N", type=integer(8, 4096), default=256, help="pixels along either side of a lane"
    )
    command.add_argument("--fps", metavar="N", type=integer(1), default=30, help="steps per second")
    add_seed(command)
    add_env_settings(command)
    add_time_limit(command)
    command.set_defaults(run=run, parser=command)


def run(args: argparse.Namespace) -> None:
    """Records the film and prints its path."""
    if args.id is None and args.folder is None:
        args.parser.error("an ID is required, or --run DIR")
    if args.folder is None and _names_policy(args.id):
        args.folder, args.id = args.id, None
    settings = settings_of(args)
    played: dict[str, Any] = {}
    shown = ""
    try:
        if args.folder is None:
            if args.policy_seed is not None:
                args.parser.error("argument --policy-seed: it is a seed of a run, give --run DIR")
            if args.modules:
                args.parser.error("argument --module: it is for a run, give --run DIR; here module:ID imports it")
            env = jaxenv.load(args.id, args.num_envs, **settings)
        else:
            trained = load_policy(args.folder, args.policy_seed, args.modules)
            if args.id not in (None, trained.config.env_id):
                args.parser.error(f"{args.folder} is a run of {trained.config.env_id}, not of {args.id}: leave out ID")
            env = trained.make_env(args.num_envs, **settings)
            played = {"policy": trained.policy, "initial_memory": trained.make_memory(env.num_envs)}
            shown = f"  {trained.config.env_id}, seed {trained.seed} after {trained.steps:,} steps"
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            path = jaxenv.record(
                env,
                path=pathlib.Path(args.out),
                key=jax.random.key(args.seed),
                num_steps=args.num_steps,
                size=args.size,
                fps=args.fps,
                **played,
            )
        size = path.stat().st_size
    except (ImportError, OSError, TypeError, ValueError) as error:
        args.parser.error(one_line(error))
    print(f"{path}  {size / 1000:,.0f} kB{shown}")
    for warning in warned:
        print(f"{args.parser.prog}: {warning.message}", file=sys.stderr)


def _names_policy(id: str) -> bool:
    """Returns whether an ID names a trained policy: a baseline, or a folder unless an environment has that id."""
    return id.startswith("baseline:") or (id not in jaxenv.ids() and pathlib.Path(id).is_dir())
