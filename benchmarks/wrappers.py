"""Cost of each wrapper: the time of a rollout with it, compared with the same rollout without it."""

import argparse
import statistics
import sys
from collections.abc import Callable, Sequence
from typing import Any

import jax

import jaxenv
from benchmarks import command, measure
from benchmarks.ours import rollout
from jaxenv.wrappers import AutoReset, ClipAction, EpisodeStatistics, GuardNonFinite, TimeLimit

Build = Callable[[str, int], jaxenv.Environment]


def _bare(id: str, num_envs: int) -> jaxenv.Environment:
    return jaxenv.spec(id).make(num_envs)


def _limited(id: str, num_envs: int) -> jaxenv.Environment:
    return TimeLimit(_bare(id, num_envs), jaxenv.spec(id).max_episode_steps or 1000)


# Stack -> its constructor, and the stack that it is compared with. The bare environment continues past its ends.
STACKS: dict[str, tuple[Build, str]] = {
    "bare": (_bare, "bare"),
    "TimeLimit": (_limited, "bare"),
    "ClipAction": (lambda *size: ClipAction(_bare(*size)), "bare"),
    "GuardNonFinite": (lambda *size: GuardNonFinite(_bare(*size)), "bare"),
    "AutoReset": (lambda *size: AutoReset(_bare(*size)), "bare"),
    "AutoReset + TimeLimit": (lambda *size: AutoReset(_limited(*size)), "AutoReset"),
    "AutoReset + TimeLimit + EpisodeStatistics": (
        lambda *size: AutoReset(EpisodeStatistics(_limited(*size))),
        "AutoReset",
    ),
    "EpisodeStatistics + AutoReset + TimeLimit": (
        lambda *size: EpisodeStatistics(AutoReset(_limited(*size))),
        "AutoReset",
    ),
    "all of make": (jaxenv.make, "bare"),
}


def compare(id: str, num_envs: int, num_steps: int, repeats: int) -> dict[str, Any]:
    """Runs all stacks, interleaved, and returns a row of the result file.

    Ratios are the time of a stack divided by the time of its base stack. Rows are counted instead of steps, because a
    stack with restarts computes the same number of rows as one without.
    """
    names = [name for name in STACKS if name != "ClipAction" or _continuous(id)]
    contestants = [rollout(name, STACKS[name][0](id, num_envs), num_steps) for name in names]
    samples = measure.sample_interleaved(contestants, repeats)
    seconds = {name: statistics.median(s.seconds for s in samples[name]) for name in names}
    rows = num_envs * num_steps
    return {
        "id": id,
        "num_envs": num_envs,
        "num_steps": num_steps,
        "contestants": {
            c.name: {**measure.summary(c, samples[c.name]), "rows_per_second": rows / seconds[c.name]}
            for c in contestants
        },
        "ratios": {name: seconds[name] / seconds[STACKS[name][1]] for name in names if name != "bare"},
        "notes": [],
    }


def _continuous(id: str) -> bool:
    return any(spec.is_continuous for spec in jax.tree.leaves(jaxenv.spec(id).make().action_spec()))


def report(rows: Sequence[dict[str, Any]]) -> str:
    """Formats the results as an aligned table."""
    header, lines = ["stack", "id", "lanes", "Mrows/s", "added time", "relative to"], []
    for row in rows:
        for name, result in row["contestants"].items():
            ratio, base = row["ratios"].get(name), STACKS[name][1]
            cost = ["-", "-"] if ratio is None else [f"{ratio - 1:+.0%}", base]
            lines.append([name, row["id"], str(row["num_envs"]), measure.millions(result["rows_per_second"]), *cost])
    return "\n".join(
        [
            "Million rows per second, and the time that a stack adds to the one it is compared with.",
            measure.table(header, lines),
        ]
    )


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parses the settings; an invalid one ends the program with status 2 and a one-line message."""
    parser = command.Parser("wrappers", __doc__)
    parser.add_argument(
        "--ids", nargs="+", type=command.id, default=["CartPole-v1", "Pendulum-v1"], metavar="ID", help="ids to run"
    )
    parser.add_sizes(num_envs=[2048, 16384], num_steps=None)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the comparison, prints the table and writes the file."""
    args, rows = parse(arguments), []
    for id in args.ids:
        for num_envs in args.num_envs:
            print(f"{id}, {num_envs} lanes ...", file=sys.stderr)
            rows.append(compare(id, num_envs, args.num_steps or max(2**21 // num_envs, 64), args.repeats))
    return command.finish("wrappers", args, rows, report, repeats=args.repeats)
