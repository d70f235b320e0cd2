"""Launches, bytes, memory and compile time of one environment step, compiled for an accelerator that need not be there.

``python -m benchmarks launches --target h100 --ids CartPole-v1 --num-envs 2048``. See README.md.
"""

import argparse
import importlib.util
import itertools
import multiprocessing
import os
import pathlib
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxenv
from benchmarks import command, hlo, peers, tables
from benchmarks.measure import Unavailable
from benchmarks.ours import rollout_of_id
from jaxenv._util.library import default_types

NUM_STEPS = 128  # of the compiled loop, even; no loop of a reset has as many rounds, nor half as many
CAPTURED = 5  # launches of a loop body from which XLA puts it into a CUDA graph: xla_gpu_graph_min_graph_size
# The package that compiles for a target.
COMPILERS = {"h100": "jax_plugins.xla_cuda13", "v5e": "libtpu", "local": "jax"}
_H100 = pathlib.Path(__file__).with_name("h100.txtpb")
PLATFORMS = {"h100": "gpu", "v5e": "tpu"}
# How a side is compiled: its rollout, and XLA's options.
_SIDES: dict[str, tuple[Callable, dict[str, Any] | None]] = {
    "jaxenv": (rollout_of_id, None),
    # a loop body of two steps, which use different buffers
    "unrolled": (rollout_of_id, {"xla_gpu_enable_while_loop_unrolling": "WHILE_LOOP_UNROLLING_DOUBLE_BUFFER"}),
    "gymnax": (peers.gymnax, None),
}
NAMES = ("id", "num_envs", "store")
DEFAULT = "default"  # the side of our loops with nothing set: `fold` for sums, `unroll` for stored rows


def device(target: str) -> jax.Device:
    """Returns the device to compile for: of a description, or the first of this machine."""
    from jax.experimental import topologies

    if target == "h100":
        description = topologies.get_topology_desc("h100", "cuda", target_config=_H100.read_text(), topology="1x1x1")
    elif target == "v5e":
        description = topologies.get_topology_desc(platform="tpu", topology_name="v5e:2x2")
    else:
        return jax.devices()[0]
    return description.devices[0]


def compiled(target: str, side: str, id: str, num_envs: int, store: bool) -> dict[str, Any]:
    """Compiles a rollout and returns its counts, or the error of the compiler.

    Raises:
        Unavailable: If the side lacks the id.
    """
    steps, options = 1, None
    try:
        with default_types():
            if side == DEFAULT:
                program, steps = default_loop(id, num_envs, store)
            else:
                rollout, options = _SIDES[side]
                program = rollout(id, num_envs, NUM_STEPS, "stored" if store else "sums").program
        executable, seconds = compile_for(target, program, options)
        body = hlo.launches(executable.as_text(), NUM_STEPS // steps)
        counts = hlo.Launches().plus(body, 1 / steps)
    except Unavailable:
        raise
    except Exception as error:  # every failure is a row
        return error_row(error)
    return {
        "launches": counts.total,
        "steps_per_iteration": steps,
        **{name: value for name, value in counts._asdict().items() if name != "bytes"},
        "bytes_per_lane": counts.bytes / num_envs,
        "temporary_bytes": executable.memory_analysis().temp_size_in_bytes,
        "compile_seconds": seconds,
    }


def default_loop(id: str, num_envs: int, store: bool) -> tuple[Callable, int]:
    """Returns what `fold` or `unroll` compile with nothing set, and their steps in an iteration."""
    env = jaxenv.make(id, num_envs=num_envs)
    policy = jaxenv.rollout.random_policy(env)

    def step(carry: Any, _: Any) -> Any:
        state, timestep = carry
        return env.step(state, policy(timestep, jaxenv.rollout.policy_stream(env, state))), None

    steps = jaxenv.rollout.steps_per_iteration(step, env.start_shapes(), num_envs)

    def add(totals: Any, _: Any, timestep: Any) -> Any:
        observed = [jnp.sum(x.astype(np.float32), range(1, x.ndim)) for x in jax.tree.leaves(timestep.observation)]
        return totals[0] + sum(observed), totals[1] + timestep.reward

    def program(key: jax.Array) -> Any:
        start = env.reset(key)
        if store:
            return jaxenv.unroll(env, policy, *start, NUM_STEPS, steps_per_iteration=steps)[1]
        zeros = jnp.zeros(num_envs), jnp.zeros_like(start[1].reward)
        return jaxenv.rollout.fold(env, policy, add, zeros, *start, NUM_STEPS, steps_per_iteration=steps).value

    return program, steps


def compile_for(target: str, program: Callable, options: dict[str, Any] | None = None) -> tuple[Any, float]:
    """Compiles a function of a key with XLA's options: returns the executable, and the seconds that it took."""
    sharding = jax.sharding.SingleDeviceSharding(device(target))
    key = jax.eval_shape(lambda: jax.random.key(0))
    with default_types():
        started = time.perf_counter()
        jitted = jax.jit(program, in_shardings=sharding, out_shardings=sharding)
        executable = jitted.lower(jax.ShapeDtypeStruct(key.shape, key.dtype)).compile(options)
    return executable, time.perf_counter() - started


def error_row(error: Exception) -> dict[str, Any]:
    """Returns what a row holds in place of counts."""
    return {"error": f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:300]}"}


