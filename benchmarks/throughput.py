"""Environment steps per second under a random or a linear policy, compared with gymnax, Gymnasium, EnvPool and MinAtar.

``python -m benchmarks throughput --ids CartPole-v1 Pendulum-v1 --num-envs 64 2048``. See README.md.
"""

import argparse
import statistics
import sys
from collections.abc import Sequence
from typing import Any

import jaxenv
from benchmarks import command, measure
from benchmarks.ours import LOOPS, broadcast, default_num_steps, observation_bytes, product, rollout_of_id
from benchmarks.peers import DEFAULT_PEERS, PEERS, Unavailable

DEFAULT_IDS = ("CartPole-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Pendulum-v1", "Acrobot-v1")


def compare(
    id: str, num_envs: int, num_steps: int, repeats: int, loop: str = "sums", peers: Sequence[str] = DEFAULT_PEERS
) -> dict[str, Any]:
    """Runs one id at one number of lanes on all sides, interleaved, and returns a row of the result file."""
    row = timed(id, num_envs, num_steps, repeats, *rollouts(id, num_envs, num_steps, loop, peers))
    return {"id": id, "loop": loop, **row}


def rollouts(
    id: str, num_envs: int, num_steps: int, loop: str = "sums", peers: Sequence[str] = DEFAULT_PEERS
) -> tuple[list[measure.Contestant], list[str]]:
    """Returns the rollouts of all sides and a note on each missing peer.

    The loops that store or act have one more: a loop that only broadcasts (`ours.broadcast`) or multiplies
    (`ours.product`).
    """
    contestants, notes = [rollout_of_id(id, num_envs, num_steps, loop)], []
    if (limit := {"stored": broadcast, "linear": product}.get(loop)) is not None:
        contestants.append(limit(id, num_envs, num_steps))
    for peer in peers:
        if loop == "linear" and peer != "gymnax":
            notes.append(f"{peer} runs a random policy only")
            continue
        try:
            contestants.append(PEERS[peer](id, num_envs, num_steps, loop))
        except Unavailable as error:
            notes.append(str(error))
    return contestants, notes


def timed(
    id: str,
    num_envs: int,
    num_steps: int,
    repeats: int,
    contestants: Sequence[measure.Contestant],
    notes: Sequence[str] = (),
) -> dict[str, Any]:
    """Times rollouts, interleaved.

    Returns:
        A row of the result file: the settings, the results of each contestant, the ratios (the speed of jaxenv divided
        by the peer's), and the notes. If a broadcast was timed, the row also holds the bytes of observations that
        jaxenv stores per second, as a number and as a fraction of the broadcast's. If a product was timed, it holds
        the share of the product in the time of each side.
    """
    samples = measure.sample_interleaved(contestants, repeats)
    for contestant in contestants:
        contestant.close()
    rates = {name: measure.steps_per_second(s) for name, s in samples.items()}
    row = {
        "id": id,
        "num_envs": num_envs,
        "num_steps": num_steps,
        "max_episode_steps": jaxenv.spec(id).max_episode_steps,
        "contestants": {c.name: measure.summary(c, samples[c.name]) for c in contestants},
        "ratios": {name: rates["jaxenv"] / rate for name, rate in rates.items() if name in PEERS and "jaxenv" in rates},
        "notes": list(notes),
    }
    if {"broadcast", "jaxenv"} <= rates.keys():
        rows_per_second = statistics.median(num_envs * num_steps / s.seconds for s in samples["jaxenv"])
        row["observation_bytes_per_second"] = rows_per_second * observation_bytes(id)
        row["of_broadcast"] = rows_per_second / rates["broadcast"]
    if "product" in rates:
        seconds = {name: statistics.median(sample.seconds for sample in s) for name, s in samples.items()}
        row["product_share"] = {n: seconds["product"] / s for n, s in seconds.items() if n != "product"}
    return row


