"""Checks environments for the properties of `jaxenv.testing`, one by one.

The exit code is 1 if a property failed, and 3 if none failed but some were not run.

example: jaxenv check CartPole-v1 --properties batch_equals_single_lanes lane_independent
"""

import argparse
import contextlib
import json

import jax

import jaxenv
from jaxenv.cli._arguments import add_options
from jaxenv.cli._parser import Parser
from jaxenv.core.environment import Environment
from jaxenv.rollout._progress import progress
from jaxenv.testing import Report, check_env
from jaxenv.testing._elsewhere import exit_with
from jaxenv.testing.properties import PROPERTIES, select_properties
from jaxenv.testing.report import Status


def add(command: Parser) -> None:
    """Adds the arguments."""
    add_options(command, "id", nargs="?")
    command.add_argument("--all", action="store_true", help="check every environment")
    add_options(command, "--properties", "--seed")
    bound = "the bound on the seconds of each property (default: 600)"
    command.add_argument("--max-seconds", type=float, default=600.0, metavar="SECONDS", help=bound)
    form = command.add_mutually_exclusive_group()
    add_options(form, "--json", help="print a JSON array with one object per environment")
    form.add_argument("--markdown", action="store_true", help="print a table of environments and one of properties")


def run(args: argparse.Namespace) -> None:
    """Prints one report per environment and exits with the status of the worst."""
    if bool(args.id) == args.all:
        args.parser.error("one ID is required, or --all")
    with contextlib.suppress(RuntimeError):  # a backend is already running; sharding_invariant then reports it
        jax.config.update("jax_num_cpu_devices", 4)
    names = select_properties(args.properties or None)
    envs = [jaxenv.make(id) for id in (jaxenv.ids() if args.all else [args.id])]
    if args.id:
        _require_libraries(args.parser, envs[0])
    reports: list[Report] = []
    with progress(len(envs) * len(names), "checks") as done:
        for env in envs:
            key, report = jax.random.key(args.seed), lambda result: done(1, result.name)
            reports.append(check_env(env, key=key, properties=names, max_seconds=args.max_seconds, progress=report))
            if len(envs) > 1:
                jax.clear_caches()  # compiled programs of many environments exceed the memory maps of one process
    if args.json:
        print(json.dumps([report.as_dict() for report in reports]))
    elif args.markdown:
        print(_as_markdown(reports, names))
    else:
        print("\n\n".join(map(str, reports)))
    exit_with(min((report.exit_status for report in reports if not report.ok), default=0))


def _require_libraries(parser: Parser, env: Environment) -> None:
    """Exits with code 2 if the environment needs a missing library; any other error belongs in the report."""
    with contextlib.suppress(Exception):
        try:
            jax.eval_shape(env.reset, jax.random.key(0))
        except ImportError as missing:
            parser.error(str(missing))


def _as_markdown(reports: list[Report], names: list[str]) -> str:
    """Formats a table of environments with the properties that did not pass, and a table of properties."""
    lines = ["| environment | passed | failed | not applicable | opted out | seconds |", "|---|---|---|---|---|---|"]
    for report in reports:
        by_status = {s: [r.name for r in report if r.status is s] for s in Status}
        by_status[Status.FAILED] += [f"{name} (not run)" for name in by_status[Status.NOT_RUN]]
        listed = [", ".join(by_status[s]) or "-" for s in (Status.FAILED, Status.NOT_APPLICABLE, Status.OPTED_OUT)]
        lines.append(
            f"| `{report.target}` | {len(by_status[Status.PASSED])} | {' | '.join(listed)} | {report.seconds:.0f} |"
        )
    lines += ["", "| property | description |", "|---|---|"]
    lines += [f"| `{name}` | {' '.join((PROPERTIES[name].__doc__ or '').split())} |" for name in names]
    return "\n".join(lines)
