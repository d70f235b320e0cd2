"""Compares two result files of one part and reports metrics that became more than 10% worse (then exit status 1).

Rows are matched by their settings. Changes of the peers are shown but are not regressions: a similar change of a peer
points to the machine. ``--relative-to gymnax`` divides each metric by that peer's metric in the same row first.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from benchmarks import command, tables

TOLERANCE = 0.1
# Metric -> whether higher is better.
HIGHER_IS_BETTER = {
    "steps_per_second": True,
    "rows_per_second": True,
    "frames_per_second": True,
    "total": False,
    "lines": False,
    "microseconds_per_call": False,
    "bytes_per_lane": False,
    "step_bytes_per_lane": False,
    "bytes_per_row": False,
}
# What a side of this library is called up to a comma ("jaxenv, 64 lanes"); every other side is a peer.
OURS = frozenset({"jaxenv", "host", "jax.jit(env.step)", "to_gymnasium", "to_gymnasium_vector"})
OURS |= {"native", "default", "unrolled"}  # of `throughput` and `launches`
OURS |= {"unroll", "fold", "scan"}  # of `device`
# Numbers of a row that are measured; all others are settings.
MEASURED = frozenset({"observation_bytes_per_second", "of_broadcast", "copy_bytes_per_second"})


class Change(NamedTuple):
    """One metric in both files. ``worse`` is how many times worse the new value is, below 1 if it is better."""

    settings: str
    contestant: str
    metric: str
    old: float
    new: float
    worse: float

    @property
    def flagged(self) -> bool:
        """Whether this is a regression of this library."""
        return self.contestant.partition(",")[0] in OURS and self.worse > 1 + TOLERANCE


def changes(old: dict[str, Any], new: dict[str, Any], relative_to: str | None = None) -> list[Change]:
    """Returns the change of every metric that is in both result files."""
    before, after = dict(_metrics(old, relative_to)), dict(_metrics(new, relative_to))
    found = []
    for key in (key for key in before if key in after):
        a, b = before[key], after[key]
        found.append(Change(*key, a, b, worse=a / b if HIGHER_IS_BETTER[key[2]] else b / a))
    return found


def _metrics(content: dict[str, Any], relative_to: str | None) -> Iterator[tuple[tuple[str, str, str], float]]:
    # `compile_seconds` of other parts are of one compilation, which is too noisy to compare.
    for row in content["rows"]:
        named = ((k, v) for k, v in row.items() if isinstance(v, str | int | float) and k not in MEASURED)
        settings = " ".join(f"{k}={v}" for k, v in named)
        reference = row["contestants"].get(relative_to, {}) if relative_to else {}
        for name, values in row["contestants"].items():
            for metric in HIGHER_IS_BETTER:
                value, unit = values.get(metric), reference.get(metric) if relative_to else 1.0
                if value and unit:
                    yield (settings, name, metric), value / unit


def report(found: Sequence[Change]) -> str:
    """Formats the metrics that changed by more than the tolerance, with regressions marked."""
    shown = [c for c in found if c.worse > 1 + TOLERANCE or c.worse < 1 / (1 + TOLERANCE)]
    lines = []
    for c in shown:
        better = c.worse < 1
        verdict = "REGRESSION" if c.flagged else ("better" if better else "worse, a peer")
        times = 1 / c.worse if better else c.worse
        lines.append([c.settings, c.contestant, c.metric, f"{c.old:.4g}", f"{c.new:.4g}", f"{times:.2f}x", verdict])
    total = f"{len(found)} metrics compared, {sum(c.flagged for c in found)} regressions over {TOLERANCE:.0%}"
    if not lines:
        return total
    return "\n".join([tables.table(["row", "side", "metric", "old", "new", "factor", ""], lines), total])


def options(parser: command.Parser) -> None:
    """Adds the options."""
    parser.add_argument("old", type=command.result_file, metavar="OLD", help="result file to compare with")
    parser.add_argument("new", type=command.result_file, metavar="NEW", help="newer result file of the same part")
    parser.add_argument("--relative-to", metavar="PEER", help="divide by the metrics of this peer, such as gymnax")


def check(parser: command.Parser, args: argparse.Namespace) -> None:
    """Refuses files that have nothing in common."""
    if args.old["benchmark"] != args.new["benchmark"]:
        parser.error(f"the files are of different parts: {args.old['benchmark']} and {args.new['benchmark']}")
    peers = {name for content in (args.old, args.new) for row in content["rows"] for name in row["contestants"]}
    if args.relative_to is not None and args.relative_to not in peers:
        parser.error(
            f"argument --relative-to: no {args.relative_to!r} in the files, they have {', '.join(sorted(peers))}"
        )
    args.found = changes(args.old, args.new, args.relative_to)
    if not args.found:
        parser.error("the files have no metric in common: run both with the same settings")


def main(args: argparse.Namespace) -> int:
    """Prints what changed and returns 1 if there is a regression."""
    if args.old["device"] != args.new["device"]:
        print(f"note: the devices differ: {args.old['device']}, {args.new['device']}", file=sys.stderr)
    print(report(args.found))
    return int(any(change.flagged for change in args.found))
