"""Steps a batch of environments with random actions and prints speed and episode statistics.

example: jaxenv rollout CartPole-v1 --num-envs 4096 --num-steps 1000 --env gravity=3.7
"""

import argparse
import json
import math
from typing import Any, cast, get_args

import jax
import numpy as np

import jaxenv
from jaxenv.cli._arguments import add_options, settings_of, simulate_devices
from jaxenv.cli._parser import Parser
from jaxenv.core.facts import ResetStrategy
from jaxenv.core.registry import suite_of
from jaxenv.rollout import ChunkedRollout
from jaxenv.rollout._progress import progress


def add(command: Parser) -> None:
    """Adds the arguments."""
    add_options(command, "id")
    add_options(command, "--num-envs", default=1024)
    add_options(command, "--num-steps", metavar="T", default=1000, help="steps of every lane")
    add_options(command, "--seed")
    add_options(command, "--devices", help="number of devices that share the lanes; on a CPU, N of its threads")
    add_options(command, "--json", "--env", "--max-episode-steps")
    modes, autoreset = (
        ("next_step", "same_step"),
        "whether an episode starts on the step after the end, or on that step",
    )
    command.add_argument("--autoreset", choices=modes, default="next_step", help=autoreset)
    strategy = (
        "restart strategy: reset all lanes and select those that ended, do so only on steps where any lane ended, "
        "or reset only the lanes that ended (default: the one that the environment declares)"
    )
    command.add_argument("--reset-strategy", choices=get_args(ResetStrategy), help=strategy)


def run(args: argparse.Namespace) -> None:
    """Runs a `ChunkedRollout` of random actions and prints its metrics."""
    settings = settings_of(args)
    params = {name: value for name, value in settings.items() if name != "max_episode_steps"}
    simulate_devices(args.devices)
    try:
        if suite_of(args.id) is None:  # `load` would also take the other keywords of `make`
            jaxenv.spec(args.id).make(args.num_envs, **params)
        # Left out unless given, since the suites outside JAX have none.
        strategy = {} if args.reset_strategy is None else {"reset_strategy": args.reset_strategy}
        env = jaxenv.make(args.id, args.num_envs, autoreset=args.autoreset, **strategy, **settings)
        rollout = ChunkedRollout(env, args.num_steps, jax.random.key(args.seed), devices=args.devices)
    except TypeError as error:
        # An argument of the wrong type may fail only when it is used.
        parser: Parser = args.parser
        parser.error(f"{args.id} cannot run with {params}: {error}")
    rows = 0
    with progress(args.num_steps) as advance:
        for chunk in rollout:
            advance(chunk.rows - rows)
            rows = chunk.rows
    metrics = {
        "compile_seconds": rollout.compile_seconds,
        "run_seconds": chunk.seconds,
        "steps_per_second": chunk.cumulative["steps"] / chunk.seconds,
        **chunk.cumulative,
    }

    device = jax.devices()[0]
    name = device.platform if device.device_kind == device.platform else f"{device.platform} ({device.device_kind})"
    if args.json:
        options = ("id", "num_envs", "num_steps", "seed", "devices", "max_episode_steps", "autoreset", "reset_strategy")
        given = {option: getattr(args, option) for option in options}
        given["reset_strategy"] = env.reset_strategy  # the one in use
        if args.max_episode_steps is None and suite_of(args.id) is None:
            spec, task = jaxenv.spec(args.id), cast(Any, env.unwrapped)
            limit = task.time_limit if spec.limit_follows_params else spec.max_episode_steps
            given["max_episode_steps"] = np.asarray(limit).tolist()
        print(json.dumps({**given, "params": params, "device": name, **finite(metrics)}))
        return
    count = f"{args.devices} x " if args.devices > 1 else ""
    lanes = f"{args.num_envs} lanes x {args.num_steps} steps"
    print(f"{args.id}, {lanes} on {count}{name}, random actions, seed {args.seed}")
    print(format_metrics(metrics, args.num_envs * args.num_steps))


def format_metrics(metrics: dict[str, Any], rows: int) -> str:
    """Formats the metrics of a rollout of ``rows`` rows in all lanes as aligned text."""

    def number(value: Any, spec: str = ".2f") -> str:
        if isinstance(value, list):  # a vector reward
            return ", ".join(number(x, spec) for x in value)
        return format(value, spec)

    def mean_and_std(name: str) -> str:
        if not metrics["episodes"]:
            return "no episode finished"
        return f"{number(metrics[f'{name}_mean'])}, standard deviation {number(metrics[f'{name}_std'])}"

    restarts = rows - metrics["steps"]
    lines = {
        "compile time": f"{metrics['compile_seconds']:.2f} s",
        "run time": f"{metrics['run_seconds']:.3f} s",
        "environment steps": f"{metrics['steps']:,}" + (f" (and {restarts:,} restarts)" if restarts else ""),
        "steps per second": f"{metrics['steps_per_second']:,.0f}",
        "episodes finished": f"{metrics['episodes']:,}",
        "  by termination": f"{metrics['terminated']:,}",
        "  by truncation": f"{metrics['truncated']:,}",
        "mean return": mean_and_std("return"),
        "mean length": mean_and_std("length"),
        "reward per step": number(metrics["reward_per_step"], ".4g") if metrics["steps"] else "no step",
    }
    width = max(map(len, lines))
    return "\n".join(f"  {name.ljust(width)}  {value}" for name, value in lines.items())


def finite(metrics: dict[str, Any]) -> dict[str, Any]:
    """Replaces NaN and infinity, which JSON does not have, by ``None``."""
    return {n: None if isinstance(x, float) and not math.isfinite(x) else x for n, x in metrics.items()}
