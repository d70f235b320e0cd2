"""Cost of each wrapper: the time of a rollout with it, compared with the same rollout without it."""

import argparse
import itertools
import statistics
from collections.abc import Callable, Iterator, Sequence
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
    row = {"id": id, "num_envs": num_envs, "num_steps": num_steps} | measure.compared(contestants, (), repeats)
    seconds = {name: statistics.median(side["seconds"]) for name, side in row["contestants"].items()}
    for name, side in row["contestants"].items():
        side["rows_per_second"] = num_envs * num_steps / seconds[name]
    return row | {"ratios": {name: seconds[name] / seconds[STACKS[name][1]] for name in names if name != "bare"}}


def _continuous(id: str) -> bool:
    return any(spec.is_continuous for spec in jax.tree.leaves(jaxenv.spec(id).make().action_spec()))


def report(rows: Sequence[dict[str, Any]], args: argparse.Namespace) -> str:
    """Formats the results as an aligned table."""
    pairs = [(name, row) for row in rows for name in row["contestants"]]
    shown = measure.columns(
        pairs,
        ("stack", lambda p: p[0]),
        ("id", lambda p: p[1]["id"]),
        ("lanes", lambda p: p[1]["num_envs"]),
        ("Mrows/s", lambda p: measure.millions(p[1]["contestants"][p[0]]["rows_per_second"])),
        ("added time", lambda p: f"{p[1]['ratios'][p[0]] - 1:+.0%}"),
        ("relative to", lambda p: STACKS[p[0]][1] if p[0] in p[1]["ratios"] else "-"),
    )
    return f"Million rows per second, and the time that a stack adds to the one it is compared with.\n{shown}"


def options(parser: command.Parser) -> None:
    """Adds the options."""
    parser.add_ids(["CartPole-v1", "Pendulum-v1"])
    parser.add_sizes(num_envs=[2048, 16384], num_steps=None)


def rows(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Compares the stacks of every id and number of lanes."""
    for id, num_envs in itertools.product(args.ids, args.num_envs):
        yield compare(id, num_envs, args.num_steps or max(2**21 // num_envs, 64), args.repeats)
