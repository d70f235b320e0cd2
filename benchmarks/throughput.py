"""Environment steps a second, beside gymnax and Gymnasium's NumPy vector environments, under a random policy.

``python -m benchmarks.throughput --ids CartPole-v1 Pendulum-v1 --num-envs 64 2048``; see README.md.
"""

import argparse
import functools
import math
import pathlib
import statistics
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import jax

import jaxenv
from benchmarks import measure
from benchmarks.measure import Contestant, Row, jax_contestant
from benchmarks.peers import PEERS, Unavailable

EPISODES = 3  # a run lasts at least so many mean episodes
LANE_STEPS = 2**20  # and takes at least so many steps of single lanes, so that its time can be read
DEFAULT_IDS = ("CartPole-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Pendulum-v1", "Acrobot-v1")


def ours(id: str, num_envs: int, num_steps: int, store: bool) -> Contestant:
    """This library, as ``make`` builds it."""
    env = jaxenv.make(id, num_envs=num_envs)
    policy = jaxenv.rollout.random_policy(env)

    def step(carry):
        state, timestep = carry
        action = policy(timestep, env.clock(state).stream("policy"))
        state, t = env.step(state, action)
        return (state, t), Row(t.observation, action, t.reward, t.terminated, t.truncated, ~t.is_first())

    return jax_contestant("jaxenv", env.reset, step, num_envs, num_steps, store)


def default_num_steps(id: str, num_envs: int) -> int:
    """Steps for at least three mean episodes of a random policy, begun by FIRST rows, and a time that can be read."""
    return max(math.ceil(EPISODES * (_mean_length(id) + 1)), math.ceil(LANE_STEPS / num_envs))


@functools.cache
def _mean_length(id: str) -> float:
    env = jaxenv.make(id, num_envs=64)
    played = jaxenv.evaluate(env, jaxenv.rollout.random_policy(env), jax.random.key(0), max_steps=5000)
    return float(played.lengths.mean())


def compare(
    id: str, num_envs: int, num_steps: int, repeats: int, store: bool = False, peers: Sequence[str] = tuple(PEERS)
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
        "contestants": {c.name: measure.figures(c, samples[c.name]) for c in contestants},
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
    return f"{figures['steps_per_second'] / 1e6:.3g}"


# --- command line ----------------------------------------------------------------------------------------------------


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, got {text!r}")
    return int(text)


def _id(text: str) -> str:
    try:
        return jaxenv.spec(text).id
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _new_file(text: str) -> pathlib.Path:
    path = pathlib.Path(text)
    if path.is_dir() or not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"cannot write {text!r}: it must be a file in a folder that exists")
    return path


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The settings from the command line; bad ones end the program with status 2 and one line."""
    parser = _Parser("python -m benchmarks.throughput", description=__doc__.partition("\n")[0], allow_abbrev=False)
    parser.add_argument("--ids", nargs="+", type=_id, default=list(DEFAULT_IDS), metavar="ID")
    parser.add_argument("--num-envs", nargs="+", type=_positive, default=[64, 2048, 16384], metavar="B")
    parser.add_argument(
        "--num-steps", type=_positive, metavar="T", help="steps of each lane; by default three mean episodes or more"
    )
    parser.add_argument("--repeats", type=_positive, default=5, metavar="R", help="timed runs of each (default 5)")
    parser.add_argument("--store", action="store_true", help="stack whole trajectories [T, B]")
    parser.add_argument("--peers", nargs="*", choices=list(PEERS), default=list(PEERS))
    parser.add_argument("--json", type=_new_file, metavar="PATH", help="write every figure to this file")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the comparison, prints the table and writes the file."""
    args = parse(arguments)
    recorded, rows = measure.record(), []
    for id in args.ids:
        for num_envs in args.num_envs:
            print(f"{id}, {num_envs} lanes ...", file=sys.stderr)
            num_steps = args.num_steps or default_num_steps(id, num_envs)
            rows.append(compare(id, num_envs, num_steps, args.repeats, args.store, args.peers))
    print(report(rows, args.peers))
    if args.json is not None:
        settings = {"repeats": args.repeats, "store": args.store, "policy": "random", "autoreset": "next_step"}
        content = {"benchmark": "throughput", "record": recorded, "settings": settings, "rows": rows}
        measure.write_json(args.json, content)
    return 0


if __name__ == "__main__":
    # A cached program would make the compile times meaningless.
    jax.config.update("jax_enable_compilation_cache", False)
    sys.exit(main())
