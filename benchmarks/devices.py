"""Lanes sharded over simulated devices and over processes: rollouts and PPO, compared with one.

The devices of a CPU share its cores, so more of them cannot be faster. The percentage shows the cost of sharding
itself: the program of a device with fewer lanes, the threads, and for PPO the mean of the gradients. Processes have a
core each, and as many are compared as there are cores: their percentage is the efficiency.
"""

import argparse
import itertools
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

import jaxenv
from benchmarks import command, measure, processes
from benchmarks.ours import default_num_steps
from jaxenv.training import ppo

DEVICES = (1, 2, 4, 8)
WHAT = ("rollout", "weak", "ppo", "processes")
# Steps of each lane before an update, updates of a run, passes over the rows and minibatches in each.
STEPS, UPDATES, EPOCHS, MINIBATCHES = 16, 4, 2, 4


def compare(id: str, what: str, num_envs: int, num_steps: int, devices: Sequence[int], repeats: int) -> dict[str, Any]:
    """Runs all numbers of devices, interleaved, and returns a row of the result file.

    Args:
        id: the environment.
        what: ``"rollout"``; ``"weak"``, a rollout with ``num_envs`` lanes on each device; or ``"ppo"``.
        num_envs: number of lanes.
        num_steps: steps of each lane; PPO takes its own number.
        devices: numbers of devices; the others are compared with the first.
        repeats: timed runs.
    """
    if what == "ppo":
        contestants = [ppo_contestant(id, num_envs, number) for number in devices]
    else:
        lanes = [num_envs * number if what == "weak" else num_envs for number in devices]
        contestants = [_rollout(id, *sizes) for sizes in zip(lanes, [num_steps] * len(devices), devices, strict=True)]
    samples = measure.sample_interleaved(contestants, repeats)
    rates = {name: measure.steps_per_second(s) for name, s in samples.items()}
    one, *others = rates
    return {
        "id": id,
        "what": what,
        "num_envs": num_envs,
        "num_steps": UPDATES * STEPS if what == "ppo" else num_steps,
        "contestants": {c.name: measure.summary(c, samples[c.name]) for c in contestants},
        "ratios": {name: rates[name] / rates[one] for name in others},
        "notes": [],
    }


def compare_processes(id: str, what: str, num_envs: int, counts: Sequence[int], repeats: int) -> dict[str, Any]:
    """Runs PPO over all numbers of processes and returns a row of the result file.

    Args:
        id: the environment.
        what: ``"processes, weak"``, with ``num_envs`` lanes in each process, or ``"processes, strong"``.
        num_envs: number of lanes.
        counts: numbers of processes, starting with 1.
        repeats: timed runs.
    """
    lanes = {n: num_envs * n if what == "processes, weak" else num_envs for n in counts}
    contestants = {str(n): processes.sample(id, lanes[n], repeats, n) for n in counts}
    rates = {n: side["steps_per_second"] for n, side in contestants.items()}
    return {
        "id": id,
        "what": what,
        "num_envs": num_envs,
        "num_steps": UPDATES * STEPS,
        "contestants": contestants,
        "ratios": {n: rate / (int(n) * rates["1"]) for n, rate in rates.items() if n != "1"},
        "notes": [],
    }


def _rollout(id: str, num_envs: int, num_steps: int, devices: int) -> measure.Contestant:
    """Runs random actions with metrics. Every run plays the same episodes."""
    env = jaxenv.make(id, num_envs=num_envs)
    rollout = jaxenv.rollout.ChunkedRollout(env, num_steps, jax.random.key(0), devices=devices)

    def run(seed: int) -> dict[str, Any]:
        *_, last = rollout
        return last.cumulative

    return measure.Contestant(str(devices), run, compile=lambda: rollout.compile_seconds)


