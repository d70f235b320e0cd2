"""The first minutes on an accelerator: launch time and bandwidth, agreement with the CPU, steps per second, PPO.

``python -m benchmarks device --folder results``. The parts run in order of worth, each in its own process and within
its seconds. A part writes its file after every row, so one that is stopped loses nothing. See README.md.
"""

import argparse
import concurrent.futures
import functools
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxenv
from benchmarks import command, hlo, measure, throughput
from benchmarks.ours import rollout_of_id
from jaxenv import testing
from jaxenv._util.library import default_types

# The parts in order of worth, and the seconds of each; together they are at most --total-seconds.
PARTS = {"limits": 30, "agreement": 60, "linear": 60, "sums": 120, "options": 90, "stored": 60, "ppo": 80}
PARTS |= {"properties": 60, "box2d": 180}
IDS = ("CartPole-v1", "Pendulum-v1", "Breakout-MinAtar", "Seaquest-MinAtar", "MiniGrid-DoorKey-8x8-v0")
BOX2D = "LunarLander-v3"
LANES = (2**17, 2**11, 2**20, 2**14)  # in order of worth
# What an accelerator may break: the order of lanes, of draws and of restarts, and the exactness of sums.
PROPERTIES = ("same_tree", "leading_lanes", "rows_match_specs", "lane_independent", "batch_equals_single_lanes")
PROPERTIES += ("permutation_equivariant", "episode_grammar", "time_limit_exact", "modes_agree", "statistics_exact")
_ITERATIONS = 10_000
_SLOW = 8.0  # seconds: a rollout that takes longer with fewer lanes is not run with more
_CAPTURED = {"xla_gpu_graph_min_graph_size": 1}  # loop bodies of fewer than five launches run as CUDA graphs, too

Rows = Iterator[dict[str, Any]]


# --- parts -----------------------------------------------------------------------------------------------------------


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


def properties(args: argparse.Namespace) -> Rows:
    """Checks the properties of the conformance kit that an accelerator may break."""
    for id in args.ids:
        report = testing.check_env(jaxenv.make(id, num_envs=8), properties=PROPERTIES)
        yield {"id": id, "failed": [f"{r.name}: {r.evidence}" for r in report.failed]}


def limits(args: argparse.Namespace) -> Rows:
    """Measures the time of a launch and the bandwidth of a copy."""
    yield {"launch_microseconds": launch_seconds() * 1e6}
    yield {"copy_gigabytes_per_second": measure.copy_bandwidth(args.copy_bytes) / 1e9}


def launch_seconds() -> float:
    """Returns the time of a loop of small kernels, divided by their number in the compiled program."""

    def body(_: Any, x: jax.Array) -> jax.Array:
        return x * np.float32(0.5) + jnp.mean(x)

    x = jnp.ones(1024, jnp.float32)
    loop = jax.jit(lambda x: jax.lax.fori_loop(0, _ITERATIONS, body, x)).lower(x).compile()
    timed = measure.time_interleaved({"loop": lambda _: jax.block_until_ready(loop(x))}, 5)
    return min(seconds for seconds, _ in timed["loop"]) / hlo.work(loop.as_text()).kernels


def sums(args: argparse.Namespace) -> Rows:
    """Compares with gymnax: environment steps per second, with all outputs summed."""
    return _throughput(args, args.ids, args.num_envs)


def stored(args: argparse.Namespace) -> Rows:
    """Compares with gymnax and with a broadcast: environment steps per second, with whole rows stored."""
    return _throughput(args, args.ids, [n for n in args.num_envs if n <= 2**17][:2], "stored")


def linear(args: argparse.Namespace) -> Rows:
    """Compares as `sums`, with actions from a linear layer on the observations."""
    return _throughput(args, args.ids, [n for n in args.num_envs if n <= 2**17][:2], "linear")


def options(args: argparse.Namespace) -> Rows:
    """Compares ways to compile the loop of `sums`: as captured launches, unrolled, with four steps an iteration."""
    return _throughput(args, args.ids, [n for n in args.num_envs if n <= 2**17][:2], "options")


def box2d(args: argparse.Namespace) -> Rows:
    """Measures a task of Box2D, which compiles for minutes, and compares it with the CPU."""
    with concurrent.futures.ThreadPoolExecutor() as pool:
        agreement = pool.submit(_agreement_of_id, BOX2D, min(args.num_steps, 64))
        lanes = [min(args.num_envs, key=lambda n: abs(n - 2**14))]
        yield from _throughput(args, [BOX2D], lanes)
        yield agreement.result()


