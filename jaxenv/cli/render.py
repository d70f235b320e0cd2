"""``jaxenv render``: a film of random actions."""

import argparse
import pathlib

import jax

import jaxenv
from jaxenv.cli._arguments import Help, assignment, integer, one_line


def add(commands) -> None:
    """Adds the command."""
    command = commands.add_parser(
        "render",
        help="write a film of an environment: GIF, MP4 or a strip of pictures",
        description="Plays an environment with random actions and writes a film of all lanes.",
        epilog="example: jaxenv render CartPole-v1 --num-envs 6 --out cart.gif",
        formatter_class=Help,
    )
    command.add_argument("id", metavar="ID", help="an environment from `jaxenv list`")
    command.add_argument("--out", metavar="FILE", default="rollout.gif", help="the file: .gif, .mp4 or .png")
    command.add_argument("--num-envs", metavar="N", type=integer(1), default=1, help="number of lanes, side by side")
    command.add_argument(
        "--num-steps",
        metavar="T",
        type=integer(1),
        help="steps of every lane (default: until the first episode of every lane has ended, at most 1000)",
    )
    command.add_argument("--size", metavar="N", type=integer(8), default=256, help="pixels along either side of a lane")
    command.add_argument("--fps", metavar="N", type=integer(1), default=30, help="steps per second")
    command.add_argument("--seed", metavar="S", type=integer(0), default=0, help="seed of all random numbers")
    command.add_argument(
        "--set",
        metavar="NAME=VALUE",
        nargs="+",
        action="extend",
        default=[],
        help="options and params of the environment, as for `jaxenv rollout`",
    )
    command.set_defaults(run=run, parser=command)


def run(args: argparse.Namespace) -> None:
    """Records the film and prints its path."""
    params = dict(assignment(text, args.parser) for text in args.set)
    try:
        env = jaxenv.load(args.id, args.num_envs, **params)
        path = jaxenv.record(
            env,
            path=pathlib.Path(args.out),
            key=jax.random.key(args.seed),
            num_steps=args.num_steps,
            size=args.size,
            fps=args.fps,
        )
    except (ImportError, OSError, TypeError, ValueError) as error:
        args.parser.error(one_line(error))
    print(f"{path}  {path.stat().st_size / 1000:,.0f} kB")