class Compiler:
    """A process that compiles, and is replaced when it takes longer than ``seconds``."""

    def __init__(self, target: str, seconds: int):
        prepare(target)  # this process too: the record asks for the devices
        self.target, self.seconds = target, seconds
        self._pool: Any = None

    def __enter__(self) -> "Compiler":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __call__(self, compiled: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
        """Calls a function of the target and arguments; a process that is stopped or ends is an error of the row."""
        if self._pool is None:
            context = multiprocessing.get_context("spawn")
            self._pool = context.Pool(1, initializer=prepare, initargs=(self.target,))
        task = self._pool.apply_async(compiled, (self.target, *arguments))
        try:
            return task.get(self.seconds)
        except multiprocessing.TimeoutError:
            self.close()
            return {"error": f"stopped after {self.seconds} s"}

    def close(self) -> None:
        """Ends the process."""
        if self._pool is not None:
            self._pool.terminate()
            self._pool.join()
        self._pool = None


def prepare(target: str) -> None:
    """Sets up a process that compiles for a target."""
    jax.config.update("jax_enable_compilation_cache", False)
    if target != "local":  # the compiler needs no device, and a search for one takes long
        jax.config.update("jax_platforms", "cpu")
        jax.default_backend = lambda: PLATFORMS[target]  # loops choose for the target
        os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
        os.environ.setdefault("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")


def report(rows: Sequence[dict[str, Any]], args: argparse.Namespace) -> str:
    """Formats the results as an aligned table, and draws the plot."""
    if args.plot is not None:
        draw(rows, args.plot)

    def fewer(row: dict[str, Any]) -> float:
        return row["contestants"]["gymnax"]["launches"] / row["contestants"]["jaxenv"]["launches"]

    def cell(side: str, name: str, scale: float = 1) -> Callable[[Any], str]:
        return tables.side(side, name, lambda count: f"{count / scale:.4g}")

    shown = tables.columns(
        rows,
        ("id", "id"),
        ("lanes", "num_envs"),
        ("rows", _kind),
        *((name, cell("jaxenv", name)) for name in ("launches", "kernels", "copies", "others", "branches")),
        *((side, cell(side, "launches")) for side in ("unrolled", DEFAULT)),
        ("steps", cell(DEFAULT, "steps_per_iteration")),
        ("gymnax", cell("gymnax", "launches")),
        ("ratio", lambda row: f"{fewer(row):.1f}x"),
        *((title, cell(side, "bytes_per_lane")) for title, side in (("bytes", "jaxenv"), ("gymnax", "gymnax"))),
        ("temporary MB", cell("jaxenv", "temporary_bytes", 1e6)),
        *((title, cell(side, "compile_seconds")) for title, side in (("compile s", "jaxenv"), ("gymnax", "gymnax"))),
    )
    ratios, few, notes = [], [], []
    for row in rows:
        found = {side: result for side, result in row["contestants"].items() if "error" not in result}
        where = f"{row['id']}, {row['num_envs']} lanes, {_kind(row)}"
        errors = {side: r["error"] for side, r in row["contestants"].items() if side not in found}
        notes.append({"notes": [*row["notes"], *(f"{side}, {where}: {error}" for side, error in errors.items())]})
        ratios += [fewer(row)] if {"gymnax", "jaxenv"} <= found.keys() else []
        loop = found.get(DEFAULT, found.get("jaxenv"))
        few += [where] if loop and loop["launches"] * loop.get("steps_per_iteration", 1) < CAPTURED else []
    text = [
        "Launches of one environment step; branches: conditionals and loops whose length depends on data;",
        "unrolled: launches with two steps in a loop body; default: launches of `fold`, or of `unroll` where rows are",
        "stored, with nothing set and so many steps in an iteration; ratio: how many times fewer launches than gymnax;",
        "bytes: per lane and step, read and written by what is launched.",
        shown,
    ]
    if len(ratios) > 1:
        text.append(f"{statistics.geometric_mean(ratios):.1f} times fewer launches than gymnax (geometric mean)")
    if few:
        text.append(
            f"an iteration of our loop launches less than {CAPTURED}, too few for a CUDA graph: {', '.join(few)}"
        )
    return "\n".join([*text, *tables.notes(notes)])


def draw(rows: Sequence[dict[str, Any]], path: pathlib.Path) -> None:
    """Draws the launches of each id that gymnax has, on a logarithmic axis, at the fewest lanes and with sums."""
    from matplotlib.figure import Figure

    lanes = min(row["num_envs"] for row in rows)
    results = {row["id"]: row["contestants"] for row in rows if row["num_envs"] == lanes and not row["store"]}
    points = {
        id: {side: result["launches"] for side, result in sides.items() if "error" not in result}
        for id, sides in results.items()
    }
    ids = sorted((id for id in points if "gymnax" in points[id]), key=lambda id: points[id]["gymnax"], reverse=True)
    figure = Figure(figsize=(7, 1.2 + 0.22 * len(ids)), layout="constrained")
    axes = figure.subplots()
    for side, marker in zip(_SIDES, "o<s", strict=True):
        found = [(points[id][side], place) for place, id in enumerate(ids) if side in points[id]]
        if found:
            axes.plot(*zip(*found, strict=True), marker, label="jaxenv, unrolled" if side == "unrolled" else side)
    axes.axvline(CAPTURED, color="grey", linewidth=1, linestyle="dotted")
    axes.set(xscale="log", xlabel=f"launches of a step, {lanes} lanes; dotted: the fewest for a CUDA graph")
    axes.set_xticks([2, 5, 10, 20, 50, 100], ["2", "5", "10", "20", "50", "100"])
    axes.set_yticks(range(len(ids)), ids)
    axes.grid(True, axis="x", which="major", alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=120)


def _kind(row: dict[str, Any]) -> str:
    return "stored" if row["store"] else "sums"


# --- command line ----------------------------------------------------------------------------------------------------


def options(parser: command.Parser) -> None:
    """Adds the options."""
    add_target(parser, seconds=200)
    parser.add_ids(jaxenv.ids(), help="ids to compile")
    parser.add_lanes([2048, 65536])
    parser.add_argument("--store", action="store_true", help="store whole rows [T, B] instead of their sums")
    parser.add_peers(["gymnax"])
    parser.add_argument(
        "--plot", type=command.png_file, metavar="PATH", help="plot the launches, with gymnax's, to this PNG file"
    )


def add_target(parser: command.Parser, seconds: int) -> None:
    """Adds ``--target`` and ``--seconds``."""
    parser.add_argument("--target", choices=list(COMPILERS), default="h100", help="local: the device of this machine")
    help = "limit of one compilation"
    parser.add_argument("--seconds", type=command.positive, default=seconds, metavar="S", help=help)


def check(parser: command.Parser, args: argparse.Namespace) -> None:
    """Refuses a target without its compiler."""
    if not installed(args.target):
        parser.error(f"argument --target: {args.target} needs a compiler: pip install 'jaxenv[compilers]'")


def installed(target: str) -> bool:
    """Returns whether the compiler of a target is installed."""
    try:
        return importlib.util.find_spec(COMPILERS[target]) is not None
    except ModuleNotFoundError:  # of the package around it
        return False


def rows(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Compiles every id at every number of lanes."""
    sides = ["jaxenv", *(["unrolled", DEFAULT] if args.target == "h100" else []), *args.peers]
    with Compiler(args.target, args.seconds) as compiler:
        for lanes, id in itertools.product(args.num_envs, args.ids):
            row: dict[str, Any] = {"id": id, "num_envs": lanes, "store": args.store, "contestants": {}, "notes": []}
            for side in sides:
                try:
                    row["contestants"][side] = compiler(compiled, side, id, lanes, args.store)
                except Unavailable as error:
                    row["notes"].append(str(error))
            yield row