def _throughput(args: argparse.Namespace, ids: Sequence[str], num_envs: Sequence[int], loop: str = "sums") -> Rows:
    """Compiles all rollouts at one number of lanes at once, then times one after the other."""
    slow: dict[tuple[str, str], int] = {}  # the fewest lanes with which a rollout was too slow to repeat
    for lanes in num_envs:
        num_steps = args.num_steps if loop == "stored" else max(args.num_steps, args.lane_steps // lanes)
        with concurrent.futures.ThreadPoolExecutor() as pool:
            cases = {id: pool.submit(_compiled, id, lanes, num_steps, loop, args.peers) for id in ids}
        for id, case in cases.items():
            contestants, notes = case.result()
            fit = []
            for contestant in contestants:
                if lanes > slow.get((id, contestant.name), lanes):
                    notes.append(f"{contestant.name}: more than {_SLOW:.0f} s a run with fewer lanes")
                    continue
                seconds = _seconds(contestant, notes)
                if seconds is not None:
                    fit.append(contestant)
                    if seconds > _SLOW:
                        slow[id, contestant.name] = lanes
            yield throughput.timed(id, lanes, num_steps, args.repeats, fit, notes)


def _compiled(
    id: str, lanes: int, num_steps: int, loop: str, peers: Sequence[str]
) -> tuple[list[measure.Contestant], list[str]]:
    with default_types():  # which threads do not inherit
        if loop == "options":
            contestants, notes = _variants(rollout_of_id(id, lanes, num_steps)), []
        else:
            contestants, notes = throughput.rollouts(id, lanes, num_steps, loop, peers)
    for contestant in contestants:
        if contestant.compile:
            contestant.compile()
    return contestants, notes


def _variants(plain: measure.Contestant) -> list[measure.Contestant]:
    four_steps = functools.partial(plain.program, steps_per_iteration=4)
    return [
        plain,
        measure.compiled("captured", plain.program, _CAPTURED),
        measure.compiled("captured, unrolled", plain.program, _CAPTURED | measure.DOUBLE_BUFFERED),
        measure.compiled("four steps", four_steps),
        measure.compiled("captured, four steps", four_steps, _CAPTURED),
    ]


def _seconds(contestant: measure.Contestant, notes: list[str]) -> float | None:
    """Returns the time of one run; if it does not fit the device's memory, None, and a note says so."""
    started = time.monotonic()
    try:
        contestant.run(0)
    except jax.errors.JaxRuntimeError as error:
        notes.append(f"{contestant.name}: {str(error).splitlines()[0][:200]}")
        return None
    return time.monotonic() - started


_RUN = {f.__name__: f for f in (agreement, properties, limits, sums, stored, linear, options, box2d)}


# --- command line ----------------------------------------------------------------------------------------------------


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parses the settings; an invalid one ends the program with status 2 and a one-line message."""
    parser = command.Parser("device", __doc__)
    parser.add_argument("--folder", type=command.folder, default="benchmarks/results", metavar="PATH", help="of files")
    parser.add_argument("--prefix", default=jax.default_backend(), help="prefix of the names of the files")
    parser.add_argument(
        "--parts", nargs="+", choices=list(PARTS), default=list(PARTS), help="one part runs in this process"
    )
    parser.add_argument("--total-seconds", type=command.positive, default=480, metavar="S", help="time of all parts")
    parser.add_argument("--ids", nargs="+", type=command.id, default=list(IDS), metavar="ID", help="ids to run")
    parser.add_argument("--peers", nargs="*", choices=list(throughput.PEERS), default=["gymnax"], help="peers")
    parser.add_argument("--num-envs", nargs="+", type=command.positive, default=list(LANES), metavar="B", help="lanes")
    parser.add_argument("--num-steps", type=command.positive, default=256, metavar="T", help="steps of each lane")
    parser.add_argument(
        "--lane-steps", type=command.positive, default=2**22, metavar="N", help="at least so many steps over all lanes"
    )
    parser.add_argument("--repeats", type=command.positive, default=3, metavar="R", help="timed runs of each side")
    parser.add_argument("--copy-bytes", type=command.positive, default=2**30, metavar="N", help="size of the copy")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the parts and returns 1 if one failed or was stopped."""
    args = parse(arguments)
    if len(args.parts) == 1:
        return _run(args.parts[0], args)
    given, end = list(sys.argv[2:] if arguments is None else arguments), time.monotonic() + args.total_seconds
    outcomes = []
    for part in args.parts:
        seconds = min(PARTS[part], end - time.monotonic())
        outcomes.append((part, _in_process(part, given, seconds) if seconds > 0 else "no time left"))
    print(measure.table(["part", "outcome"], outcomes))
    return int(any(outcome != "done" for _, outcome in outcomes))


def _in_process(part: str, arguments: Sequence[str], seconds: float) -> str:
    line = [sys.executable, "-m", "benchmarks", "device", *arguments, "--parts", part]
    try:
        code = subprocess.run(line, timeout=seconds).returncode
    except subprocess.TimeoutExpired:
        return f"stopped after {seconds:.0f} s"
    return "done" if code == 0 else f"exit status {code}"


def _run(part: str, args: argparse.Namespace) -> int:
    path = args.folder / f"{args.prefix}-{part}.json"
    if part == "ppo":
        from benchmarks import ppo

        settings = ["--ids", "Breakout-MinAtar", "--num-envs", "2048", "64", "--repeats", "1"]
        return ppo.main([*settings, "--num-steps", str(args.num_steps * 4096), "--json", str(path)])
    conditions = {"num_steps": args.num_steps, "repeats": args.repeats, "policy": "random"}
    rows = []
    for row in _RUN[part](args):
        rows.append(row)
        print(_line(row), flush=True)
        content = {"benchmark": f"device {part}", "record": measure.record(), "settings": conditions, "rows": rows}
        measure.write_json(path, content)
    return 0


def _line(row: dict[str, Any]) -> str:
    """Formats a row in one line."""
    if "contestants" not in row:
        return "  ".join(f"{name} {value}" for name, value in row.items())
    rates = (f"{name} {measure.millions(c['steps_per_second'])}" for name, c in row["contestants"].items())
    return f"{row['id']}, {row['num_envs']} lanes, million steps per second: {', '.join([*rates, *row['notes']])}"


if __name__ == "__main__":
    from benchmarks.__main__ import main as run_part

    sys.exit(run_part(["device", *sys.argv[1:]]))
