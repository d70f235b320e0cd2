"""Trains a policy, all seeds in one compiled function. After each evaluation it writes curve.csv, curve.png,
config.json and a checkpoint to a folder. A run that was stopped can be resumed.

example: jaxenv train CartPole-v1 --seeds 8 --out runs/cart_pole --set learning_rate=5e-4 gamma=0.99
"""

import argparse
import ast
import contextlib
import dataclasses
import functools
import json
import math
import pathlib
import re
import shlex
import statistics
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np

import jaxenv
from jaxenv import data
from jaxenv._util.checks import INT32_MAX
from jaxenv._util.names import did_you_mean, meaning
from jaxenv.cli._arguments import add_options, assignment, settings_of, simulate_devices
from jaxenv.cli._parser import Parser
from jaxenv.cli._process import stops_at_once
from jaxenv.core.registry import suite_of
from jaxenv.rollout import Table, TensorBoard, WandB
from jaxenv.rollout._progress import progress
from jaxenv.rollout.writers import text_of
from jaxenv.training import _algorithms, _checkpoints, presets


def add(command: Parser) -> None:
    """Adds the arguments."""
    add_options(command, "id", help="an environment from `jaxenv list`")
    algo = "the learner (default: one with a preset for ID, else sac for bounded floats as actions, else ppo)"
    command.add_argument("--algo", choices=tuple(_algorithms.MODULES), help=algo)
    preset = "the learner's default settings, also where ID has a preset"
    command.add_argument("--no-preset", action="store_true", help=preset)
    add_options(command, "--seeds", metavar="N", default=1, help="number of seeds, trained in parallel")
    sequential = "train the seeds of a device one after another: faster on a CPU for environments of Box2D"
    command.add_argument("--sequential", action="store_true", help=sequential)
    add_options(command, "--seed")
    devices = "devices that share the seeds, and the lanes of each if there are fewer seeds; on a CPU, N of its"
    add_options(command, "--devices", help=f"{devices} threads")
    total_steps = (
        "environment steps of each seed, rounded up to whole updates; the number of evaluations changes if the updates "
        "cannot be divided among them, unless --set gives it (default: the preset's or the learner's)"
    )
    add_options(command, "--total-steps", metavar="T", help=total_steps)
    folder = "the folder (default: runs/ID, with - for a colon)"
    add_options(command, "--out", metavar="DIR", type=pathlib.Path, help=folder)
    resume = "resume from the checkpoint in the folder, if any"
    command.add_argument("--resume", action="store_true", help=resume)
    every = "write the checkpoint after every N evaluations and at the end"
    add_options(command, "--checkpoint-every", metavar="N", default=1, help=every)
    checkpoint_format = (
        "npz for one file; orbax for a folder in which every process writes the arrays of its own devices, in the "
        "background (default: the folder's, npz for a new one)"
    )
    command.add_argument("--checkpoint-format", choices=_checkpoints.FORMATS, help=checkpoint_format)
    no_cache = "compile again, and keep no compiled programs for later runs"
    command.add_argument("--no-cache", action="store_true", help=no_cache)
    films = "write a film of the policy after every N evaluations, to films/ in the folder"
    add_options(command, "--film-every", metavar="N", help=films)
    command.add_argument("--tensorboard", action="store_true", help="write metrics to tensorboard/ in the folder")
    command.add_argument("--wandb", metavar="PROJECT", help="log metrics to this project of Weights & Biases")
    add_options(command, "--json")
    add_options(command, "--env", help="params and options of the environment, such as size=20 for DeepSea-bsuite")
    add_options(command, "--max-episode-steps")
    fields = (
        "fields of the learner's Config, such as jaxenv.training.ppo.Config: num_envs=32, hidden=64,64, "
        "wrappers=NormalizeReward, 'wrappers=PixelObservation(size=64),GrayscaleObservation', ..."
    )
    add_options(command, "--set", help=fields)


