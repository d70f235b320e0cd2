"""Rollouts of several seeds under ``jax.vmap``, beside as many lanes in one batch, for each way to restart lanes."""

import argparse
import sys
from collections.abc import Sequence
from typing import Any, get_args

import jaxenv
from benchmarks import command, measure
from benchmarks.ours import default_num_steps, rollout
from jaxenv.environment import ResetStrategy

STRATEGIES = get_args(ResetStrategy)


def compare(id: str, strategy: str, seeds: int, num_envs: int, num_steps: int, repeats: int) -> dict[str, Any]:
    """Runs both sides in turn: a row of the result file. The ratio is that of the seeds over the one batch."""

    def env(lanes: int) -> jaxenv.Environment:
        return jaxenv.make(id, num_envs=lanes, reset=strategy)

    contestants = [
        rollout("under vmap", env(num_envs), num_steps, seeds=seeds),
        rollout("one batch", env(seeds * num_envs), num_steps),
    ]
    samples = measure.in_turn(contestants, repeats)
    rates = {name: measure.steps_per_second(s) for name, s in samples.items()}
    return {
        "id": id,
        "strategy": strategy,
        "seeds": seeds,
        "num_envs": num_envs,
        "num_steps": num_steps,
        "contestants": {c.name: measure.summary(c, samples[c.name]) for c in contestants},
        "ratios": {"under vmap": rates["under vmap"] / rates["one batch"]},
        "notes": [],
    }


def report(rows: Sequence[dict[str, Any]]) -> str:
    """The figures as an aligned table."""
    header, lines = ["id", "restarts", "seeds", "lanes", "under vmap", "one batch", "ratio"], []
    for row in rows:
        rates = [measure.millions(side["steps_per_second"]) for side in row["contestants"].values()]
        ratio = f"{row['ratios']['under vmap']:.0%}"
        lines.append([row["id"], row["strategy"], str(row["seeds"]), str(row["num_envs"]), *rates, ratio])
    title = "Million environment steps a second: seeds x lanes under vmap, and the same lanes in one batch."
    return "\n".join([title, measure.table(header, lines)])


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The settings from the command line; bad ones end the program with status 2 and one line."""
    parser = command.Parser("seeds", __doc__)
    parser.add_argument(
        "--ids", nargs="+", type=command.id, default=["CartPole-v1", "Pendulum-v1"], metavar="ID", help="which tasks"
    )
    parser.add_argument("--seeds", type=command.positive, default=8, metavar="S", help="rollouts under vmap")
    parser.add_sizes(num_envs=[2048], num_steps=None)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs both sides, prints the table and writes the file."""
    args, rows = parse(arguments), []
    for id in args.ids:
        for num_envs in args.num_envs:
            for strategy in STRATEGIES:
                print(f"{id}, {args.seeds} x {num_envs} lanes, {strategy} ...", file=sys.stderr)
                num_steps = args.num_steps or default_num_steps(id, args.seeds * num_envs)
                rows.append(compare(id, strategy, args.seeds, num_envs, num_steps, args.repeats))
    return command.finish("seeds", args, rows, report, repeats=args.repeats, policy="random", autoreset="next_step")
