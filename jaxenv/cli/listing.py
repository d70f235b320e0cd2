"""``jaxenv list``: every environment, with observation, action and time limit."""

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
        help="show every environment: id, observation, action, time limit",
        description="Shows every environment: id, observation and action of one lane, time limit in steps.",
        formatter_class=Help,
    )
    command.add_argument("--bytes", action="store_true", help="also show how many bytes the state of one lane takes")
    form = command.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print a JSON array instead")
    form.add_argument("--markdown", action="store_true", help="print a Markdown table instead")
    command.set_defaults(run=run, parser=command)


def run(args: argparse.Namespace) -> None:
    """Prints a table, or a JSON array."""
    rows: list[dict[str, Any]] = []
    for name in jaxenv.ids():
        spec = jaxenv.spec(name)
        try:
            env = spec.make()
        except ImportError as missing:
            args.parser.error(f"{name}: {one_line(missing)}")
        row: dict[str, Any] = {
            "id": name,
            "observation": spec_text(env.observation_spec()),
            "action": spec_text(env.action_spec()),
            "max_episode_steps": spec.max_episode_steps,
            "reward_threshold": spec.reward_threshold,
        }
        rows.append(row | ({"bytes": bytes_per_lane(name)} if args.bytes else {}))
    if args.json:
        print(json.dumps(rows, indent=2))
        return
    table = [["id", "observation", "action", "limit", *["bytes"] * args.bytes]]
    for row in rows:
        left = [f"`{row['id']}`" if args.markdown else row["id"], row["observation"], row["action"]]
        table.append([*left, str(row["max_episode_steps"] or "none"), *[str(row.get("bytes") or "-")] * args.bytes])
    if args.markdown:
        table.insert(1, ["---"] * 3 + ["---:"] * (len(table[0]) - 3))
        print("\n".join(f"| {' | '.join(cells)} |" for cells in table))
        return
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    for cells in table:
        left = [cell.ljust(width) for cell, width in zip(cells[:3], widths[:3], strict=True)]
        right = [cell.rjust(width) for cell, width in zip(cells[3:], widths[3:], strict=True)]
        print("  ".join([*left, *right]))


def bytes_per_lane(id: str) -> int | None:
    """Bytes that the state of one lane takes in the stack that ``make`` builds, restarts and time limit included.

    ``None`` where a library is missing that the environment needs.
    """
    try:
        return state_bytes(jaxenv.make(id))[0]
    except ImportError:
        return None


def spec_text(spec: Any) -> str:
    """A tree of specs in a few words: ``float32[4]``, ``int32 0 .. 1``, ``{camera: uint8[84, 84, 3], speed: ...}``."""
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
