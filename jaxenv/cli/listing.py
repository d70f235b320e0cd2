"""Lists the environments: id, observation and action of one lane, time limit in steps. In a terminal they are grouped
by family, with a summary where the lines are long enough. `jaxenv show ID` shows one of them in full.

examples: jaxenv list grid; jaxenv list cartpole continuous; jaxenv list gymnax:
"""

import argparse
import dataclasses
import importlib
import json
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from rich.console import Console
from rich.table import Table

from jaxenv import specs, tree
from jaxenv._util.names import did_you_mean
from jaxenv.cli._arguments import add_options, columns
from jaxenv.cli._parser import Parser
from jaxenv.cli._spec_sheet import families, family, plain, summary
from jaxenv.core import registry
from jaxenv.core._describe import state_bytes
from jaxenv.core.registry import SUITES, import_module, suite_of
from jaxenv.wrappers.stack._make import make

# Words that choose environments by the kind of their action and observation.
KINDS = ("discrete", "continuous", "image", "vector")
_LEAST_WITH_SUMMARY = 100  # columns of the terminal


def add(command: Parser) -> None:
    """Adds the arguments."""
    words = (
        "list the environments that match all words: a part of the id, the family or the summary, "
        f"{', '.join(KINDS[:-1])} or {KINDS[-1]}; gymnax: lists the environments of gymnax"
    )
    add_options(command, "words", metavar="WORD", nargs="*", help=words)
    command.add_argument("--bytes", action="store_true", help="also show the bytes of one lane's state")
    form = command.add_mutually_exclusive_group()
    add_options(form, "--json", help="print a JSON array")
    form.add_argument("--markdown", action="store_true", help="print a Markdown table")


def run(args: argparse.Namespace) -> None:
    """Prints a table, or a JSON array."""
    entries = _matching_entries(args.parser, args.words)
    for entry in entries if args.bytes else ():
        entry["bytes"] = bytes_per_lane(entry["id"])
    console, table = Console(), _table(entries, args.bytes)
    if args.json:
        print(json.dumps([{n: x for n, x in entry.items() if n != "kinds"} for entry in entries], indent=2))
    elif args.markdown:
        rule = ["---"] * 3 + ["---:"] * (len(table[0]) - 3)
        rows = [[f"`{cells[0]}`", *cells[1:]] for cells in table[1:]]
        print("\n".join(f"| {' | '.join(cells)} |" for cells in (table[0], rule, *rows)))
    elif console.is_terminal:
        console.print(grouped(entries, table, console.width))
        print(f"\n{len(entries)} environment{'s' * (len(entries) != 1)}; `jaxenv show ID` describes one")
    else:
        print("\n".join(columns(table, left=3)))


# --- which environments -----------------------------------------------------------------------------------------------


def _matching_entries(parser: Parser, words: Sequence[str]) -> list[dict[str, Any]]:
    """Returns the entries that match all words. Exits with code 2 if there is none."""
    ids = registry.ids()
    prefixed = [word for word in words if ":" in word]
    words = [word for word in words if ":" not in word]
    if len(prefixed) > 1:
        parser.error(f"one suite or module at a time, got {' '.join(prefixed)}")
    for text in prefixed:
        prefix, _, part = text.partition(":")
        ids = _ids_of(prefix)
        words += [part] if part else []
    entries = [(_entry_of_suite if suite_of(id) else _entry)(id) for id in ids]
    matches = {word: [entry for entry in entries if _matches(entry, word)] for word in words}
    found = [entry for entry in entries if all(entry in matches[word] for word in words)]
    if not found:
        alone = next((word for word in words if not matches[word]), None)
        if alone is None:
            counts = ", ".join(f"{word!r} matches {len(matches[word])}" for word in words)
            parser.error(f"no environment matches all words; {counts}")
        names = [*ids, *(entry["family"] for entry in entries), *KINDS]
        every = f"words are parts of ids, families and summaries, or {', '.join(KINDS)}"
        parser.error(f"no environment matches {alone!r}, {did_you_mean(alone, names, otherwise=every)}")
    return found


def _ids_of(prefix: str) -> list[str]:
    """Returns the ids of a suite, or the ids whose class is in a module, which is imported."""
    if prefix in SUITES:
        return [f"{prefix}:{id}" for id in importlib.import_module(SUITES[prefix]).ids()]
    import_module(prefix)
    found = [id for id in registry.ids() if f"{registry.spec(id).module}.".startswith(f"{prefix}.")]
    if prefix.partition(".")[0] == "jaxenv":
        return found
    return [f"{prefix}:{id}" for id in found]  # the commands must import the module first


