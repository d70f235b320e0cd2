"""Runs every part, each into its own result file."""

import argparse
import pathlib
from collections.abc import Sequence

import jax

import jaxenv
from benchmarks import command

_BOX2D = [id for id in jaxenv.ids() if ".box2d." in str(jaxenv.spec(id).entry_point)]
_CATALOGUE = ["--ids", *(id for id in jaxenv.ids() if id not in _BOX2D)]

# Suffix of the result file -> part and options. "lanes" stands for the numbers of lanes, "plot" for a picture.
RUNS = {
    "": ("throughput", ["lanes"]),
    "-catalogue": ("throughput", ["lanes", *_CATALOGUE, "--peers", "gymnax"]),
    "-stored": ("throughput", ["lanes", *_CATALOGUE, "--peers", "gymnax", "--store"]),
    "-box2d": ("throughput", ["lanes", "--ids", *_BOX2D, "--num-steps", "64", "--peers", "gymnasium"]),
    "-seeds": ("seeds", []),
    "-resets": ("resets", ["lanes"]),
    "-to-gymnax": ("to_gymnax", ["lanes"]),
    "-wrappers": ("wrappers", []),
    "-returns": ("returns", []),
    "-replay": ("replay", []),
    "-generator": ("generator", ["lanes"]),
    "-compile": ("compile", []),
    "-stepping": ("stepping", []),
    "-host": ("host", []),
    "-scaling": ("scaling", ["plot"]),
    "-render": ("render", []),
    "-ppo": ("ppo", []),
    "-limit": ("limit", []),
}


def commands(folder: pathlib.Path, prefix: str, num_envs: Sequence[int], repeats: int) -> list[list[str]]:
    """Returns the command line of every part, in order. The comparison with C runs on CPUs only."""
    lines = []
    for suffix, (part, options) in RUNS.items():
        if part == "limit" and jax.default_backend() != "cpu":
            continue
        line = [part, "--repeats", str(repeats), "--json", str(folder / f"{prefix}{suffix}.json")]
        given = {
            "lanes": ["--num-envs", *map(str, num_envs)],
            "plot": ["--plot", str(folder / f"{prefix}{suffix}.png")],
        }
        lines.append(line + [word for option in options for word in given.get(option, [option])])
    return lines


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parses the settings; an invalid one ends the program with status 2 and a one-line message."""
    parser = command.Parser("suite", __doc__)
    parser.add_argument(
        "--folder", type=_folder, default="benchmarks/results", metavar="PATH", help="folder of the result files"
    )
    parser.add_argument("--prefix", default=jax.default_backend(), help="prefix of their names")
    default = [64, 2048, 16384] if jax.default_backend() == "cpu" else [2**n for n in range(11, 21, 3)]
    parser.add_argument(
        "--num-envs", nargs="+", type=command.positive, default=default, metavar="B", help="numbers of lanes"
    )
    parser.add_argument("--repeats", type=command.positive, default=5, metavar="R", help="timed runs of each side")
    return parser.parse_args(arguments)


def _folder(text: str) -> pathlib.Path:
    path = pathlib.Path(text)
    if not path.is_dir():
        raise argparse.ArgumentTypeError(f"must be an existing folder, got {text!r}")
    return path


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs all parts and returns 1 if the status of any is not 0."""
    from benchmarks.__main__ import run_part

    args = parse(arguments)
    lines = commands(args.folder, args.prefix, args.num_envs, args.repeats)
    statuses = [run_part(part, rest) for part, *rest in lines]  # runs all parts even if one fails
    return int(any(statuses))
