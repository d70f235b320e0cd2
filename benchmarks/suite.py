"""Runs the parts that take minutes on a CPU, each into its own result file."""

import argparse
import pathlib
from collections.abc import Sequence

import jax

import jaxenv
from benchmarks import __main__ as program
from benchmarks import command


def commands(folder: pathlib.Path, prefix: str, num_envs: Sequence[int], repeats: int) -> list[list[str]]:
    """Returns the command line of every part, in order. Box2D has runs of its own, of 64 steps.

    Args:
        folder: Where the result files go.
        prefix: Prefix of their names.
        num_envs: Numbers of lanes, for the parts that compare several.
        repeats: Timed runs of each side.
    """
    box2d = [id for id in jaxenv.ids() if ".box2d." in str(jaxenv.spec(id).entry_point)]
    throughput = ["throughput", "--num-envs", *map(str, num_envs)]
    catalogue = [*throughput, "--peers", "gymnax", "--ids", *(id for id in jaxenv.ids() if id not in box2d)]
    runs = {  # by the suffix of the result file
        "": throughput,
        "-catalogue": catalogue,
        "-stored": [*catalogue, "--loop", "stored"],
        "-linear": [*catalogue, "--loop", "linear"],
        "-box2d": [*throughput, "--num-steps", "64", "--peers", "gymnasium", "--ids", *box2d],
        "-replay": ["replay"],
        "-compiling": ["compiling"],
        "-host": ["host"],
        "-scaling": ["scaling", "--plot", str(folder / f"{prefix}-scaling.png")],
        "-render": ["render"],
        "-ppo": ["ppo"],
    }
    given = ["--repeats", str(repeats)]
    return [[*line, *given, "--json", str(folder / f"{prefix}{suffix}.json")] for suffix, line in runs.items()]


def options(parser: command.Parser) -> None:
    """Adds the options."""
    parser.add_folder()
    lanes = [64, 2048, 16384] if jax.default_backend() == "cpu" else [2**n for n in range(11, 21, 3)]
    parser.add_lanes(lanes)
    parser.add_repeats(5)


def main(args: argparse.Namespace) -> int:
    """Runs all parts and returns 1 if the status of any is not 0."""
    lines = commands(args.folder, args.prefix, args.num_envs, args.repeats)
    statuses = [program.run_part(part, rest) for part, *rest in lines]  # runs all parts even if one fails
    return int(any(statuses))