def ppo_contestant(id: str, num_envs: int, devices: int) -> measure.Contestant:
    """Runs PPO on the first devices: a few updates and one evaluation of short episodes."""
    config = ppo.Config(
        env_id=id,
        num_envs=num_envs,
        num_steps=STEPS,
        num_epochs=EPOCHS,
        num_minibatches=MINIBATCHES,
        total_steps=UPDATES * num_envs * STEPS,
        num_evaluations=1,
        num_eval_episodes=max(DEVICES),
        max_eval_steps=1,
    )
    mesh = Mesh(np.array(jax.devices()[:devices]), ("lanes",)) if devices > 1 else None
    started = time.perf_counter()
    train: Callable = jax.jit(ppo.make_train(config, mesh=mesh)).lower(jax.random.key(0)).compile()
    seconds = time.perf_counter() - started

    def run(seed: int) -> dict[str, Any]:
        _, curve = jax.block_until_ready(train(jax.random.key(seed)))
        return {"steps": curve.steps, "terminated": 0, "truncated": 0}

    return measure.Contestant(str(devices), run, compile=lambda: seconds)


def report(rows: Sequence[dict[str, Any]]) -> str:
    """Formats the results as an aligned table."""
    devices = sorted({n for row in rows for n in row["contestants"]}, key=int)
    header = ["id", "what", "lanes", "steps", *(f"{n} device{'s' * (n != '1')}" for n in devices)]
    header += [f"{n} of {devices[0]}" for n in devices[1:]]
    lines = []
    for row in rows:
        sides = [row["contestants"].get(n) for n in devices]
        rates = ["-" if side is None else measure.millions(side["steps_per_second"]) for side in sides]
        ratios = [f"{row['ratios'][n]:.0%}" if n in row["ratios"] else "-" for n in devices[1:]]
        lines.append([row["id"], row["what"], str(row["num_envs"]), str(row["num_steps"]), *rates, *ratios])
    title = (
        "Million environment steps per second over simulated devices, which share the cores, as a percentage of one;\n"
        "weak: with this many lanes on each. Processes run PPO on a core each: percentage of as many times one."
    )
    return "\n".join([title, measure.table(header, lines)])


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parses the settings; an invalid one ends the program with status 2 and a one-line message."""
    parser = command.Parser("devices", __doc__)
    parser.add_argument("--ids", nargs="+", type=command.id, default=["CartPole-v1"], metavar="ID", help="ids to run")
    parser.add_argument(
        "--devices", nargs="+", type=command.positive, default=list(DEVICES), metavar="N", help="numbers of devices"
    )
    parser.add_argument(
        "--what",
        nargs="+",
        choices=WHAT,
        default=list(WHAT),
        help="what to run",
    )
    parser.add_sizes(num_envs=[2048, 16384], num_steps=None, repeats=3)
    args = parser.parse_args(arguments)
    sharded = args.devices if set(args.what) - {"processes"} else ()
    for num_envs, devices in itertools.product(args.num_envs, sharded):
        if num_envs % devices:
            parser.error(f"argument --num-envs: {num_envs} lanes cannot be divided over {devices} devices (--devices)")
    return args


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the comparison, prints the table and writes the file."""
    args, rows = parse(arguments), []
    try:
        jax.config.update("jax_num_cpu_devices", max(args.devices))
    except RuntimeError:  # JAX has already started
        if len(jax.devices()) < max(args.devices):
            print(f"jaxenv bench devices: JAX has started with {len(jax.devices())} devices", file=sys.stderr)
            return 2
    for id in args.ids:
        for what in args.what:
            for num_envs in args.num_envs:
                if what == "processes":
                    counts = [n for n in sorted({1, *args.devices}) if n <= (os.cpu_count() or 1)]
                    for scaling in ("processes, weak", "processes, strong"):
                        lanes = num_envs // max(counts) if scaling == "processes, weak" else num_envs
                        print(f"{id}, {scaling}, {lanes} lanes ...", file=sys.stderr)
                        rows.append(compare_processes(id, scaling, lanes, counts, args.repeats))
                    continue
                lanes = num_envs // max(args.devices) if what == "weak" else num_envs
                print(f"{id}, {what}, {lanes} lanes ...", file=sys.stderr)
                num_steps = args.num_steps or default_num_steps(id, num_envs)
                rows.append(compare(id, what, lanes, num_steps, args.devices, args.repeats))
    return command.finish("devices", args, rows, report, repeats=args.repeats, policy="random", autoreset="next_step")
