"""Environment steps per second under a random or a linear policy, compared with other libraries.

``python -m benchmarks throughput --ids CartPole-v1 Pendulum-v1 --num-envs 64 2048``. Where agents act at the same time
a step moves all of them. See README.md.
"""

import argparse
import functools
import itertools
import statistics
from collections.abc import Iterator, Sequence
from typing import Any

import jaxenv
from benchmarks import command, measure, tables
from benchmarks.libraries import PEERS
from benchmarks.ours import LOOPS, broadcast, default_num_steps, observation_bytes, product, rollout_of_id
from benchmarks.peers import DEFAULT

DEFAULT_IDS = ("CartPole-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Pendulum-v1", "Acrobot-v1")


NAMES = ("id", "loop", "num_envs", "num_steps")


def compare(
    id: str, num_envs: int, num_steps: int, repeats: int, loop: str = "sums", peers: Sequence[str] = DEFAULT
) -> dict[str, Any]:
    """Runs one id at one number of lanes on all sides, interleaved.

    The loops that store or act have one more side: a loop that only broadcasts (`ours.broadcast`) or multiplies
    (`ours.product`).

    Returns:
        A row of the result file: the settings, the results of each contestant, the ratios (the speed of jaxenv divided
        by the peer's), and the notes. If a broadcast was timed, the row also holds the bytes of observations that
        jaxenv stores per second, as a number and as a fraction of the broadcast's. If a product was timed, it holds
        the share of the product in the time of each side.
    """
    bound = {"stored": broadcast, "linear": product}.get(loop)
    able = [peer for peer in peers if loop != "linear" or peer == "gymnax"]
    contestants, notes = measure.available(
        lambda: rollout_of_id(id, num_envs, num_steps, loop),
        *([lambda: bound(id, num_envs, num_steps)] if bound is not None else []),
        *(functools.partial(PEERS[peer], id, num_envs, num_steps, loop) for peer in able),
    )
    notes = [*(f"{peer} runs a random policy only" for peer in peers if peer not in able), *notes]
    limit = None if ":" in id else jaxenv.spec(id).max_episode_steps
    row = {"id": id, "loop": loop, "num_envs": num_envs, "num_steps": num_steps, "max_episode_steps": limit}
    row |= measure.compared(contestants, notes, repeats)
    sides = row["contestants"]
    row["ratios"] = {name: ratio for name, ratio in row["ratios"].items() if name in PEERS}
    if {"broadcast", "jaxenv"} <= sides.keys():
        rows_per_second = statistics.median(num_envs * num_steps / s for s in sides["jaxenv"]["seconds"])
        row["observation_bytes_per_second"] = rows_per_second * observation_bytes(id)
        row["of_broadcast"] = rows_per_second / sides["broadcast"]["steps_per_second"]
    if "product" in sides:
        seconds = {name: statistics.median(side["seconds"]) for name, side in sides.items()}
        row["product_share"] = {n: seconds["product"] / s for n, s in seconds.items() if n != "product"}
    return row


def report(rows: Sequence[dict[str, Any]], args: argparse.Namespace) -> str:
    """Formats the results as an aligned table, with the geometric mean of the ratios for each number of lanes."""
    found_peers = {name for row in rows for name in row["contestants"]}
    peers, title = [name for name in PEERS if name in found_peers], "Million environment steps per second"
    found: list[tuple[str, Any]] = [("jaxenv", tables.side("jaxenv"))]
    for peer in peers:
        found += [(peer, tables.side(peer)), ("ratio", tables.ratio(peer))]
    if peers:
        title += "; ratio: how many times faster jaxenv is than the peer"
    if any("of_broadcast" in row for row in rows):
        title += (
            ";\nGB/s: of observations stored; of broadcast: percentage of the rows per second of a loop that stores"
            "\nonly one word in all elements of a lane"
        )
        found.append(("GB/s", lambda row: f"{row['observation_bytes_per_second'] / 1e9:.3g}"))
        found.append(("of broadcast", lambda row: f"{row['of_broadcast']:.0%}"))
    if any("product_share" in row for row in rows):
        title += ";\nproduct: what the matrix product of the policy alone takes, in percent of the time of either side"
        for name, side in (("product", "jaxenv"), *((peer, peer) for peer in peers)):
            found.append((name, lambda row, side=side: f"{row['product_share'][side]:.0%}"))
    sides = [row["contestants"] for row in rows]
    for side in ("jaxenv", *peers):
        if any(side in row and row[side]["compile_seconds"] is not None for row in sides):
            title_of_side = "compile s" if side == "jaxenv" else side
            found.append((title_of_side, tables.side(side, "compile_seconds", "{:.1f}".format)))
    text = [f"{title}.", tables.columns(rows, ("id", "id"), ("lanes", "num_envs"), ("steps", "num_steps"), *found)]
    for peer, mean in itertools.product(peers, tables.means(rows)):
        if (count := mean["counts"].get(peer, 0)) > 1:
            times = f"{mean['num_envs']} lanes: jaxenv is {mean['ratios'][peer]:.1f} times faster than {peer}"
            text.append(f"{times} (geometric mean of {count} ids)")
    return "\n".join([*text, *tables.notes(rows)])


def options(parser: command.Parser) -> None:
    """Adds the options."""
    parser.add_ids(DEFAULT_IDS, command.any_id)
    parser.add_sizes(num_envs=[64, 2048, 16384], num_steps=None)
    help = "; ".join(f"{name} {what}" for name, what in LOOPS.items())
    parser.add_argument("--loop", choices=list(LOOPS), default="sums", help=f"what becomes of the observations: {help}")
    parser.add_peers(list(PEERS), list(DEFAULT))


def rows(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Compares every id and number of lanes."""
    for id, num_envs in itertools.product(args.ids, args.num_envs):
        num_steps = args.num_steps or default_num_steps(id, num_envs, args.loop)
        yield compare(id, num_envs, num_steps, args.repeats, args.loop, args.peers)
