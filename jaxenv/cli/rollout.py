"""``jaxenv rollout``: speed and episode statistics of random actions."""

import argparse
import json
import math
from typing import Any, get_args

import jax

import jaxenv
from jaxenv.cli._arguments import Help, assignment, integer, one_line
from jaxenv.environment import ResetStrategy
from jaxenv.rollout import ChunkedRollout


def add(commands) -> None:
    """Adds the command."""
    command = commands.add_parser(
        "rollout",
        help="step an environment with random actions: speed and episode statistics",
        description="Steps a batch of environments with random actions and prints speed and episode statistics.",
        epilog="example: jaxenv rollout CartPole-v1 --num-envs 4096 --num-steps 1000 --set gravity=3.7",
        formatter_class=Help,
    )
    command.add_argument(
        "id", metavar="ID", help="which environment, as `jaxenv list` names it, or one of a suite: gymnax:ID"
    )
    command.add_argument("--num-envs", metavar="N", type=integer(1), default=1024, help="how many lanes")
    command.add_argument("--num-steps", metavar="T", type=integer(1), default=1000, help="how many steps a lane")
    command.add_argument("--seed", metavar="S", type=integer(0), default=0, help="where all randomness comes from")
    command.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    command.add_argument(
        "--set",
        metavar="NAME=VALUE",
        nargs="+",
        action="extend",
        default=[],
        help="parameters of the environment: a number, true or false, or N numbers with commas, one per lane",
    )
    command.add_argument(
        "--autoreset",
        choices=("next_step", "same_step"),
        default="next_step",
        help="whether an episode begins on the step after the last one or on that very step",
    )
    command.add_argument(
        "--reset",
        choices=get_args(ResetStrategy),
        help="how lanes are restarted: all computed and some kept, the same where any ended, or only those that ended "
        "(default: what the environment declares)",
    )
    command.set_defaults(run=run, parser=command)


def run(args: argparse.Namespace) -> None:
    """Runs a `ChunkedRollout` of random actions and prints its figures."""
    params = dict(assignment(text, args.parser) for text in args.set)
    if unknown := {"num_envs", "self"} & params.keys():
        args.parser.error(f"argument --set: {unknown.pop()} is no parameter of an environment")
    try:
        if ":" not in args.id:  # of this library: no keyword of `make` may pass for a parameter
            jaxenv.spec(args.id).make(args.num_envs, **params)
        env = jaxenv.load(args.id, args.num_envs, autoreset=args.autoreset, reset=args.reset, **params)
        program = ChunkedRollout(env, args.num_steps, jax.random.key(args.seed))
    except (ImportError, ValueError) as fault:
        args.parser.error(one_line(fault))
    except TypeError as fault:
        # A constructor argument of the wrong type shows only where it is used.
        args.parser.error(f"{args.id} cannot run with {params}: {one_line(fault)}")
    figures = {"compile_seconds": program.compile_seconds, **program()}

    device = jax.devices()[0]
    name = device.platform if device.device_kind == device.platform else f"{device.platform} ({device.device_kind})"
    if args.json:
        given = {n: getattr(args, n) for n in ("id", "num_envs", "num_steps", "seed", "autoreset", "reset")}
        print(json.dumps({**given, "params": params, "device": name, **finite(figures)}))
        return
    print(f"{args.id}, {args.num_envs} lanes x {args.num_steps} steps on {name}, random actions, seed {args.seed}")
    print(block(figures, args.num_envs * args.num_steps))


def block(figures: dict[str, Any], rows: int) -> str:
    """The figures as aligned text."""

    def number(value: Any, form: str = ".2f") -> str:
        if isinstance(value, list):  # of a vector reward
            return ", ".join(number(x, form) for x in value)
        return format(value, form)

    def spread(what: str) -> str:
        if not figures["episodes"]:
            return "no episode finished"
        return f"{number(figures[f'{what}_mean'])}, standard deviation {number(figures[f'{what}_std'])}"

    starts = rows - figures["steps"]
    lines = {
        "compile time": f"{figures['compile_seconds']:.2f} s",
        "run time": f"{figures['run_seconds']:.3f} s",
        "environment steps": f"{figures['steps']:,}" + (f" ({starts:,} more rows began an episode)" if starts else ""),
        "steps per second": f"{figures['steps_per_second']:,.0f}",
        "episodes finished": f"{figures['episodes']:,}",
        "  by termination": f"{figures['terminated']:,}",
        "  by truncation": f"{figures['truncated']:,}",
        "mean return": spread("return"),
        "mean length": spread("length"),
        "reward per step": number(figures["reward_per_step"], ".4g") if figures["steps"] else "no step",
    }
    width = max(map(len, lines))
    return "\n".join(f"  {name.ljust(width)}  {value}" for name, value in lines.items())


def finite(figures: dict[str, Any]) -> dict[str, Any]:
    """JSON knows no NaN and no infinity: null stands for them."""
    return {n: None if isinstance(x, float) and not math.isfinite(x) else x for n, x in figures.items()}