def run(args: argparse.Namespace) -> None:
    """Trains and prints a line per evaluation."""
    folder = args.out or default_folder(args.id)
    parser: Parser = args.parser
    started = time.perf_counter()
    curve: list[dict[str, Any]] = []
    simulate_devices(args.devices)
    if args.no_cache:
        jax.config.update("jax_enable_compilation_cache", False)
    try:
        from jaxenv.training import seeds

        algorithm, config, origin = configured(args)
        # The registered threshold holds for the default params.
        registered = suite_of(args.id) is None and not config.env_options
        threshold = jaxenv.spec(args.id).reward_threshold if registered else None
        resumed, done = _resumed(folder) if args.resume else ("", 0)
        names = ("resume", "film_every", "checkpoint_every", "checkpoint_format")
        files = {name: getattr(args, name) for name in names}
        shared = {"threshold": threshold, "devices": args.devices, "sequential": args.sequential}
        runs = seeds.train(config, args.seeds, args.seed, folder, **files, **shared)
        with (
            contextlib.ExitStack() as stack,
            stops_at_once(functools.partial(_stopped, folder, seeds.can_resume(config))),
            progress(config.num_evaluations, "evaluations", done) as advance,
            warnings.catch_warnings(),
        ):
            warnings.filterwarnings("ignore", r"train: \d+ of \d+ episodes")  # a line at the end counts them
            writers = [stack.enter_context(writer) for writer in _writers(args, folder, algorithm, config)]
            if not args.json:
                steps = f"{config.num_rows:,} steps"
                if config.num_rows != (asked := args.total_steps or config.total_steps):
                    steps += f" ({asked:,} in whole updates, {config.num_evaluations} evaluations)"
                print(f"{algorithm} with {origin}, {steps}{resumed}", flush=True)
            table = Table(None)
            for progressed, seconds in _timed(runs):
                count = int(progressed.iterations) - max(len(curve) // args.seeds, done)
                if not curve and done:  # the run may have been killed between its checkpoint and the writers
                    saved = seeds.rows(progressed)[args.seeds * (done - 1) : args.seeds * done]
                    for writer in writers:
                        writer(saved[0]["steps"], {**_summary(saved, threshold), **_by_seed(saved)})
                curve = seeds.rows(progressed)
                newest = curve[-args.seeds :]
                before = curve[-2 * args.seeds]["steps"] if len(curve) > args.seeds else 0
                rate = (newest[0]["steps"] - before) * args.seeds / seconds
                summary = _summary(newest, threshold)
                advance(count, f"return {text_of(summary['eval_return'])}, {rate:,.0f} steps/s")
                left = _time_left(seconds, config.num_evaluations - done - 1)
                if left and not args.json and int(progressed.iterations) == done + 1:
                    print(f"{args.parser.prog}: {left} at this speed", file=sys.stderr)
                for writer in writers if count else ():
                    writer(newest[0]["steps"], {**summary, "steps_per_second": rate, **_by_seed(newest)})
                if not args.json:
                    table(newest[0]["steps"], summary)
    except FloatingPointError as error:
        kept = _checkpoints.newest(folder) is not None
        held = f"the last checkpoint in {folder} is unchanged" if kept else "there is no checkpoint yet"
        parser.error(f"{error}; {held}", status=1)
    except BrokenPipeError:
        raise
    except OSError as error:
        parser.error(str(error), status=1)
    seconds = time.perf_counter() - started
    if cut := sum(found["eval_unfinished"] for found in curve):
        total = config.num_eval_episodes * len(curve)
        reason = "by max_eval_steps or at a non-finite row"
        print(f"{args.parser.prog}: {cut} of {total} evaluated episodes were cut off {reason}", file=sys.stderr)
    if args.json:
        given = {"id": args.id, "algorithm": algorithm, "seeds": args.seeds, "seed": args.seed, "folder": str(folder)}
        print(json.dumps({**given, "config": dataclasses.asdict(config), "seconds": seconds, "curve": curve}))
        return
    print(f"{args.seeds} seed{'s' * (args.seeds > 1)} in {seconds:.1f} s, compilation included; see {folder}")


def default_folder(id: str) -> pathlib.Path:
    """Returns the folder of a run under a name that every system accepts: ids of suites contain a colon."""
    return pathlib.Path("runs") / re.sub(r"[^\w.-]", "-", id)


# --- settings ---------------------------------------------------------------------------------------------------------


def configured(args: argparse.Namespace) -> tuple[str, Any, str]:
    """Returns the name of the learner, its config, and a description of where the settings come from."""
    wrappers = [_wrappers(x, args.parser) for n, _, x in (t.partition("=") for t in args.set) if n == "wrappers" and x]
    options = settings_of(args)
    env = jaxenv.make(args.id, wrappers=wrappers[-1] if wrappers else (), **options)
    with_preset = [] if args.no_preset else [name for name, by_id in presets.PRESETS.items() if args.id in by_id]
    algorithm = args.algo or next(iter(with_preset), None) or _algorithms.suited(env.action_spec())
    cls = _algorithms.module("train", algorithm).Config
    base = presets.preset(args.id, algorithm) if algorithm in with_preset else cls(env_id=args.id)
    origin = f"its preset for {args.id}" if algorithm in with_preset else "its default settings"
    own = ("env_id", "env_options", "total_steps")  # they have their own options
    settings = {field.name: field for field in dataclasses.fields(cls) if field.name not in own}
    given = dict(_setting(text, cls, args.parser) for text in args.set)
    if unknown := sorted(given.keys() - settings.keys()):
        every = f"the settings of {algorithm} are {', '.join(sorted(settings))}"
        hint = did_you_mean(_named_here(unknown[0]), settings, otherwise=every)
        args.parser.error(f"argument --set: no setting {unknown[0]!r}, {hint}; --env sets the environment's")
    if given:
        origin += f", {', '.join(text for text in args.set)}"
    if options:
        given["env_options"] = dict(base.env_options) | options
        origin += f", {', '.join(f'{name}={value}' for name, value in options.items())}"
    if args.total_steps is None:
        return algorithm, dataclasses.replace(base, **given), origin
    config = dataclasses.replace(base, **given, total_steps=INT32_MAX)
    counts = [config.num_evaluations] if "num_evaluations" in given else None
    return algorithm, _lasting(config, args.total_steps, counts), origin


def _named_here(name: str) -> str:
    """Returns the name here of a setting that other libraries call ``name``, else the name itself."""
    found = re.search(r"\bConfig\((\w+)=", meaning(name, r"\bConfig\("))
    return found[1] if found else name


def explain_option(name: str) -> str:
    """Says how to give a setting of a learner that was given as an option of the command."""
    configs = (_algorithms.module("train", algorithm).Config for algorithm in ("ppo", "dqn", "sac"))
    known = {field.name for config in configs for field in dataclasses.fields(config)}
    return f"use --set {_named_here(name)}=VALUE" if _named_here(name) in known else ""


def _lasting(config: Any, steps: int, counts: Sequence[int] | None) -> Any:
    """Returns the config for ``steps``, rounded up to the next update.

    A run has equally many updates before each evaluation. The number of evaluations is chosen from ``counts``, by
    default from half to twice the config's: the closest that adds at most 1% of updates, else the one of fewest.
    """
    before = config.num_rows - config.num_updates * config.rows_per_update  # rows that fill a replay buffer
    updates = max(-(-(steps - before) // config.rows_per_update), 1)
    most = config.num_evaluations
    counts = counts or range(min(max(most // 2, 1), updates), min(2 * most, updates) + 1)
    count = min(counts, key=lambda n: (max(-updates % n - updates // 100, 0), abs(n - most)))
    rows = before + (updates + -updates % count) * config.rows_per_update
    return dataclasses.replace(config, num_evaluations=count, total_steps=rows)


def _setting(text: str, cls: type, parser: argparse.ArgumentParser) -> tuple[str, Any]:
    """Splits one ``--set`` into name and value: a tuple where the default is one; wrappers with options are calls."""
    name, equals, value = text.partition("=")
    if name == "wrappers" and equals:
        return name, tuple(_wrappers(value, parser))
    if not isinstance(getattr(cls, name, None), tuple) or not value:
        return assignment(text, parser, "--set")
    value = value.removeprefix("(").removesuffix(")").removesuffix(",")
    if not value:
        return name, ()
    values = assignment(f"{name}={value}", parser, "--set")[1]
    return name, tuple(values) if isinstance(values, list) else (values,)


def _wrappers(text: str, parser: argparse.ArgumentParser) -> list[Any]:
    """Parses names, and calls with options: ``A,B(size=64)`` becomes ``["A", ("B", {"size": 64})]``."""
    wrappers: list[Any] = []
    try:
        listed = ast.parse(f"[{text}]", mode="eval").body
        if not isinstance(listed, ast.List):
            raise ValueError
        for node in listed.elts:
            match node:
                case ast.Name(name):
                    wrappers.append(name)
                case ast.Call(ast.Name(name), [], keywords):
                    wrappers.append((name, {str(word.arg): ast.literal_eval(word.value) for word in keywords}))
                case _:
                    raise ValueError
    except (SyntaxError, ValueError):
        form = 'names or calls with named options, as A,B(size=64,fields="image")'
        parser.error(f"argument --set: wrappers must be {form}, got {text!r}")
    return wrappers


# --- reports ----------------------------------------------------------------------------------------------------------


def _writers(args: argparse.Namespace, folder: pathlib.Path, algorithm: str, config: Any) -> Iterator[Any]:
    if args.tensorboard:
        yield TensorBoard(folder / "tensorboard", resume=args.resume)
    if args.wandb:
        settings = {"algorithm": algorithm, **dataclasses.asdict(config), "num_seeds": args.seeds, "seed": args.seed}
        yield WandB(args.wandb, name=folder.name, config=settings)


def _timed(runs: Iterator[Any]) -> Iterator[tuple[Any, float]]:
    before = time.perf_counter()
    for item in runs:
        yield item, time.perf_counter() - before
        before = time.perf_counter()


def _time_left(seconds: float, count: int) -> str:
    """Says how long further evaluations will take, given the seconds up to the first one; empty below a minute.

    Compilation is part of the first one, so the others take less.

    >>> _time_left(35.0, 19), _time_left(600.0, 29), _time_left(2.0, 19)
    ('at most 12 minutes left', 'at most 4.8 hours left', '')
    """
    minutes = seconds * count / 60
    if minutes < 1:
        return ""
    return f"at most {math.ceil(minutes)} minutes left" if minutes < 100 else f"at most {minutes / 60:.1f} hours left"


def _resumed(folder: pathlib.Path) -> tuple[str, int]:
    """Describes where a run with ``--resume`` starts, and counts the evaluations before it."""
    newest = _checkpoints.newest(folder)
    if newest is None:
        return f", from the start: {folder} holds no checkpoint", 0
    stored: Any = data.restore(newest, {"iterations": jax.ShapeDtypeStruct((), np.int32)}, partial=True)
    return f", resumed from {newest}", int(stored["iterations"])


def _stopped(folder: pathlib.Path, can_resume: bool) -> str:
    """Returns the message of a run that a signal ends."""
    from jaxenv.training import seeds

    if _checkpoints.newest(folder) is None:
        seeds.forget(folder)
        return "jaxenv train: stopped before the first checkpoint; the same command starts again"
    if not can_resume:
        return "jaxenv train: stopped; the folder keeps the policy of the last checkpoint"
    command = shlex.join(["jaxenv", *sys.argv[1:]])
    resume = command if "--resume" in sys.argv else f"{command} --resume"
    return f"jaxenv train: stopped; resume from the last checkpoint with: {resume}"


def _by_seed(evaluations: list[dict[str, Any]]) -> dict[str, Any]:
    """Names the metrics of each seed for writers: ``seed0/eval_return``."""
    skipped = ("steps", "seed")
    return {f"seed{one['seed']}/{n}": value for one in evaluations for n, value in one.items() if n not in skipped}


def _summary(evaluations: list[dict[str, Any]], threshold: float | None) -> dict[str, Any]:
    """Returns the means and extremes over the seeds, given one evaluation of each."""
    trained, returns = (
        [found[name] for found in evaluations if found[name] is not None] for name in ("train_return", "eval_return")
    )
    summary: dict[str, Any] = {
        "train_return": statistics.fmean(trained) if trained else None,
        "eval_return": statistics.fmean(returns) if returns else None,
        "worst_seed": min(returns, default=None),
        "best_seed": max(returns, default=None),
    }
    # A curriculum that replays levels learns nothing from an empty buffer, and a trial in which nothing is gained.
    for name in ("buffer_fill", "train_gain"):
        if name in evaluations[0]:
            found = [one[name] for one in evaluations if one[name] is not None]
            summary[name] = statistics.fmean(found) if found else None
    return summary if threshold is None else {**summary, "solved": sum(x >= threshold for x in returns)}
