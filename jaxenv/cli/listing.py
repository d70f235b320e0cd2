"""``jaxenv list``: every environment, with observation, action and time limit."""

import argparse
import dataclasses
import json
from typing import Any

import numpy as np

from jaxenv import registry, specs, tree
from jaxenv.cli.arguments import Help


def add(commands) -> None:
    """Adds the command."""
    command = commands.add_parser(
        "list",
        help="show every environment: id, observation, action, time limit",
        description="Shows every environment: id, observation and action of one lane, time limit in steps.",
        formatter_class=Help,
    )
    command.add_argument("--json", action="store_true", help="print a JSON array instead")
    command.set_defaults(run=run, parser=command)


def run(args: argparse.Namespace) -> None:
    """Prints a table, or a JSON array."""
    rows: list[dict[str, Any]] = []
    for name in registry.ids():
        spec = registry.spec(name)
        env = spec.make()
        rows.append(
            {
                "id": name,
                "observation": spec_text(env.observation_spec()),
                "action": spec_text(env.action_spec()),
                "max_episode_steps": spec.max_episode_steps,
                "reward_threshold": spec.reward_threshold,
            }
        )
    if args.json:
        print(json.dumps(rows, indent=2))
        return
    table = [("id", "observation", "action", "limit")]
    table += [(r["id"], r["observation"], r["action"], str(r["max_episode_steps"] or "none")) for r in rows]
    widths = [max(len(row[column]) for row in table) for column in range(3)]
    for *left, limit in table:
        cells = [cell.ljust(width) for cell, width in zip(left, widths, strict=True)]
        print("  ".join([*cells, limit.rjust(len("limit"))]))


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
