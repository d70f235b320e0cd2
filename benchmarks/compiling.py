"""Compile time of a rollout for each id, tracing included, compared with gymnax.

*Cached* is the time with JAX's persistent compilation cache, in a process that finds the program there.
"""

import argparse
import contextlib
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

import jax
from jax.experimental.compilation_cache import compilation_cache

import jaxenv
from benchmarks import command, measure, peers
from benchmarks.ours import rollout_of_id
from benchmarks.peers import Unavailable

SIDES = {"jaxenv": rollout_of_id, "gymnax": peers.gymnax}


def compare(id: str, num_envs: int, num_steps: int, repeats: int) -> dict[str, Any]:
    """Compiles the rollouts of both sides, interleaved, and returns a row of the result file.

    The ratio is gymnax's time divided by jaxenv's.
    """
    seconds: dict[str, list[float]] = {name: [] for name in SIDES}
    notes: list[str] = []
    for i in range(repeats):
        for name in reversed(SIDES) if i % 2 else SIDES:
            jax.clear_caches()
            try:
                contestant = SIDES[name](id, num_envs, num_steps)
            except Unavailable as error:
                notes = [str(error)]
            else:
                seconds[name].append(contestant.compile_seconds)
    medians = {name: statistics.median(values) for name, values in seconds.items() if values}
    with persistent_cache():
        cached = []
        for _ in range(repeats + 1):  # the first one fills the cache
            jax.clear_caches()
            cached.append(rollout_of_id(id, num_envs, num_steps).compile_seconds)
    return {
        "id": id,
        "num_envs": num_envs,
        "num_steps": num_steps,
        "contestants": {n: {"compile_seconds": medians[n], "seconds": seconds[n]} for n in medians},
        "cached_seconds": statistics.median(cached[1:]),
        "ratios": {"gymnax": medians["gymnax"] / medians["jaxenv"]} if "gymnax" in medians else {},
        "notes": notes,
    }


@contextlib.contextmanager
def persistent_cache() -> Iterator[None]:
    """Uses JAX's persistent compilation cache in an empty folder, for programs of any size."""
    settings: dict[str, Any] = {
        "jax_enable_compilation_cache": True,
        "jax_persistent_cache_min_compile_time_secs": 0.0,
        "jax_persistent_cache_min_entry_size_bytes": -1,
    }
    before = {name: getattr(jax.config, name) for name in ("jax_compilation_cache_dir", *settings)}
    with tempfile.TemporaryDirectory() as folder:
        for name, value in {"jax_compilation_cache_dir": folder, **settings}.items():
            jax.config.update(name, value)
        compilation_cache.reset_cache()
        try:
            yield
        finally:
            for name, value in before.items():
                jax.config.update(name, value)
            compilation_cache.reset_cache()


def report(rows: Sequence[dict[str, Any]]) -> str:
    """Formats the results as an aligned table."""
    header, lines = ["id", "lanes", "jaxenv", "cached", "gymnax", "ratio"], []
    for row in rows:
        contestants = row["contestants"]
        times = [f"{contestants[n]['compile_seconds']:.2f}" if n in contestants else "-" for n in SIDES]
        times.insert(1, f"{row['cached_seconds']:.2f}")
        ratio = f"{row['ratios']['gymnax']:.1f}x" if row["ratios"] else "-"
        lines.append([row["id"], str(row["num_envs"]), *times, ratio])
    return "\n".join(
        [
            "Seconds; cached: with JAX's persistent compilation cache, from the second process on;",
            "ratio: how many times faster jaxenv compiles than gymnax, both without it.",
            measure.table(header, lines),
            *measure.notes(rows),
        ]
    )


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parses the settings; an invalid one ends the program with status 2 and a one-line message."""
    parser = command.Parser("compile", __doc__)
    parser.add_argument("--ids", nargs="+", type=command.id, default=jaxenv.ids(), metavar="ID", help="ids to compile")
    parser.add_sizes(num_envs=[2048], num_steps=100, repeats=3)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the comparison, prints the table and writes the file."""
    args, rows = parse(arguments), []
    rollout_of_id("CartPole-v1", 8, 8)  # the first compilation of a process takes longer
    for id in args.ids:
        for num_envs in args.num_envs:
            print(f"{id}, {num_envs} lanes ...", file=sys.stderr)
            rows.append(compare(id, num_envs, args.num_steps, args.repeats))
    return command.finish("compile", args, rows, report, repeats=args.repeats)
