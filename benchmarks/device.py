"""The first minutes on an accelerator: loops with nothing set, training, pictures, curricula, and what explains them.

``python -m benchmarks device --folder results``. The parts run in order of worth, each in its own process and within
its seconds. A part writes its file after every row, so one that is stopped loses nothing. See README.md.
"""

import argparse
import concurrent.futures
import functools
import itertools
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxenv
from benchmarks import command, hlo, mazes, measure, ppo, render
from benchmarks import defaults as loops
from benchmarks.ours import rollout_of_id
from jaxenv import testing
from jaxenv._util.library import default_types
from jaxenv.training import ued

# The parts in order of worth, and the most seconds of each; --total-seconds limits their sum. The first four are the
# default; the others explain what they find.
PARTS = {"defaults": 200, "train": 150, "pixels": 60, "mazes": 480}
DEFAULT_PARTS = list(PARTS)
PARTS |= {"limits": 30, "agreement": 60, "options": 90, "properties": 60}
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
TINY: dict[str, Any] = {"num_envs": [8], "num_steps": 16, "lane_steps": 1, "repeats": 1, "copy_bytes": 2**12}
TINY |= {"train_steps": 1, "maze_steps": 512, "seeds": 2, "curricula": ["robust_plr"], "evaluations": 2}
_TINY_MAZES = {"num_envs": 4, "num_steps": 32, "recurrent": 8, "capacity": 4}
# What an accelerator may break: the order of lanes, of draws and of restarts, and the exactness of sums.
PROPERTIES = ("same_tree", "leading_lanes", "rows_match_specs", "lane_independent", "batch_equals_single_lanes")
PROPERTIES += ("episode_grammar", "time_limit_exact", "modes_agree", "statistics_exact")
_ITERATIONS = 10_000
_CAPTURED = {"xla_gpu_graph_min_graph_size": 1}  # loop bodies of fewer than five launches run as CUDA graphs, too

Rows = Iterator[dict[str, Any]]
Make = Callable[[str, int, int], tuple[list[measure.Contestant], list[str]]]  # of id, lanes and steps


# --- parts -----------------------------------------------------------------------------------------------------------


def defaults(args: argparse.Namespace) -> Rows:
    """Runs the loops of `benchmarks.defaults`: nothing is set."""
    make = lambda id, lanes, num_steps: loops.loops(id, lanes, num_steps, "gymnax" in args.peers)  # noqa: E731
    for row in _throughput(args, args.num_envs, make):
        rates = {name: result["steps_per_second"] for name, result in row["contestants"].items()}
        pairs = {name: other for name, other in loops.RATIOS.items() if {name, other} <= rates.keys()}
        yield row | {"ratios": {name: rates[name] / rates[other] for name, other in pairs.items()}}


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


def options(args: argparse.Namespace) -> Rows:
    """Compares ways to compile a random rollout: as captured launches, unrolled, with four steps in an iteration."""
    make = lambda *sizes: (_variants(rollout_of_id(*sizes)), [])  # noqa: E731
    return _throughput(args, [n for n in args.num_envs if n <= 2**17][:2], make)


def _throughput(args: argparse.Namespace, num_envs: Sequence[int], make: Make) -> Rows:
    """Compiles all rollouts at one number of lanes at once, then times one after the other."""
    for lanes in num_envs:
        steps = max(args.num_steps, args.lane_steps // lanes)
        with concurrent.futures.ThreadPoolExecutor() as pool:
            cases = {id: pool.submit(_compiled, make, id, lanes, steps) for id in args.ids}
        for id, case in cases.items():
            row = {"id": id, "num_envs": lanes, "num_steps": steps}
            yield row | measure.compared(*case.result(), args.repeats)


def _compiled(make: Make, id: str, lanes: int, num_steps: int) -> tuple[list[measure.Contestant], list[str]]:
    with default_types():  # which threads do not inherit
        contestants, notes = make(id, lanes, num_steps)
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


_RUN = {f.__name__: f for f in (defaults, train, pixels, agreement, properties, limits, options)}
_RUN |= {"mazes": maze_curricula}


# --- command line ----------------------------------------------------------------------------------------------------


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parses the settings; an invalid one ends the program with status 2 and a one-line message."""
    parser = command.Parser("device", __doc__)
    parser.add_argument("--folder", type=command.folder, default="benchmarks/results", metavar="PATH", help="of files")
    parser.add_argument("--prefix", default=jax.default_backend(), help="prefix of the names of the files")
    parser.add_argument(
        "--parts", nargs="+", choices=list(PARTS), default=DEFAULT_PARTS, help="one part runs in this process"
    )
    parser.add_argument("--total-seconds", type=command.positive, default=480, metavar="S", help="time of all parts")
    parser.add_argument("--tiny", action="store_true", help="a dry run: sizes that take seconds on a CPU")
    parser.add_argument("--ids", nargs="+", type=command.id, metavar="ID", help="ids to run (default: the part's)")
    parser.add_peers(["gymnax"])
    parser.add_argument("--num-envs", nargs="+", type=command.positive, metavar="B", help="lanes (default: the part's)")
    parser.add_argument("--num-steps", type=command.positive, default=256, metavar="T", help="steps of each lane")
    parser.add_argument(
        "--lane-steps", type=command.positive, default=2**22, metavar="N", help="at least so many steps over all lanes"
    )
    parser.add_argument("--repeats", type=command.positive, default=3, metavar="R", help="timed runs of each side")
    parser.add_argument("--copy-bytes", type=command.positive, default=2**30, metavar="N", help="size of the copy")
    parser.add_argument("--train-steps", type=command.positive, default=2 * 10**7, metavar="N", help="of a run of PPO")
    parser.add_argument("--curricula", nargs="+", choices=mazes.CURRICULA, default=CURRICULA, help="of mazes")
    parser.add_argument("--maze-steps", type=command.positive, default=30_000 * 8192, metavar="N", help="of a run")
    parser.add_argument("--evaluations", type=command.positive, default=120, metavar="N", help="in a run on mazes")
    parser.add_argument("--seeds", type=command.positive, default=8, metavar="N", help="runs of each curriculum")
    given = sys.argv[2:] if arguments is None else arguments
    if "--tiny" in given:
        parser.set_defaults(**TINY)
    return parser.parse_args(given)


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
    args.ids = args.ids or list(_IDS.get(part, IDS))
    args.num_envs = args.num_envs or list(_LANES.get(part, LANES))
    settings = {name: value for name, value in vars(args).items() if name not in ("folder", "prefix", "parts")}
    rows = []
    for row in _RUN[part](args):
        rows.append(row)
        print(_line(row), flush=True)
        content = {"benchmark": f"device {part}", "record": measure.record(), "settings": settings, "rows": rows}
        measure.write_json(path, content)
    return 0


def _line(row: dict[str, Any]) -> str:
    """Formats a row in one line."""
    if "contestants" not in row:
        return "  ".join(f"{name} {value}" for name, value in row.items() if name != "solved")
    sides = row["contestants"]
    what = next((w for w in ("frames_per_second", "steps_per_second") if any(w in side for side in sides.values())), "")
    rates = [f"{name} {measure.millions(side[what])}" for name, side in sides.items()]
    title = f"{row['id']}, {row['num_envs']} lanes, million {what.replace('_', ' ')}"
    return f"{title}: {', '.join([*rates, *row['notes']])}"
