"""``jaxenv list``: every environment with its observation, action and time limit."""

import argparse
import dataclasses
import json
from typing import Any

import numpy as np

import jaxenv
from jaxenv import specs, tree
from jaxenv._describe import state_bytes
from jaxenv.cli._arguments import Help, one_line


def add(commands) -> None:
    """Adds the command."""
    command = commands.add_parser(
        "list",
        help="list every environment with its observation, action and time limit",
        description="Lists every environment: id, observation and action of one lane, time limit in steps.",
        formatter_class=Help,
    )
    command.add_argument("--bytes", action="store_true", help="also show the bytes of one lane's state")
    form = command.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print a JSON array")
    form.add_argument("--markdown", action="store_true", help="print a Markdown table")
    command.set_defaults(run=run, parser=command)


def run(args: argparse.Namespace) -> None:
    """Prints a table, or a JSON array."""
    entries: list[dict[str, Any]] = []
    for name in jaxenv.ids():
        spec = jaxenv.spec(name)
        try:
            env = spec.make()
        except ImportError as missing:
            args.parser.error(f"{name}: {one_line(missing)}")
        entry: dict[str, Any] = {
            "id": name,
            "observation": spec_text(env.observation_spec()),
            "action": spec_text(env.action_spec()),
            "max_episode_steps": spec.max_episode_steps,
            "reward_threshold": spec.reward_threshold,
        }
        entries.append(entry | ({"bytes": bytes_per_lane(name)} if args.bytes else {}))
    if args.json:
        print(json.dumps(entries, indent=2))
        return
    table = [["id", "observation", "action", "limit", *["bytes"] * args.bytes]]
    for entry in entries:
        left = [f"`{entry['id']}`" if args.markdown else entry["id"], entry["observation"], entry["action"]]
        table.append([*left, str(entry["max_episode_steps"] or "none"), *[str(entry.get("bytes") or "-")] * args.bytes])
    if args.markdown:
        table.insert(1, ["---"] * 3 + ["---:"] * (len(table[0]) - 3))
        print("\n".join(f"| {' | '.join(cells)} |" for cells in table))
        return
    widths = [max(len(cells[column]) for cells in table) for column in range(len(table[0]))]
    for cells in table:
        left = [cell.ljust(width) for cell, width in zip(cells[:3], widths[:3], strict=True)]
        right = [cell.rjust(width) for cell, width in zip(cells[3:], widths[3:], strict=True)]
        print("  ".join([*left, *right]))


def bytes_per_lane(id: str) -> int | None:
    """Bytes of one lane's state in the stack that ``make`` builds, with its time limit and restarts.

    ``None`` if a library that the environment needs is missing.
    """
    try:
        return state_bytes(jaxenv.make(id))[0]
    except ImportError:
        return None


def spec_text(spec: Any) -> str:
    """A tree of specs as short text: ``float32[4]``, ``int32 0 .. 1``, ``{camera: uint8[84, 84, 3], speed: ...}``."""
    if not specs.is_spec(spec):
        named = isinstance(spec, dict) or dataclasses.is_dataclass(spec)
        parts = ((f"{n}: " if named else "") + spec_text(tree.get_field(spec, n)) for n in tree.child_names(spec))
        return "{" + ", ".join(parts) + "}"
    text = f"{spec.dtype}{list(spec.shape) if spec.shape else ''}"
    if isinstance(spec, specs.Bounded) and spec.is_bounded and spec.dtype.kind != "b":
        low, high = np.unique(spec.minimum), np.unique(spec.maximum)
        if low.size == high.size == 1:
            text += f" {low[0]:g} .. {high[0]:g}"
    return text
