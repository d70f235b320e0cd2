"""``jaxenv train``: train from several seeds, with checkpoints, a table, and the learning curve as CSV and PNG."""

import argparse
import ast
import dataclasses
import json
import pathlib
import re
import statistics
import time
from typing import Any

import jaxenv
from jaxenv._names import did_you_mean
from jaxenv.cli._arguments import Help, add_seed, add_settings, assignment, integer, one_line
from jaxenv.rollout import Table
from jaxenv.rollout._progress import progress


def add(commands) -> None:
    """Adds the command."""
    command = commands.add_parser(
        "train",
        help="train a policy from several seeds: learning curve as CSV and PNG, checkpoints",
        description="Trains a policy by PPO, all seeds in one compiled function. After each evaluation it writes "
        "curve.csv, curve.png, config.json and checkpoint.npz to a folder. A run that was killed can be resumed.",
        epilog="example: jaxenv train CartPole-v1 --seeds 8 --out runs/cart_pole --set learning_rate=5e-4 gamma=0.99",
        formatter_class=Help,
    )
    command.add_argument("id", metavar="ID", help="an environment from `jaxenv list`")
    command.add_argument(
        "--seeds", metavar="N", type=integer(1), default=1, help="number of seeds, trained in parallel"
    )
    add_seed(command)
    command.add_argument(
        "--total-steps", metavar="T", type=integer(1), default=300_000, help="environment steps of each seed"
    )
    command.add_argument(
        "--out", metavar="DIR", type=pathlib.Path, help="the folder (default: runs/ID, with - for a colon)"
    )
    command.add_argument("--resume", action="store_true", help="resume from the checkpoint in the folder, if any")
    command.add_argument(
        "--film-every",
        metavar="N",
        type=integer(1),
        help="write a film of the policy after every N evaluations, to films/ in the folder",
    )
    command.add_argument("--json", action="store_true", help="print a JSON object")
    add_settings(
        command,
        "fields of jaxenv.training.ppo.Config: num_envs=32, hidden=64,64, wrappers=NormalizeReward, "
        "'wrappers=PixelObservation(size=64),GrayscaleObservation', ...",
    )
    command.set_defaults(run=run, parser=command)


def run(args: argparse.Namespace) -> None:
    """Trains and prints a line per evaluation."""
    try:
        from jaxenv.training import ppo, seeds
    except ImportError as missing:
        args.parser.error(one_line(missing))
    folder = args.out or default_folder(args.id)
    started = time.perf_counter()
    curve: list[dict[str, Any]] = []
    table = Table(None)
    try:
        threshold = None if ":" in args.id else jaxenv.spec(args.id).reward_threshold
        given = dict(_setting(text, args.parser) for text in args.set)
        settings = {field.name for field in dataclasses.fields(ppo.Config)} - {"env_id", "total_steps"}
        if unknown := sorted(given.keys() - settings):
            every = f"the settings are {', '.join(sorted(settings))}"
            hint = did_you_mean(unknown[0], settings, otherwise=every)
            args.parser.error(f"argument --set: no setting {unknown[0]!r}, {hint}")
        config = ppo.Config(**{"env_id": args.id, "total_steps": args.total_steps, **_with_tuples(given)})
        with progress(config.num_evaluations, "evaluations") as done:
            runs = seeds.train(config, args.seeds, args.seed, folder, args.resume, threshold, args.film_every)
            for progressed in runs:
                count = int(progressed.iterations) - len(curve) // args.seeds
                curve = seeds.rows(progressed)
                done(count)
                if not args.json:
                    table(curve[-1]["steps"], _summary(curve[-args.seeds :], threshold))
    except (ImportError, ValueError, TypeError) as error:
        args.parser.error(one_line(error))
    seconds = time.perf_counter() - started
    if args.json:
        given = {"id": args.id, "seeds": args.seeds, "seed": args.seed, "folder": str(folder)}
        print(json.dumps({**given, "seconds": seconds, "curve": curve}))
        return
    print(f"{args.seeds} seed{'s' * (args.seeds > 1)} in {seconds:.1f} s, compilation included; see {folder}")


def default_folder(id: str) -> pathlib.Path:
    """The folder of a run, with a name that every system takes: ids of suites have a colon."""
    return pathlib.Path("runs") / re.sub(r"[^\w.-]", "-", id)


def _setting(text: str, parser: argparse.ArgumentParser) -> tuple[str, Any]:
    """Name and value of one ``--set``; wrappers with options are written as calls."""
    name, equals, value = text.partition("=")
    return (name, _wrappers(value, parser)) if name == "wrappers" and equals else assignment(text, parser)


def _wrappers(text: str, parser: argparse.ArgumentParser) -> list[Any]:
    """Names, and pairs of a name and its options: ``A,B(size=64)`` is ``["A", ("B", {"size": 64})]``."""
    wrappers: list[Any] = []
    try:
        for node in ast.parse(f"[{text}]", mode="eval").body.elts:  # type: ignore[attr-defined]
            match node:
                case ast.Name(name):
                    wrappers.append(name)
                case ast.Call(ast.Name(name), [], keywords):
                    wrappers.append((name, {str(word.arg): ast.literal_eval(word.value) for word in keywords}))
                case _:
                    raise ValueError
    except (SyntaxError, ValueError):
        parser.error(f"argument --set: wrappers must be names or calls with options, as A,B(size=64), got {text!r}")
    return wrappers


def _with_tuples(given: dict[str, Any]) -> dict[str, Any]:
    """The settings with tuples for those that take several values, also where only one is given."""
    several = {n: x if isinstance(x, list) else [x] for n, x in given.items() if n in ("hidden", "wrappers")}
    return {**given, **{n: tuple(x) for n, x in several.items()}}


def _summary(evaluations: list[dict[str, Any]], threshold: float | None) -> dict[str, Any]:
    """Means and extremes over the seeds, given one evaluation of each."""
    trained, returns = (
        [found[name] for found in evaluations if found[name] is not None] for name in ("train_return", "eval_return")
    )
    summary: dict[str, Any] = {
        "train_return": statistics.fmean(trained) if trained else None,
        "eval_return": statistics.fmean(returns) if returns else None,
        "worst_seed": min(returns, default=None),
        "best_seed": max(returns, default=None),
    }
    return summary if threshold is None else {**summary, "solved": sum(x >= threshold for x in returns)}
