"""Two result files of one part: what became slower by more than 10%. The status is 1 if anything did.

Rows are matched by their settings. The peers' figures are shown and never flagged: where they changed as much, it was
the machine. ``--beside gymnax`` compares the figures relative to that peer's in the same row.
"""

import argparse
import json
import pathlib
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from benchmarks import command, measure
from benchmarks.peers import PEERS

TOLERANCE = 0.1
# Figure -> whether more is better.
MORE_IS_BETTER = {
    "steps_per_second": True,
    "rows_per_second": True,
    "words_per_second": True,
    "compile_seconds": False,
    "microseconds_per_call": False,
    "milliseconds_per_call": False,
    "bytes_per_lane": False,
    "step_bytes_per_lane": False,
    "bytes_per_row": False,
}
OTHERS = frozenset(
    {*PEERS, "C", "jax.random threefry", "jax.random rbg", "same state", "same state and row"}
    | {"flashbax", "flashbax items", "rlax"}
)


class Change(NamedTuple):
    """One figure in both files; ``worse`` is how many times worse the new one is, below 1 where it is better."""

    settings: str
    contestant: str
    figure: str
    old: float
    new: float
    worse: float

    @property
    def flagged(self) -> bool:
        """Whether it is a regression of this library."""
        return self.contestant not in OTHERS and self.worse > 1 + TOLERANCE


def changes(old: dict[str, Any], new: dict[str, Any], beside: str | None = None) -> list[Change]:
    """Every figure that both result files hold."""
    before, after = dict(_figures(old, beside)), dict(_figures(new, beside))
    found = []
    for key in (key for key in before if key in after):
        a, b = before[key], after[key]
        found.append(Change(*key, a, b, worse=a / b if MORE_IS_BETTER[key[2]] else b / a))
    return found


def _figures(content: dict[str, Any], beside: str | None) -> Iterator[tuple[tuple[str, str, str], float]]:
    # The other parts compile once, on the way: one sample tells too little.
    measured = [f for f in MORE_IS_BETTER if f != "compile_seconds" or content["benchmark"] == "compile"]
    for row in content["rows"]:
        settings = " ".join(f"{k}={v}" for k, v in row.items() if isinstance(v, str | int | float))
        reference = row["contestants"].get(beside, {}) if beside else {}
        for name, figures in row["contestants"].items():
            for figure in measured:
                value, unit = figures.get(figure), reference.get(figure) if beside else 1.0
                if value and unit:
                    yield (settings, name, figure), value / unit


def report(found: Sequence[Change]) -> str:
    """The figures that changed by more than the tolerance, the regressions marked; one line if there are none."""
    shown = [c for c in found if c.worse > 1 + TOLERANCE or c.worse < 1 / (1 + TOLERANCE)]
    lines = []
    for c in shown:
        better = c.worse < 1
        verdict = "REGRESSION" if c.flagged else ("better" if better else "worse, a peer")
        times = 1 / c.worse if better else c.worse
        lines.append([c.settings, c.contestant, c.figure, f"{c.old:.4g}", f"{c.new:.4g}", f"{times:.2f}x", verdict])
    total = f"{len(found)} figures compared, {sum(c.flagged for c in found)} regressions over {TOLERANCE:.0%}"
    if not lines:
        return total
    return "\n".join([measure.table(["row", "side", "figure", "old", "new", "factor", ""], lines), total])


def _result(text: str) -> dict[str, Any]:
    try:
        content = json.loads(pathlib.Path(text).read_text())
        for row in content["rows"]:
            row["contestants"].values()
        return {"benchmark": content["benchmark"], "device": content["record"]["device"], "rows": content["rows"]}
    except OSError as error:
        raise argparse.ArgumentTypeError(f"cannot read {text!r}: {error.strerror}") from None
    except (ValueError, LookupError, TypeError, AttributeError):
        raise argparse.ArgumentTypeError(f"{text!r} is no result file of a benchmark") from None


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The settings from the command line; bad ones end the program with status 2 and one line."""
    parser = command.Parser("compare", __doc__)
    parser.add_argument("old", type=_result, metavar="OLD", help="a result file")
    parser.add_argument("new", type=_result, metavar="NEW", help="a later one of the same part")
    parser.add_argument("--beside", metavar="PEER", help="compare figures relative to this peer's, such as gymnax")
    parser.add_argument("--json", type=command.new_file, metavar="PATH", help="write every figure to this file")
    args = parser.parse_args(arguments)
    if args.old["benchmark"] != args.new["benchmark"]:
        parser.error(f"one file is of {args.old['benchmark']}, the other of {args.new['benchmark']}")
    args.found = changes(args.old, args.new, args.beside)
    if not args.found:
        parser.error("the files have no figure in common: run both with the same settings")
    return args


def main(arguments: Sequence[str] | None = None) -> int:
    """Compares the files, prints what changed and returns 1 if anything became slower."""
    args = parse(arguments)
    if args.old["device"] != args.new["device"]:
        print(f"note: the devices differ: {args.old['device']}, {args.new['device']}", file=sys.stderr)
    rows = [{**change._asdict(), "regression": change.flagged} for change in args.found]
    command.finish("compare", args, rows, lambda rows: report(args.found), beside=args.beside, tolerance=TOLERANCE)
    return int(any(change.flagged for change in args.found))
