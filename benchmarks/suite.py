"""Runs every part, each into its own result file."""

import argparse
import pathlib
from collections.abc import Sequence

import jax

import jaxenv
from benchmarks import command

_BOX2D = [id for id in jaxenv.ids() if ".box2d." in str(jaxenv.spec(id).entry_point)]
_BOX2D_STEPS = 64

# Suffix of the result file -> part and options. A word of `given` below stands for the options that it maps to.
RUNS = {
    "": ("throughput", ["lanes", "steps"]),
    "-catalogue": ("throughput", ["lanes", "steps", "ids", "--peers", "gymnax"]),
    "-stored": ("throughput", ["lanes", "steps", "ids", "--peers", "gymnax", "--loop", "stored"]),
    "-linear": ("throughput", ["lanes", "steps", "ids", "--peers", "gymnax", "--loop", "linear"]),
    "-box2d": ("throughput", ["lanes", "box2d", "--peers", "gymnasium"]),
    "-seeds": ("seeds", ["steps"]),
    "-resets": ("resets", ["lanes", "steps", "ids"]),
    "-resets-box2d": ("resets", ["lanes", "box2d", "--resets"]),
    "-to-gymnax": ("to_gymnax", ["lanes", "steps"]),
    "-wrappers": ("wrappers", ["steps"]),
    "-returns": ("returns", []),
    "-replay": ("replay", []),
    "-compiling": ("compiling", ["all ids"]),
    "-host": ("host", []),
    "-scaling": ("scaling", ["steps", "plot"]),
    "-render": ("render", []),
    "-ppo": ("ppo", []),
    "-limit": ("limit", ["steps"]),
}


def commands(
    folder: pathlib.Path,
    prefix: str,
    num_envs: Sequence[int],
    repeats: int,
    ids: Sequence[str] = jaxenv.ids(),
    num_steps: int | None = None,
) -> list[list[str]]:
    """Returns the command line of every part, in order. The comparison with C runs on CPUs only.

    Args:
        folder: Where the result files go.
        prefix: Prefix of their names.
        num_envs: Numbers of lanes, for the parts that compare several.
        repeats: Timed runs of each side.
        ids: Ids for the parts that run the whole catalogue. Such a part is left out if it would have none.
        num_steps: Steps of each lane, for the parts that run whole episodes by default. Box2D runs at most 64.
    """
    box2d, others = [id for id in ids if id in _BOX2D], [id for id in ids if id not in _BOX2D]
    lines = []
    for suffix, (part, options) in RUNS.items():
        if part == "limit" and jax.default_backend() != "cpu":
            continue
        if ("box2d" in options and not box2d) or ("ids" in options and not others):
            continue
        given = {
            "lanes": ["--num-envs", *map(str, num_envs)],
            "steps": ["--num-steps", str(num_steps)] if num_steps else [],
            "ids": ["--ids", *others],
            "box2d": ["--num-steps", str(min(num_steps or _BOX2D_STEPS, _BOX2D_STEPS)), "--ids", *box2d],
            "all ids": ["--ids", *ids],
            "plot": ["--plot", str(folder / f"{prefix}{suffix}.png")],
        }
        line = [part, "--repeats", str(repeats), "--json", str(folder / f"{prefix}{suffix}.json")]
        lines.append(line + [word for option in options for word in given.get(option, [option])])
    return lines


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parses the settings; an invalid one ends the program with status 2 and a one-line message."""
    parser = command.Parser("suite", __doc__)
    parser.add_argument("--folder", type=command.folder, default="benchmarks/results", metavar="PATH", help="of files")
    parser.add_argument("--prefix", default=jax.default_backend(), help="prefix of their names")
    lanes = [64, 2048, 16384] if jax.default_backend() == "cpu" else [2**n for n in range(11, 21, 3)]
    parser.add_argument("--num-envs", nargs="+", type=command.positive, default=lanes, metavar="B", help="lanes")
    parser.add_argument("--repeats", type=command.positive, default=5, metavar="R", help="timed runs of each side")
    parser.add_ids(jaxenv.ids(), help="ids of the parts that run the whole catalogue")
    help = "steps of each lane, in the parts that run whole episodes by default"
    parser.add_argument("--num-steps", type=command.positive, metavar="T", help=help)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs all parts and returns 1 if the status of any is not 0."""
    from benchmarks.__main__ import run_part

    args = parse(arguments)
    lines = commands(args.folder, args.prefix, args.num_envs, args.repeats, args.ids, args.num_steps)
    statuses = [run_part(part, rest) for part, *rest in lines]  # runs all parts even if one fails
    return int(any(statuses))
