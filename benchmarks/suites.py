"""Suites of other libraries: every id is judged, and the record is a page.

``python -m benchmarks suites --suites gymnax pgx --page docs/evidence/record.md``. ``jaxenv certify`` judges an id in
the words of its own API, where it knows the library; ``jaxenv check`` judges the others as jaxenv runs them. Each id is
a line of ``benchmarks/results/suites/SUITE.jsonl``, written as soon as it is known. A line of the same versions is
kept, so a run that was stopped goes on where it was.
"""

import argparse
import fnmatch
import importlib
import importlib.metadata
import json
import os
import pathlib
import re
import resource
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Sequence
from typing import Any

from benchmarks import command, tables
from benchmarks.measure import one_line
from jaxenv.core.registry import SUITES

RESULTS = pathlib.Path(__file__).parent / "results" / "suites"
# The libraries whose API `jaxenv certify` knows. The others have none of their own, or wrap another one.
CERTIFIED = tuple(sorted(SUITES.keys() - {"bsuite", "envpool", "pettingzoo"}))
# Making all 1651 ids of EnvPool takes an hour, and some start other programs: these represent their kinds.
TRIED = {"envpool": ("CartPole-v1", "Blackjack-v1", "LunarLander-v3", "HalfCheetah-v5", "Pong-v5", "WalkerWalk-v1")}
_MOST = 40  # times the bound of a property: the seconds of wall time after which a process is ended


