"""``jaxenv check``: whether environments keep their promises."""

import argparse
import contextlib
import dataclasses
import json
import time
from typing import Any

import jax

import jaxenv
from jaxenv.cli.arguments import Help, Parser, integer, one_line
from jaxenv.environment import Environment
from jaxenv.rollout.progress import progress
from jaxenv.testing import PROPERTIES, Report, check_env
from jaxenv.testing.report import Status


def add(commands) -> None:
    """Adds the command."""
    command = commands.add_parser(
        "check",
        help="look whether an environment keeps its promises: a table of properties, exit code 1 if one fails",
        description="Looks at one property after another and prints a table. The exit code is 1 if one failed.",
        epilog="example: jaxenv check CartPole-v1 --properties 18 20 21",
        formatter_class=Help,
    )
    command.add_argument(
        "id", metavar="ID", nargs="?", help="which environment, as `jaxenv list` names it, or one of a suite: gymnax:ID"
    )
    command.add_argument("--all", action="store_true", help="check every environment")
    command.add_argument(
        "--properties", metavar="N", type=integer(1), nargs="+", default=[], help="their numbers (default: all)"
    )
    command.add_argument("--seed", metavar="S", type=integer(0), default=0, help="where all randomness comes from")
    form = command.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print a JSON array instead, one object per environment")
    form.add_argument("--markdown", action="store_true", help="print one row per environment, and the properties")
    command.set_defaults(run=run, parser=command)


def run(args: argparse.Namespace) -> None:
    """Prints a report per environment and ends with code 1 if a property failed."""
    if bool(args.id) == args.all:
        args.parser.error("one ID is required, or --all")
    numbers = sorted(set(args.properties)) or list(PROPERTIES)
    if unknown := [n for n in numbers if n not in PROPERTIES]:
        args.parser.error(f"no property {unknown[0]}, the properties are {', '.join(map(str, PROPERTIES))}")
    try:
        envs = [jaxenv.load(id) for id in (jaxenv.ids() if args.all else [args.id])]
    except (ImportError, ValueError) as fault:
        args.parser.error(one_line(fault))
    with contextlib.suppress(RuntimeError):  # too late where something was computed before; then 17 says so
        jax.config.update("jax_num_cpu_devices", 4)
    if args.id:
        _require_libraries(args.parser, envs[0])
    reports: list[Report] = []
    seconds: list[float] = []
    with progress(len(envs) * len(numbers), "checks") as done:
        for env in envs:
            begun = time.perf_counter()
            key = jax.random.key(args.seed)
            reports.append(check_env(env, key=key, properties=numbers, progress=lambda _: done(1)))
            seconds.append(time.perf_counter() - begun)
            if len(envs) > 1:
                jax.clear_caches()  # a process may map only so many pieces of code, which a dozen environments fill
    if args.json:
        print(json.dumps([_as_data(*pair) for pair in zip(reports, seconds, strict=True)]))
    elif args.markdown:
        print(_as_markdown(reports, seconds, numbers))
    else:
        print("\n\n".join(map(str, reports)))
    if not all(report.ok for report in reports):
        raise SystemExit(1)


def _require_libraries(parser: Parser, env: Environment) -> None:
    """Ends with code 2 if a library is missing that the environment needs; every other fault is for the table."""
    with contextlib.suppress(Exception):
        try:
            jax.eval_shape(env.reset, jax.random.key(0))
        except ImportError as missing:
            parser.error(one_line(missing))


def _as_data(report: Report, seconds: float) -> dict[str, Any]:
    return {"target": report.target, "seconds": round(seconds, 1), "results": list(map(dataclasses.asdict, report))}


def _as_markdown(reports: list[Report], seconds: list[float], numbers: list[int]) -> str:
    """A row per environment with the numbers of what did not simply pass, and a row per property."""
    lines = ["| environment | passed | failed | not applicable | opted out | seconds |", "|---|---|---|---|---|---|"]
    for report, took in zip(reports, seconds, strict=True):
        of = {s: [str(r.number) for r in report if r.status is s] for s in Status}
        told = [", ".join(of[s]) or "-" for s in (Status.FAILED, Status.NOT_APPLICABLE, Status.OPTED_OUT)]
        lines.append(f"| `{report.target}` | {len(of[Status.PASSED])} | {' | '.join(told)} | {took:.0f} |")
    lines += ["", "| | property | what is promised |", "|---|---|---|"]
    lines += [f"| {n} | {PROPERTIES[n].name} | {PROPERTIES[n].says} |" for n in numbers]
    return "\n".join(lines)