def report(rows: Sequence[dict[str, Any]], peers: Sequence[str]) -> str:
    """Formats the results as an aligned table, with the geometric mean of the ratios for each number of lanes."""
    header = ["id", "lanes", "steps", "jaxenv"]
    for peer in peers:
        header += [peer, "ratio"]
    store, linear = "of_broadcast" in rows[0], "product_share" in rows[0]
    header += ["GB/s", "of broadcast"] if store else []
    sides = [side for side in ("jaxenv", "gymnax") if side in ("jaxenv", *peers)]
    header += ["product", *sides[1:]] if linear else []
    header += ["compile s", *(["gymnax"] if "gymnax" in peers else [])]
    lines = []
    for row in rows:
        results, ratios = row["contestants"], row["ratios"]
        line = [row["id"], str(row["num_envs"]), str(row["num_steps"]), _millions(results["jaxenv"])]
        for peer in peers:
            line += [_millions(results[peer]), f"{ratios[peer]:.1f}x"] if peer in results else ["-", "-"]
        if store:
            line += [f"{row['observation_bytes_per_second'] / 1e9:.3g}", f"{row['of_broadcast']:.0%}"]
        if linear:
            shares = row["product_share"]
            line += [f"{shares[side]:.0%}" if side in shares else "-" for side in sides]
        line.append(f"{results['jaxenv']['compile_seconds']:.1f}")
        if "gymnax" in peers:
            line.append(f"{results['gymnax']['compile_seconds']:.1f}" if "gymnax" in results else "-")
        lines.append(line)
    title = "Million environment steps per second"
    if peers:
        title += "; ratio: how many times faster jaxenv is than the peer"
    if store:
        title += (
            ";\nGB/s: of observations stored; of broadcast: percentage of the rows per second of a loop that stores"
        )
        title += "\nonly one word in all elements of a lane"
    if linear:
        title += ";\nproduct: what the matrix product of the policy alone takes, in percent of the time of either side"
    title += "."
    text = [title, measure.table(header, lines)]
    for peer in peers:
        for lanes in sorted({row["num_envs"] for row in rows}):
            ratios = [row["ratios"][peer] for row in rows if row["num_envs"] == lanes and peer in row["ratios"]]
            if len(ratios) > 1:
                mean, count = statistics.geometric_mean(ratios), len(ratios)
                text.append(
                    f"{lanes} lanes: jaxenv is {mean:.1f} times faster than {peer} (geometric mean of {count} ids)"
                )
    return "\n".join([*text, *measure.notes(rows)])


def _millions(result: dict[str, Any]) -> str:
    return measure.millions(result["steps_per_second"])


# --- command line ----------------------------------------------------------------------------------------------------


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parses the settings; an invalid one ends the program with status 2 and a one-line message."""
    parser = command.Parser("throughput", __doc__)
    parser.add_argument("--ids", nargs="+", type=command.id, default=list(DEFAULT_IDS), metavar="ID", help="ids to run")
    parser.add_sizes(num_envs=[64, 2048, 16384], num_steps=None)
    loops = "; ".join(f"{name} {what}" for name, what in LOOPS.items())
    parser.add_argument(
        "--loop", choices=list(LOOPS), default="sums", help=f"what a rollout does with its observations: {loops}"
    )
    parser.add_argument(
        "--peers",
        nargs="*",
        choices=list(PEERS),
        default=list(DEFAULT_PEERS),
        help="peers, or nothing for jaxenv alone",
    )
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the comparison, prints the table and writes the file."""
    args = parse(arguments)
    rows = []
    for id in args.ids:
        for num_envs in args.num_envs:
            print(f"{id}, {num_envs} lanes ...", file=sys.stderr)
            num_steps = args.num_steps or default_num_steps(id, num_envs, args.loop)
            rows.append(compare(id, num_envs, num_steps, args.repeats, args.loop, args.peers))
    policy = "linear" if args.loop == "linear" else "random"
    settings = {"repeats": args.repeats, "loop": args.loop, "policy": policy, "autoreset": "next_step"}
    return command.finish("throughput", args, rows, lambda rows: report(rows, args.peers), **settings)


if __name__ == "__main__":
    from benchmarks.__main__ import main as run_part

    sys.exit(run_part(["throughput", *sys.argv[1:]]))