def judged(suite: str, id: str, seconds: float) -> dict[str, Any]:
    """Judges an id in a process of its own; returns its line, with CPU seconds."""
    certifies = suite in CERTIFIED
    words = ["certify", "--seconds"] if certifies else ["check", "--max-seconds"]
    line = [sys.executable, "-W", "ignore", "-m", "jaxenv", words[0], f"{suite}:{id}", "--json", words[1], str(seconds)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    try:
        done = subprocess.run(line, capture_output=True, text=True, timeout=_MOST * seconds)
        found, error = _answer(_portable(done.stdout)), _portable(done.stderr).strip().rpartition("\n")[2]
    except subprocess.TimeoutExpired:
        found, error = None, f"it was not judged in {_MOST * seconds:g} s"
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    took = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    row: dict[str, Any] = {"id": id, "versions": versions(suite), "by": words[0], "seconds": round(took, 1)}
    if found is None:
        return row | {"error": error.partition(": error: ")[2] or error or "the process ended without a result"}
    names: dict[str, list[str]] = {}
    for result in found["results"]:
        names.setdefault(result["status"], []).append(result["name"])
    details = [
        {key: x for key, x in result.items() if key != "seconds"}
        for result in found["results"]
        if result["status"] in ("failed", "not run", "opted out")
    ]
    return row | {"api": found["api"], "names": names, "details": details}


def _portable(text: str) -> str:
    """Shortens the paths of installed files."""
    return text.replace(f"{sysconfig.get_path('purelib')}/", "")


def _answer(text: str) -> dict[str, Any] | None:
    """Reads the JSON that a command printed last; a library may print before it."""
    for line in reversed(text.splitlines()):
        try:
            found = json.loads(line)
            return found[0] if isinstance(found, list) else found
        except (ValueError, LookupError):
            continue
    return None


def versions(suite: str) -> dict[str, str]:
    """Returns the versions on which a result depends."""
    return {name: importlib.metadata.version(name) for name in (suite, "jax")}


def read(suite: str) -> dict[str, dict[str, Any]]:
    """Returns the lines of a suite by id."""
    path = RESULTS / f"{suite}.jsonl"
    rows = map(json.loads, path.read_text().splitlines()) if path.is_file() else ()
    return {row["id"]: row for row in rows}


def write(suite: str, rows: dict[str, dict[str, Any]]) -> None:
    """Writes the lines of a suite, in the order of their ids."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    partial = RESULTS / f"{suite}.partial"
    partial.write_text("".join(json.dumps(rows[id]) + "\n" for id in sorted(rows)))
    os.replace(partial, RESULTS / f"{suite}.jsonl")


def judge(suite: str, ids: Sequence[str] | None, seconds: float) -> None:
    """Judges the ids of a suite (all by default) that its file does not have for the installed versions."""
    try:
        known = list(TRIED.get(suite) or importlib.import_module(SUITES[suite]).ids())
    except ImportError as error:
        print(f"note: {suite}: {one_line(error)}", file=sys.stderr)
        return
    rows, now = read(suite), versions(suite)
    for id in known:
        if rows.get(id, {}).get("versions") != now:
            rows[id] = {"id": id, "versions": now}  # not judged
    write(suite, rows)
    for id in known if ids is None else ids:
        if id not in rows:
            raise SystemExit(f"jaxenv bench suites: {suite} has no id {id}")
        if "by" not in rows[id]:
            rows[id] = judged(suite, id, seconds)
            write(suite, rows)
            print(summary(suite, rows[id]), file=sys.stderr)


def summary(suite: str, row: dict[str, Any]) -> str:
    """Formats a line of a result in a few words."""
    said = row.get("error") or ", ".join(f"{len(names)} {status}" for status, names in row["names"].items())
    return f"{suite}:{row['id']}: {said}, in {row['seconds']} s"


# --- the page ---------------------------------------------------------------------------------------------------------


def page() -> str:
    """Formats the record of all suites with results, as the text of a page."""
    suites = {path.stem: list(read(path.stem).values()) for path in sorted(RESULTS.glob("*.jsonl"))}
    table = []
    for suite, rows in suites.items():
        done = [row for row in rows if _is_judged(row)]
        found = sum("failed" in row["names"] for row in done)
        version = rows[0]["versions"]
        apis = [row["api"] for row in rows if "api" in row]
        by = f"its own API (`{apis[0]}`)" if suite in CERTIFIED and apis else "the kit"
        judged = f"{len(done)} of {len(rows)}"
        seconds = f"{sum(row['seconds'] for row in done):.0f}"
        table.append([suite, version[suite], version["jax"], by, judged, len(done) - found, found, seconds])
    header = ["library", "version", "JAX", "judged by", "ids judged", "without a finding", "with findings"]
    lines = [_HEAD, *tables.markdown([*header, "CPU seconds"], table)]
    lines += ["", "## Findings", "", _FINDINGS]
    causes: dict[Any, list[tuple[str, dict[str, Any]]]] = {}  # findings of one cause, which are shown once
    for suite, rows in suites.items():
        for row in rows:
            for result in row.get("details", ()):
                if result["status"] == "failed":
                    id, name = f"{suite}:{row['id']}", result["name"]
                    hand = _by_hand(f"{id} {name}")
                    causes.setdefault((suite, name, hand) if hand else (id, name), []).append((id, result))
    lines += [line for findings in causes.values() for line in _finding(findings)]
    table = []
    for suite, rows in suites.items():
        for row in filter(_is_judged, rows):
            cells = [", ".join(row["names"].get(status, ())) or "-" for status in ("failed", "not run")]
            counts = [len(row["names"].get(status, ())) for status in ("passed", "not applicable", "opted out")]
            table.append([f"`{suite}:{row['id']}`", counts[0], *cells, *counts[1:], f"{row['seconds']:.0f}"])
    header = ["id", "passed", "failed", "not run", "not applicable", "opted out", "CPU seconds"]
    lines += ["## The ids", "", _IDS, *tables.markdown(header, table)]
    lines += ["", "## Not judged", ""]
    for suite, rows in suites.items():
        if waiting := [f"`{row['id']}`" for row in rows if "by" not in row]:
            lines += [f"- {suite}, not run so far: {', '.join(waiting)}."]
        if slow := [f"`{row['id']}`" for row in rows if "names" in row and not _is_judged(row)]:
            lines += [f"- {suite}, no property was decided: {', '.join(slow)}."]
        alike: dict[str, list[str]] = {}
        for row in (row for row in rows if "error" in row):
            alike.setdefault(_without_id(suite, row), []).append(f"`{suite}:{row['id']}`")
        lines += [f"- {', '.join(ids)}: {error}" for error, ids in alike.items()]
    if others := sorted(SUITES.keys() - suites.keys() - {"bsuite"}):
        lines += [f"- no id so far: {', '.join(others)}."]
    return "\n".join(lines) + "\n"


def _is_judged(row: dict[str, Any]) -> bool:
    """Returns whether a property was decided: what never ran is neither sound nor a finding."""
    return bool({"passed", "failed"} & row.get("names", {}).keys())


def _without_id(suite: str, row: dict[str, Any]) -> str:
    """Returns an error without the parts that name its id, so that ids with one error can be listed together."""
    error = row["error"].replace(f"{suite}:{row['id']}", "").lstrip(": ")
    name = re.escape(row["id"].rpartition("/")[2].partition("-v")[0])
    error = re.sub(rf"entry point '[^']*{name}[^']*'", "it", error)
    return re.sub(rf" for environment '[^']*{name}[^']*'", "", error)


def _finding(findings: list[tuple[str, dict[str, Any]]]) -> list[str]:
    """Formats findings of one cause: the first with its program, and the ids of the others."""
    (id, result), *others = findings
    hand = _by_hand(f"{id} {result['name']}") or "Not looked into by hand so far."
    lines = [f"### {id}, `{result['name']}`", ""]
    if "expected" in result:
        place = f"lane {result.get('lane', 0)}, " + (f"step {result['step']}" if "step" in result else "at reset")
        lines += [f"Expected {result['expected']}. Seen, {place}: {result['seen']}. {hand}", ""]
        lines += ["```text", result["reproduction"], "```", ""]
    else:
        lines += [f"Seen: {result['evidence']}. {hand}", ""]
    return [*lines, f"The same in {', '.join(f'`{other}`' for other, _ in others)}.", ""] if others else lines


def _by_hand(key: str) -> str:
    """Returns what was found by hand of an id and a property, the first pattern that fits; empty for nothing."""
    patterns = tomllib.loads((RESULTS / "by_hand.toml").read_text())
    return next((text for pattern, text in patterns.items() if fnmatch.fnmatchcase(key, pattern)), "")


_HEAD = """# The record

The environments of other libraries, judged one at a time. A library whose API
[`jaxenv certify`](../howto/certify.md) knows is judged by that API, from its own loop and without jaxenv's
adapter. The others are judged by [`check_env`](../guides/checking.md) as `jaxenv.make` runs them. What was not
judged so far is listed [at the end](#not-judged).

These libraries are good: we build on them, and most of their ids have no finding. A finding here is one
difference between what an environment states and what it does, often one line to mend.
[Suites: faults and differences](suites.md) says what jaxenv does about each.

One command makes the record and goes on where it was stopped:
`python -m benchmarks suites --suites gymnax --page docs/evidence/record.md`. It counts CPU
seconds, on a machine that was shared. A property had one to five minutes; what took longer was not run, and
is not counted as passed.
"""

_FINDINGS = """Each program shows its finding with the library alone, without jaxenv. "Confirmed" means that we ran it
without jaxenv and read the library's code.
"""

_IDS = """Of an id without a finding, every property that applies passed, but those that were not run.
"""


# --- the command ------------------------------------------------------------------------------------------------------


def options(parser: command.Parser) -> None:
    """Adds the options."""
    suites = [suite for suite in SUITES if suite != "bsuite"]  # whose environments are in the catalogue
    parser.add_argument("--suites", nargs="*", choices=suites, default=suites, help="suites to judge")
    parser.add_argument("--ids", nargs="+", metavar="ID", help="judge these only, of one suite")
    parser.add_argument("--seconds", type=command.positive, default=60, help="the time for each property")
    parser.add_argument("--page", type=command.new_file, metavar="PATH", help="write the page of all results")


def check(parser: command.Parser, args: argparse.Namespace) -> None:
    """Refuses ids of several suites."""
    if len(args.suites) != 1 and args.ids is not None:
        parser.error("argument --suites: --ids needs exactly one suite")


def main(args: argparse.Namespace) -> int:
    """Judges, and writes the page."""
    for suite in args.suites:
        judge(suite, args.ids, args.seconds)
    if args.page is not None:
        args.page.write_text(page())
    return 0
