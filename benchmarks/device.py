"""The first minutes on an accelerator: loops with nothing set, training, pictures, curricula and agreement.

``python -m benchmarks device --folder results``. The parts run in order of worth, each in its own process and within
its seconds. A part writes its file after every row, so one that is stopped loses nothing. See README.md.
"""

import argparse
import concurrent.futures
import itertools
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np

import jaxenv
from benchmarks import command, mazes, measure, ppo, render, tables
from benchmarks import defaults as loops
from jaxenv._util.library import default_types
from jaxenv.training import ued

# The parts in order of worth, and the most seconds of each; --total-seconds limits their sum. The first four are the
# default.
PARTS = {"defaults": 200, "train": 150, "pixels": 60, "mazes": 480, "agreement": 60}
DEFAULT_PARTS = list(PARTS)[:4]
# The ids and the numbers of lanes of a part, in order of worth.
IDS = ("CartPole-v1", "Pendulum-v1", "Breakout-MinAtar", "Seaquest-MinAtar", "MiniGrid-DoorKey-8x8-v0")
LANES = (2**17, 2**11, 2**20, 2**14)
_IDS = {
    "defaults": ("CartPole-v1", "Pendulum-v1", "Breakout-MinAtar", "Acrobot-v1", "Asterix-MinAtar", "FourRooms-misc"),
    "train": ("Breakout-MinAtar",),
    "pixels": ("CartPole-v1", "Breakout-MinAtar", "MiniGrid-DoorKey-8x8-v0"),
}
_LANES = {"defaults": (2**11, 2**17, 2**20, 2**14), "train": (2**11, 2**14), "pixels": (2**11, 2**17, 2**14)}
CURRICULA = ["dr", "robust_plr", "accel"]
# The sizes of a dry run: seconds on a CPU for each part, though what it measures then means nothing.
TINY: dict[str, Any] = {"num_envs": [8], "num_steps": 16, "lane_steps": 1, "repeats": 1}
TINY |= {"train_steps": 1, "maze_steps": 512, "seeds": 2, "curricula": ["robust_plr"], "evaluations": 2}
_TINY_MAZES = {"num_envs": 4, "num_steps": 32, "recurrent": 8, "capacity": 4}

Rows = Iterator[dict[str, Any]]


# --- parts -----------------------------------------------------------------------------------------------------------


