"""Lanes sharded over simulated devices and over processes: rollouts and PPO, compared with one.

The devices of a CPU share its cores, so more of them cannot be faster. The percentage shows the cost of sharding
itself: the program of a device with fewer lanes, the threads, and for PPO the mean of the gradients. Processes have a
core each, and as many are compared as there are cores: their percentage is the efficiency.
"""

import argparse
import itertools
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

import jaxenv
from benchmarks import command, measure
from benchmarks.ours import default_num_steps
from jaxenv.cli.rollout import compiled
from jaxenv.training import ppo

DEVICES = (1, 2, 4, 8)
WHAT = ("rollout", "weak", "ppo", "processes")
_SECONDS = 600  # of a process that does not end
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
    row = {"id": id, "what": what, "num_envs": num_envs, "num_steps": UPDATES * STEPS if what == "ppo" else num_steps}
    row |= measure.compared(contestants, (), repeats)
    return row | {"ratios": {name: 1 / ratio for name, ratio in row["ratios"].items()}}


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
    contestants = {str(n): _in_processes(id, lanes[n], repeats, n) for n in counts}
    rates = {n: side["steps_per_second"] for n, side in contestants.items()}
    ratios = {n: rate / (int(n) * rates["1"]) for n, rate in rates.items() if n != "1"}
    row = {"id": id, "what": what, "num_envs": num_envs, "num_steps": UPDATES * STEPS}
    return row | {"contestants": contestants, "ratios": ratios, "notes": []}


def _in_processes(id: str, num_envs: int, repeats: int, count: int) -> dict[str, Any]:
    """Trains over ``count`` processes, with one device and a core each, and returns the summary of the first.

    Raises:
        RuntimeError: if a process fails, with its output.
    """
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    line = [sys.executable, "-m", "benchmarks.devices", *map(str, (id, num_envs, repeats, count))]
    started = [
        subprocess.Popen([*line, str(number), str(port)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for number in range(count)
    ]
    try:
        printed = [process.communicate(timeout=_SECONDS) for process in started]
    finally:
        for process in started:
            process.kill()
    for process, (_, errors) in zip(started, printed, strict=True):
        if process.returncode:
            raise RuntimeError(f"a process of the benchmark ended with {process.returncode}: {errors[-2000:]}")
    return json.loads(printed[0][0].splitlines()[-1])


def _one_process(id: str, num_envs: int, repeats: int, count: int, number: int, port: int) -> None:
    """Trains as one of ``count`` processes and prints the summary of its runs."""
    if hasattr(os, "sched_setaffinity"):  # XLA, which has not started, makes one thread for each core that it may use
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[number % len(cores)]})
    if count > 1:
        jax.distributed.initialize(f"localhost:{port}", count, number)
    contestant = ppo_contestant(id, num_envs, count)
    samples = measure.sample_interleaved([contestant], repeats)[contestant.name]
    print(json.dumps(measure.summary(contestant, samples)))


def _rollout(id: str, num_envs: int, num_steps: int, devices: int) -> measure.Contestant:
    """Runs random actions with metrics. Every run plays the same episodes."""
    env = jaxenv.make(id, num_envs=num_envs)
    compile_seconds, play = compiled(env, num_steps, jax.random.key(0), devices)

    def run(seed: int) -> dict[str, Any]:
        *_, (_, _, metrics) = play()
        return metrics

    return measure.Contestant(str(devices), run, compile=lambda: compile_seconds)


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


def report(rows: Sequence[dict[str, Any]], args: argparse.Namespace) -> str:
    """Formats the results as an aligned table."""
    devices = sorted({n for row in rows for n in row["contestants"]}, key=int)
    shown = measure.columns(
        rows,
        *((title, title) for title in ("id", "what")),
        ("lanes", "num_envs"),
        ("steps", "num_steps"),
        *((f"{n} device{'s' * (n != '1')}", measure.side(n)) for n in devices),
        *((f"{n} of {devices[0]}", measure.ratio(n, ".0%")) for n in devices[1:]),
    )
    title = (
        "Million environment steps per second over simulated devices, which share the cores, as a percentage of one;\n"
        "weak: with this many lanes on each. Processes run PPO on a core each: percentage of as many times one."
    )
    return f"{title}\n{shown}"


def options(parser: command.Parser) -> None:
    """Adds the options."""
    parser.add_ids(["CartPole-v1"])
    help = "numbers of devices"
    parser.add_argument("--devices", nargs="+", type=command.positive, default=list(DEVICES), metavar="N", help=help)
    parser.add_argument("--what", nargs="+", choices=WHAT, default=list(WHAT), help="what to run")
    parser.add_sizes(num_envs=[2048, 16384], num_steps=None, repeats=3)


def check(parser: command.Parser, args: argparse.Namespace) -> None:
    """Refuses lanes that the devices cannot share."""
    sharded = args.devices if set(args.what) - {"processes"} else ()
    for num_envs, devices in itertools.product(args.num_envs, sharded):
        if num_envs % devices:
            parser.error(f"argument --num-envs: {num_envs} lanes cannot be divided over {devices} devices (--devices)")


def rows(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Compares every id, kind of run and number of lanes."""
    command.start_with_devices(max(args.devices))
    for id, what, num_envs in itertools.product(args.ids, args.what, args.num_envs):
        if what == "processes":
            counts = [n for n in sorted({1, *args.devices}) if n <= (os.cpu_count() or 1)]
            yield compare_processes(id, "processes, weak", num_envs // max(counts), counts, args.repeats)
            yield compare_processes(id, "processes, strong", num_envs, counts, args.repeats)
            continue
        lanes = num_envs // max(args.devices) if what == "weak" else num_envs
        num_steps = args.num_steps or default_num_steps(id, num_envs)
        yield compare(id, what, lanes, num_steps, args.devices, args.repeats)


if __name__ == "__main__":
    _one_process(sys.argv[1], *map(int, sys.argv[2:]))
