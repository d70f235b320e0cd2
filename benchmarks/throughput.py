"""Environment steps a second, beside gymnax and Gymnasium's NumPy vector environments, under a random policy.

``python -m benchmarks throughput --ids CartPole-v1 Pendulum-v1 --num-envs 64 2048``; see README.md.
"""

import argparse
import statistics
import sys
from collections.abc import Sequence
from typing import Any

import jaxenv
from benchmarks import command, measure
from benchmarks.ours import default_num_steps, ours
from benchmarks.peers import DEFAULT_PEERS, PEERS, Unavailable

DEFAULT_IDS = ("CartPole-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Pendulum-v1", "Acrobot-v1")


def compare(
    id: str, num_envs: int, num_steps: int, repeats: int, store: bool = False, peers: Sequence[str] = DEFAULT_PEERS
) -> dict[str, Any]:
    """Runs one id at one number of lanes on all sides, in turn.

    Returns:
        A row of the result file: the settings, the figures of each contestant, the ratios (ours over theirs), and why
        a peer is missing.
    """
    contestants, notes = [ours(id, num_envs, num_steps, store)], []
    for peer in peers:
        try:
            contestants.append(PEERS[peer](id, num_envs, num_steps, store))
        except Unavailable as reason:
            notes.append(str(reason))
    samples = measure.in_turn(contestants, repeats)
    rates = {name: measure.steps_per_second(s) for name, s in samples.items()}
    return {
        "id": id,
        "num_envs": num_envs,
        "num_steps": num_steps,
        "max_episode_steps": jaxenv.spec(id).max_episode_steps,
        "contestants": {c.name: measure.summary(c, samples[c.name]) for c in contestants},
        "ratios": {name: rates["jaxenv"] / rate for name, rate in rates.items() if name != "jaxenv"},
        "notes": notes,
    }


def report(rows: Sequence[dict[str, Any]], peers: Sequence[str]) -> str:
    """The figures as an aligned table, and the geometric mean of the ratios at each number of lanes."""
    header = ["id", "lanes", "steps", "jaxenv"]
    for peer in peers:
        header += [peer, "ratio"]
    header += ["compile s", *(["gymnax"] if "gymnax" in peers else [])]
    lines = []
    for row in rows:
        who, ratios = row["contestants"], row["ratios"]
        line = [row["id"], str(row["num_envs"]), str(row["num_steps"]), _millions(who["jaxenv"])]
        for peer in peers:
            line += [_millions(who[peer]), f"{ratios[peer]:.1f}x"] if peer in who else ["-", "-"]
        line.append(f"{who['jaxenv']['compile_seconds']:.1f}")
        if "gymnax" in peers:
            line.append(f"{who['gymnax']['compile_seconds']:.1f}" if "gymnax" in who else "-")
        lines.append(line)
    text = ["Million environment steps a second; ratio: jaxenv over the peer.", measure.table(header, lines)]
    for peer in peers:
        for lanes in sorted({row["num_envs"] for row in rows}):
            ratios = [row["ratios"][peer] for row in rows if row["num_envs"] == lanes and peer in row["ratios"]]
            if len(ratios) > 1:
                mean = statistics.geometric_mean(ratios)
                text.append(f"{peer}, {lanes} lanes: geometric mean of {len(ratios)} ratios {mean:.1f}x")
    return "\n".join([*text, *dict.fromkeys(f"note: {note}" for row in rows for note in row["notes"])])


def _millions(figures: dict[str, Any]) -> str:
    return measure.millions(figures["steps_per_second"])


# --- command line ----------------------------------------------------------------------------------------------------


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The settings from the command line; bad ones end the program with status 2 and one line."""
    parser = command.Parser("throughput", __doc__)
    parser.add_argument("--ids", nargs="+", type=command.id, default=list(DEFAULT_IDS), metavar="ID")
    parser.add_sizes(num_envs=[64, 2048, 16384], num_steps=None)
    parser.add_argument("--store", action="store_true", help="stack whole trajectories [T, B]")
    parser.add_argument("--peers", nargs="*", choices=list(PEERS), default=list(DEFAULT_PEERS))
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the comparison, prints the table and writes the file."""
    args = parse(arguments)
    rows = []
    for id in args.ids:
        for num_envs in args.num_envs:
            print(f"{id}, {num_envs} lanes ...", file=sys.stderr)
            num_steps = args.num_steps or default_num_steps(id, num_envs)
            rows.append(compare(id, num_envs, num_steps, args.repeats, args.store, args.peers))
    settings = {"repeats": args.repeats, "store": args.store, "policy": "random", "autoreset": "next_step"}
    return command.finish("throughput", args, rows, lambda rows: report(rows, args.peers), **settings)


if __name__ == "__main__":
    from benchmarks.__main__ import main as run_part

    sys.exit(run_part(["throughput", *sys.argv[1:]]))