def _entry(id: str) -> dict[str, Any]:
    spec = registry.spec(id)
    try:
        env = spec.make()
    except ImportError as missing:
        raise ImportError(f"{id}: {missing}") from None
    observation, action = env.observation_spec(), env.action_spec()
    return {
        "id": id,
        "observation": spec_text(observation),
        "action": spec_text(action),
        "max_episode_steps": spec.max_episode_steps,
        "reward_threshold": spec.reward_threshold,
        "family": family(id),
        "summary": plain(summary(id)),
        "kinds": _kinds(observation, action),
    }


def _entry_of_suite(id: str) -> dict[str, Any]:
    """Returns the entry of a suite's id, without the observation, which would need a trace."""
    suite, _, name = id.partition(":")
    module = importlib.import_module(SUITES[suite])
    try:
        action, limit = module.action_and_limit(name)
        summary = plain(" ".join(module.docstring(name).split("\n\n")[0].split()))
    except ValueError:  # the suite would download something
        action, limit, summary = None, None, ""
    entry: dict[str, Any] = dict.fromkeys(("id", "observation", "action", "max_episode_steps", "reward_threshold"))
    entry |= {"id": id, "family": suite, "summary": summary, "max_episode_steps": limit, "kinds": set()}
    if action is not None:
        entry |= {"action": spec_text(action), "kinds": _kinds((), action)}
    return entry


def _kinds(observation: Any, action: Any) -> set[str]:
    """Returns the `KINDS` of an environment; discrete and continuous are about the action."""
    actions, ranks = jax.tree.leaves(action), {leaf.ndim for leaf in jax.tree.leaves(observation)}
    found = {
        "discrete": any(leaf.is_discrete for leaf in actions),
        "continuous": any(leaf.is_continuous for leaf in actions),
        "image": 3 in ranks,
        "vector": 1 in ranks,
    }
    return {kind for kind, present in found.items() if present}


def _matches(entry: dict[str, Any], word: str) -> bool:
    word = word.lower()
    if word in KINDS:
        return word in entry["kinds"]
    return any(word in entry[field].lower() for field in ("id", "family", "summary"))


def bytes_per_lane(id: str) -> int | None:
    """Returns the bytes of one lane's state in the stack that ``make`` builds, with its time limit and restarts.

    ``None`` if a library or a file that the environment needs is missing.
    """
    try:
        return state_bytes(make(id))[0]
    except (ImportError, ValueError):
        return None


# --- tables -----------------------------------------------------------------------------------------------------------


def _table(entries: Sequence[dict[str, Any]], with_bytes: bool) -> list[list[str]]:
    """Returns the header and one line of cells per entry: three left-aligned columns, then numbers."""
    table = [["id", "observation", "action", "limit", *["bytes"] * with_bytes]]
    for entry in entries:
        left = [entry["id"], entry["observation"] or "-", entry["action"] or "-"]
        numbers = [str(entry["max_episode_steps"] or "none"), *[str(entry.get("bytes") or "-")] * with_bytes]
        table.append([*left, *numbers])
    return table


def grouped(entries: Sequence[dict[str, Any]], cells: list[list[str]], width: int) -> Table:
    """Returns a table for a terminal, by family, with as much of the specs and summaries as fits."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold", expand=True)
    wide = width >= _LEAST_WITH_SUMMARY
    for name in [*cells[0], *["summary"] * wide]:
        number = name in ("limit", "bytes")
        fills_line = name == ("summary" if wide else "observation")
        table.add_column(
            name,
            no_wrap=True,
            overflow="ellipsis",
            justify="right" if number else "left",
            ratio=1 if fills_line else None,
            max_width={"observation": 22, "action": 12}.get(name),
        )
    rows = {entry["id"]: [*row, entry["summary"]] for entry, row in zip(entries, cells[1:], strict=True)}
    for title, members in families(list(rows)).items():
        table.add_row()
        table.add_row(title, style="bold")
        for id in members:
            table.add_row(f"  {id}", *rows[id][1 : len(table.columns)])
    return table


def spec_text(spec: Any) -> str:
    """Formats a tree of specs: ``float32[4]``, ``int32 0 .. 1``, ``{camera: uint8[84, 84, 3], speed: ...}``."""
    if specs.is_spec(spec):
        return _leaf_text(spec)
    named = isinstance(spec, dict) or dataclasses.is_dataclass(spec)
    parts = ((f"{n}: " if named else "") + spec_text(tree.get_field(spec, n)) for n in tree.child_names(spec))
    return "{" + ", ".join(parts) + "}"


def _leaf_text(spec: specs.Array) -> str:
    text = f"{spec.dtype}{list(spec.shape) if spec.shape else ''}"
    if isinstance(spec, specs.Bounded) and spec.is_bounded and spec.dtype.kind != "b":
        low, high = np.unique(spec.minimum), np.unique(spec.maximum)
        if low.size == high.size == 1:
            text += f" {low[0]:g} .. {high[0]:g}"
    return text