def defaults(args: argparse.Namespace) -> Rows:
    """Runs the loops of `benchmarks.defaults`: all ids are compiled at once, then timed one after another."""
    for lanes in args.num_envs:
        steps = max(args.num_steps, args.lane_steps // lanes)
        with concurrent.futures.ThreadPoolExecutor() as pool:
            cases = {id: pool.submit(_compiled_loops, id, lanes, steps, "gymnax" in args.peers) for id in args.ids}
        for id, case in cases.items():
            row = {"id": id, "num_envs": lanes, "num_steps": steps} | measure.compared(*case.result(), args.repeats)
            rates = {name: result["steps_per_second"] for name, result in row["contestants"].items()}
            pairs = {name: other for name, other in loops.RATIOS.items() if {name, other} <= rates.keys()}
            yield row | {"ratios": {name: rates[name] / rates[other] for name, other in pairs.items()}}


def _compiled_loops(id: str, lanes: int, steps: int, gymnax: bool) -> tuple[list[measure.Contestant], list[str]]:
    with default_types():  # which threads do not inherit
        contestants, notes = loops.loops(id, lanes, steps, gymnax)
    for contestant in contestants:
        if contestant.compile:
            contestant.compile()
    return contestants, notes


def train(args: argparse.Namespace) -> Rows:
    """Runs PPO by purejaxrl's recipe and with one pass over the rows of an update, compared with purejaxrl."""
    for id, lanes, recipe in itertools.product(args.ids, args.num_envs, ppo.RECIPES):
        yield ppo.compare(id, lanes, args.train_steps, args.repeats, recipe)


def pixels(args: argparse.Namespace) -> Rows:
    """Draws pictures of 64 x 64: the jitted ``render``, and rollouts whose every row has one."""
    for lanes, id in itertools.product(args.num_envs, args.ids):
        yield {"num_envs": lanes, **render.compare(id, [lanes], [64], 16 * lanes, args.repeats, peers=False)}


def maze_curricula(args: argparse.Namespace) -> Rows:
    """Trains on mazes, all seeds together; the curricula take turns, so that a run that is cut compares them."""
    settings = _TINY_MAZES if args.tiny else {}
    seeds, started = list(range(args.seeds)), time.monotonic()
    runs = {}
    for name in args.curricula:
        config = ued.Config(curriculum=name, total_steps=args.maze_steps, num_evaluations=args.evaluations, **settings)
        runs[name] = mazes.evaluations(config, seeds, 10)
    for _ in range(args.evaluations):
        for name, run in runs.items():
            _, steps, solved = next(run)
            row = {"curriculum": name, "steps": steps, "seconds": time.monotonic() - started}
            yield row | {"mean": float(solved.mean()), "solved": solved.tolist()}


def agreement(args: argparse.Namespace) -> Rows:
    """Compares a reset and single steps from the same states with the CPU of the same machine, for each id."""
    with concurrent.futures.ThreadPoolExecutor() as pool:  # compilers run side by side
        yield from pool.map(lambda id: _agreement_of_id(id, min(args.num_steps, 64)), args.ids)


def _agreement_of_id(id: str, num_steps: int) -> dict[str, Any]:
    return {"id": id, **_agreement(jaxenv.make(id, num_envs=33), num_steps)}


def _agreement(env: jaxenv.Environment, num_steps: int) -> dict[str, Any]:
    policy, key = jaxenv.rollout.random_policy(env), jax.random.key(0)

    def advance(carry: Any, _: Any) -> Any:
        state, timestep = carry
        action = policy(timestep, jaxenv.rollout.policy_stream(env, state))
        after = env.step(state, action)
        return after, (state, action, after)

    def play(key: jax.Array) -> Any:
        start = env.reset(key)
        return start, jax.lax.scan(advance, start, length=num_steps)[1]

    def again(key: jax.Array, states: Any, actions: Any) -> Any:
        return env.reset(key), jax.lax.map(lambda given: env.step(*given), (states, actions))

    with jax.default_device(jax.devices("cpu")[0]):
        start, (states, actions, after) = jax.tree.map(np.asarray, jax.jit(play)(key))
    there = jax.tree.map(np.asarray, jax.jit(again)(key, states, actions))
    pairs = list(zip(jax.tree.leaves((start, after)), jax.tree.leaves(there), strict=True))
    exact = [(x, y) for x, y in pairs if not np.issubdtype(x.dtype, np.floating)]
    floats = [(x, y) for x, y in pairs if np.issubdtype(x.dtype, np.floating)]
    return {
        "integers": sum(x.size for x, _ in exact),
        "integers_that_differ": sum(int(np.sum(x != y)) for x, y in exact),
        "floats": sum(x.size for x, _ in floats),
        "largest_difference": max((_difference(x, y) for x, y in floats), default=0.0),
    }


def _difference(x: np.ndarray, y: np.ndarray) -> float:
    """Returns the largest difference, relative to values above 1; infinite where only one side is NaN."""
    same = (x == y) | (np.isnan(x) & np.isnan(y))
    with np.errstate(invalid="ignore"):
        difference = np.where(same, 0.0, np.abs(x - y) / np.maximum(1, np.abs(x)))
    return float(np.max(np.nan_to_num(difference, nan=np.inf), initial=0.0))


# --- command line ----------------------------------------------------------------------------------------------------

_RUN: dict[str, Callable[[argparse.Namespace], Rows]] = {
    "defaults": defaults,
    "train": train,
    "pixels": pixels,
    "mazes": maze_curricula,
    "agreement": agreement,
}


def options(parser: command.Parser) -> None:
    """Adds the options."""
    parser.add_folder()
    help = "one part runs in this process"
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=DEFAULT_PARTS, help=help)
    parser.add_argument("--total-seconds", type=command.positive, default=480, metavar="S", help="time of all parts")
    parser.add_argument("--tiny", action="store_true", help="a dry run: sizes that take seconds on a CPU")
    parser.add_ids(None, help="ids to run (default: the part's)")
    parser.add_peers(["gymnax"])
    parser.add_lanes(None, help="lanes (default: the part's)")
    parser.add_argument("--num-steps", type=command.positive, default=256, metavar="T", help="steps of each lane")
    help = "at least so many steps over all lanes"
    parser.add_argument("--lane-steps", type=command.positive, default=2**22, metavar="N", help=help)
    parser.add_repeats(3)
    parser.add_argument("--train-steps", type=command.positive, default=2 * 10**7, metavar="N", help="of a run of PPO")
    parser.add_argument("--curricula", nargs="+", choices=mazes.CURRICULA, default=CURRICULA, help="of mazes")
    parser.add_argument("--maze-steps", type=command.positive, default=30_000 * 8192, metavar="N", help="of a run")
    parser.add_argument("--evaluations", type=command.positive, default=120, metavar="N", help="in a run on mazes")
    parser.add_argument("--seeds", type=command.positive, default=8, metavar="N", help="runs of each curriculum")


def check(parser: command.Parser, args: argparse.Namespace) -> None:
    """Makes the sizes that are not given tiny for a dry run."""
    given = {argument.partition("=")[0] for argument in args.arguments}
    for name, size in TINY.items() if args.tiny else ():
        if f"--{name.replace('_', '-')}" not in given:
            setattr(args, name, size)


def main(args: argparse.Namespace) -> int:
    """Runs the parts and returns 1 if one failed or was stopped."""
    if len(args.parts) == 1:
        (part,) = args.parts
        args.json = args.folder / f"{args.prefix}-{part}.json"
        args.ids, args.num_envs = args.ids or list(_IDS.get(part, IDS)), args.num_envs or list(_LANES.get(part, LANES))
        command.written(f"device {part}", args, _RUN[part](args))
        return 0
    end, outcomes = time.monotonic() + args.total_seconds, []
    for part in args.parts:
        seconds = min(PARTS[part], end - time.monotonic())
        outcomes.append((part, _in_process(part, args.arguments, seconds) if seconds > 0 else "no time left"))
    print(tables.table(["part", "outcome"], outcomes))
    return int(any(outcome != "done" for _, outcome in outcomes))


def _in_process(part: str, arguments: Sequence[str], seconds: float) -> str:
    line = [sys.executable, "-m", "benchmarks", "device", *arguments, "--parts", part]
    try:
        code = subprocess.run(line, timeout=seconds).returncode
    except subprocess.TimeoutExpired:
        return f"stopped after {seconds:.0f} s"
    return "done" if code == 0 else f"exit status {code}"
