"""Every part in one go, each into a result file of its own: what one machine's figures are made by."""

import argparse
import pathlib
from collections.abc import Sequence

import jax

from benchmarks import command

# Suffix of the result file -> part and arguments; "lanes" marks those that take the numbers of lanes.
RUNS = {
    "": ("throughput", ["lanes"]),
    "-stored": ("throughput", ["lanes", "--store"]),
    "-seeds": ("seeds", []),
    "-resets": ("resets", []),
    "-wrappers": ("wrappers", []),
    "-returns": ("returns", []),
    "-replay": ("replay", []),
    "-generator": ("generator", ["lanes"]),
    "-compile": ("compile", []),
    "-stepping": ("stepping", []),
    "-scaling": ("scaling", ["--plot"]),
    "-limit": ("limit", []),
}


def commands(folder: pathlib.Path, prefix: str, num_envs: Sequence[int], repeats: int) -> list[list[str]]:
    """The arguments of every part, in order. The comparison with C is one of processors: it is left out elsewhere."""
    found = []
    for suffix, (part, options) in RUNS.items():
        if part == "limit" and jax.default_backend() != "cpu":
            continue
        line = [part, "--repeats", str(repeats), "--json", str(folder / f"{prefix}{suffix}.json")]
        if "lanes" in options:
            line += ["--num-envs", *map(str, num_envs)]
        if "--store" in options:
            line += ["--store"]
        if "--plot" in options:
            line += ["--plot", str(folder / f"{prefix}{suffix}.png")]
        found.append(line)
    return found


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The settings from the command line; bad ones end the program with status 2 and one line."""
    parser = command.Parser("suite", __doc__)
    parser.add_argument("--folder", type=_folder, default="benchmarks/results", metavar="PATH", help="of the files")
    parser.add_argument("--prefix", default=jax.default_backend(), help="with which their names begin")
    lanes = [64, 2048, 16384] if jax.default_backend() == "cpu" else [2**n for n in range(11, 21, 3)]
    parser.add_argument(
        "--num-envs", nargs="+", type=command.positive, default=lanes, metavar="B", help="lanes of the throughput"
    )
    parser.add_argument("--repeats", type=command.positive, default=5, metavar="R", help="timed runs of each")
    return parser.parse_args(arguments)


def _folder(text: str) -> pathlib.Path:
    path = pathlib.Path(text)
    if not path.is_dir():
        raise argparse.ArgumentTypeError(f"must be a folder that exists, got {text!r}")
    return path


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs all parts; the status is 1 if any gave another than 0."""
    from benchmarks.__main__ import run_part

    args = parse(arguments)
    lines = commands(args.folder, args.prefix, args.num_envs, args.repeats)
    statuses = [run_part(part, rest) for part, *rest in lines]  # all of them, whatever one says
    return int(any(statuses))
