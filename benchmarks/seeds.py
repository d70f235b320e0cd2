"""Rollouts of several seeds under ``jax.vmap``, compared with one batch of as many lanes, per restart strategy."""

import argparse
import itertools
from collections.abc import Iterator, Sequence
from typing import Any, get_args

import jaxenv
from benchmarks import command, measure
from benchmarks.ours import default_num_steps, rollout
from jaxenv.core.facts import ResetStrategy

STRATEGIES = get_args(ResetStrategy)


def compare(id: str, strategy: str, seeds: int, num_envs: int, num_steps: int, repeats: int) -> dict[str, Any]:
    """Runs both sides, interleaved, and returns a row of the result file."""

    def env(lanes: int) -> jaxenv.Environment:
        return jaxenv.make(id, num_envs=lanes, reset_strategy=strategy)

    contestants = [
        rollout("under vmap", env(num_envs), num_steps, seeds=seeds),
        rollout("one batch", env(seeds * num_envs), num_steps),
    ]
    sizes = {"id": id, "strategy": strategy, "seeds": seeds, "num_envs": num_envs, "num_steps": num_steps}
    return sizes | measure.compared(contestants, (), repeats)


def report(rows: Sequence[dict[str, Any]], args: argparse.Namespace) -> str:
    """Formats the results as an aligned table."""
    shown = measure.columns(
        rows,
        ("id", "id"),
        ("restarts", "strategy"),
        ("seeds", "seeds"),
        ("lanes", "num_envs"),
        ("under vmap", measure.side("under vmap")),
        ("one batch", measure.side("one batch")),
        ("of one batch", measure.ratio("one batch", ".0%")),
    )
    title = "Million environment steps per second: seeds x lanes under vmap, as a percentage of the speed of one batch."
    return f"{title}\n{shown}"


def options(parser: command.Parser) -> None:
    """Adds the options."""
    parser.add_ids(["CartPole-v1", "Pendulum-v1"])
    parser.add_argument("--seeds", type=command.positive, default=8, metavar="S", help="number of rollouts under vmap")
    parser.add_sizes(num_envs=[2048], num_steps=None)


def rows(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Compares every id, number of lanes and strategy."""
    for id, num_envs, strategy in itertools.product(args.ids, args.num_envs, STRATEGIES):
        num_steps = args.num_steps or default_num_steps(id, args.seeds * num_envs)
        yield compare(id, strategy, args.seeds, num_envs, num_steps, args.repeats)
