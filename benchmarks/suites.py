"""Suites of other libraries: their versions, which ids load, and which pass the conformance kit.

``python -m benchmarks suites --suites brax jumanji``. See README.md. The checks of all suites take hours, so the table
is made in parts: ``python -m benchmarks suites --suites brax --check fast --json suites.json --update``.
"""

import argparse
import importlib
import importlib.metadata
import json
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator, Sequence
from typing import Any

import jax

import jaxenv
from benchmarks import command
from jaxenv.cli._arguments import one_line
from jaxenv.core.registry import SUITES
from jaxenv.testing.properties import HOST_OPT_OUTS

# The ids of each suite that are checked by default: quick ones that exercise different parts.
CHECKED = {
    "brax": ("fast", "inverted_pendulum"),
    "craftax": ("Craftax-Classic-Symbolic-v1", "Craftax-Classic-Pixels-v1"),
    "envpool": ("CartPole-v1", "Blackjack-v1"),
    "gymnasium": ("CartPole-v1", "Blackjack-v1"),
    "gymnax": ("CartPole-v1", "Catch-bsuite"),
    "jaxmarl": ("MPE_simple_spread_v3", "overcooked"),
    "jumanji": ("Minesweeper-v0", "Maze-v0"),
    "navix": ("Navix-Empty-Random-5x5-v0", "Navix-DoorKey-5x5-v0"),
    "pettingzoo": ("classic/tictactoe-v3", "classic/connect_four-v3"),
    "pgx": ("tic_tac_toe", "connect_four"),
    "playground": ("PendulumSwingup", "CartpoleBalance"),
    "xminigrid": ("MiniGrid-EmptyRandom-5x5", "MiniGrid-DoorKey-5x5"),
}


# Making all 1651 ids of EnvPool takes an hour, and some start other programs: these represent their kinds.
TRIED = {"envpool": ("CartPole-v1", "Blackjack-v1", "LunarLander-v3", "HalfCheetah-v5", "Pong-v5", "WalkerWalk-v1")}

NAMES = ("suite",)


def survey(suite: str, ids: Sequence[str] | None, checked: Sequence[str]) -> dict[str, Any]:
    """Loads the ids of a suite, checks some of them in separate processes, and returns a row of the result file."""
    module = importlib.import_module(SUITES[suite])
    try:
        known = module.ids()
    except ImportError as error:
        return {"suite": suite, "version": None, "notes": [f"{suite}: {one_line(error)}"]}
    failed, tried = {}, TRIED.get(suite, known) if ids is None else ids
    # Without restarts, which trace the start several times; the checks have them. Engines outside JAX always restart.
    options = {"autoreset": None} if hasattr(module, "single") else {}
    for id in tried:
        try:
            env = jaxenv.make(f"{suite}:{id}", num_envs=2, **options)
            state, _ = jax.eval_shape(env.reset, jax.random.key(0))
            jax.eval_shape(env.step, state, jaxenv.specs.zeros(env.action_spec(), (2,)))
        except Exception as error:  # all errors of other libraries belong in the table
            failed[id] = f"{type(error).__name__}: {one_line(error)}".replace(f"{sysconfig.get_path('purelib')}/", "")
    jax.clear_caches()  # frees gigabytes of traces for the processes of the checks
    return {
        "suite": suite,
        "version": importlib.metadata.version(suite),
        "known": len(known),
        "ids": len(tried),
        "failed": failed,
        "checked": {id: conformance(f"{suite}:{id}") for id in checked},
        "notes": [f"{suite}:{id}: {reason}" for id, reason in failed.items()],
    }


def conformance(id: str) -> dict[str, Any]:
    """Runs ``jaxenv check`` and returns the names of the properties by status, and the seconds."""
    started = time.perf_counter()
    line = [sys.executable, "-W", "ignore", "-m", "jaxenv", "check", id, "--json"]
    done = subprocess.run(line, capture_output=True, text=True)
    try:
        results = json.loads(done.stdout)[0]["results"]
    except (ValueError, LookupError):
        raise RuntimeError(f"jaxenv check {id} ended with code {done.returncode}: {done.stderr.strip()}") from None
    by_status: dict[str, Any] = {}
    for result in results:
        by_status.setdefault(result["status"], []).append(result["name"])
    reasons = {result["name"]: result["evidence"] for result in results if result["status"] == "opted out"}
    return {**by_status, "reasons": reasons, "seconds": time.perf_counter() - started}


def report(rows: Sequence[dict[str, Any]], args: argparse.Namespace) -> str:
    """Formats the results as a Markdown table."""
    lines = ["| suite | version | ids that load | checked | properties passed | failed | opted out |"]
    lines.append("|---|---|---|---|---|---|---|")
    for row in rows:
        if row["version"] is None:
            continue
        loaded = f"{row['ids'] - len(row['failed'])} of {row['ids']}"
        loaded += "" if row["known"] == row["ids"] else f" tried, {row['known']} known"
        first = [row["suite"], row["version"], loaded]
        for id, found in row["checked"].items():
            names = [names_of(found.get(status, ())) for status in ("failed", "opted out")]
            cells = [*first, f"`{id}`", str(len(found.get("passed", ()))), *names]
            lines.append(f"| {' | '.join(cells)} |")
            first = ["", "", ""]
        if not row["checked"]:
            lines.append(f"| {' | '.join([*first, '-', '-', '-', '-'])} |")
    notes = [f"note: {note}" for row in rows for note in row["notes"]]
    return "\n".join([*lines, "", *notes]) if notes else "\n".join(lines)


def names_of(properties: Sequence[str]) -> str:
    """Lists properties as text; properties that no environment outside JAX has are only counted."""
    host = [name for name in properties if name in HOST_OPT_OUTS]
    if len(host) == len(HOST_OPT_OUTS):
        properties = [name for name in properties if name not in host]
        properties = [*properties, f"{len(host)} that need JAX"]
    return ", ".join(properties) or "-"


def options(parser: command.Parser) -> None:
    """Adds the options."""
    parser.add_argument("--suites", nargs="+", choices=tuple(CHECKED), default=list(CHECKED), help="suites to load")
    parser.add_argument("--ids", nargs="+", metavar="ID", help="load these only, of one suite")
    parser.add_argument("--check", nargs="*", metavar="ID", help="check these, of one suite (default: two of each)")
    parser.add_json()
    parser.add_update()


def check(parser: command.Parser, args: argparse.Namespace) -> None:
    """Refuses ids of several suites."""
    if len(args.suites) > 1 and (args.ids is not None or args.check):
        parser.error("argument --suites: --ids and --check need exactly one suite")


def rows(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Surveys the suites; with ``--update`` the file keeps its checks of the same version."""
    updated = args.update and args.json.is_file()
    old = {row["suite"]: row for row in json.loads(args.json.read_text())["rows"]} if updated else {}
    for suite in args.suites:
        row = survey(suite, args.ids, CHECKED[suite] if args.check is None else args.check)
        if args.check and suite in old and old[suite]["version"] == row["version"]:
            row["checked"] = old[suite]["checked"] | row["checked"]
        yield row
