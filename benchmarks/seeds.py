"""Rollouts of several seeds under ``jax.vmap``, compared with one batch of as many lanes, per restart strategy."""

import argparse
import sys
from collections.abc import Sequence
from typing import Any, get_args

import jaxenv
from benchmarks import command, measure
from benchmarks.ours import default_num_steps, rollout
from jaxenv.core.facts import ResetStrategy

STRATEGIES = get_args(ResetStrategy)


def compare(id: str, strategy: str, seeds: int, num_envs: int, num_steps: int, repeats: int) -> dict[str, Any]:
    """Runs both sides, interleaved, and returns a row of the result file.

    The ratio is the speed under ``vmap`` divided by the speed of one batch.
    """

    def env(lanes: int) -> jaxenv.Environment:
        return jaxenv.make(id, num_envs=lanes, reset_strategy=strategy)

    contestants = [
        rollout("under vmap", env(num_envs), num_steps, seeds=seeds),
        rollout("one batch", env(seeds * num_envs), num_steps),
    ]
    samples = measure.sample_interleaved(contestants, repeats)
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
    """Formats the results as an aligned table."""
    header, lines = ["id", "restarts", "seeds", "lanes", "under vmap", "one batch", "of one batch"], []
    for row in rows:
        rates = [measure.millions(side["steps_per_second"]) for side in row["contestants"].values()]
        ratio = f"{row['ratios']['under vmap']:.0%}"
        lines.append([row["id"], row["strategy"], str(row["seeds"]), str(row["num_envs"]), *rates, ratio])
    title = "Million environment steps per second: seeds x lanes under vmap, as a percentage of the speed of one batch."
    return "\n".join([title, measure.table(header, lines)])


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parses the settings; an invalid one ends the program with status 2 and a one-line message."""
    parser = command.Parser("seeds", __doc__)
    parser.add_argument(
        "--ids", nargs="+", type=command.id, default=["CartPole-v1", "Pendulum-v1"], metavar="ID", help="ids to run"
    )
    parser.add_argument("--seeds", type=command.positive, default=8, metavar="S", help="number of rollouts under vmap")
    parser.add_sizes(num_envs=[2048], num_steps=None)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the comparison, prints the table and writes the file."""
    args, rows = parse(arguments), []
    for id in args.ids:
        for num_envs in args.num_envs:
            for strategy in STRATEGIES:
                print(f"{id}, {args.seeds} x {num_envs} lanes, {strategy} ...", file=sys.stderr)
                num_steps = args.num_steps or default_num_steps(id, args.seeds * num_envs)
                rows.append(compare(id, strategy, args.seeds, num_envs, num_steps, args.repeats))
    return command.finish("seeds", args, rows, report, repeats=args.repeats, policy="random", autoreset="next_step")
