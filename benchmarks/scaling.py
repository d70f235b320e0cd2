"""Time and memory of a rollout over the number of lanes, compared with the peers, as a table and a log-log plot."""

import argparse
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

import jax

import jaxenv
from benchmarks import command, measure, throughput
from benchmarks.ours import default_num_steps
from benchmarks.peers import DEFAULT_PEERS, PEERS

LANES = tuple(2**n for n in range(6, 21, 2))


def compare(
    id: str, num_envs: int, num_steps: int, repeats: int, peers: Sequence[str], bandwidth: float
) -> dict[str, Any]:
    """Returns a row of the result file: throughput, bytes per lane and nanoseconds per step.

    ``memory_limit_nanoseconds`` is the time that the memory traffic alone takes at ``bandwidth`` bytes per second:
    reading state and action, and writing state and TimeStep. A step can be faster if all of it fits into the caches.
    """
    row = throughput.compare(id, num_envs, num_steps, repeats, peers=peers)
    for result in row["contestants"].values():
        result["nanoseconds_per_step"] = 1e9 / result["steps_per_second"]
    sizes = memory(id, num_envs)
    traffic = sizes["bytes_per_lane"] + sizes["state_bytes_per_lane"] + sizes["action_bytes_per_lane"]
    limit = 1e9 * traffic / bandwidth
    row["contestants"]["jaxenv"].update(sizes, traffic_bytes_per_step=traffic, memory_limit_nanoseconds=limit)
    return row


def memory(id: str, num_envs: int) -> dict[str, float | None]:
    """Returns the bytes per lane of state, TimeStep and action, and of a compiled step while it runs.

    ``step_bytes_per_lane`` counts arguments, outputs and temporary arrays, with donated arrays counted once. It is
    ``None`` if the backend does not report it.
    """
    env = jaxenv.make(id, num_envs=num_envs)
    state, timestep = jax.eval_shape(env.reset, jax.random.key(0))
    action = jax.eval_shape(lambda: jaxenv.specs.zeros(env.action_spec(), (num_envs,)))

    def size(tree: Any) -> float:
        return sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(tree)) / num_envs

    analysis = jax.jit(env.step, donate_argnums=0).lower(state, action).compile().memory_analysis()
    step = None
    if analysis is not None:
        parts = ("argument_size_in_bytes", "output_size_in_bytes", "temp_size_in_bytes")
        step = (sum(getattr(analysis, part) for part in parts) - analysis.alias_size_in_bytes) / num_envs
    return {
        "bytes_per_lane": size(state) + size(timestep),
        "state_bytes_per_lane": size(state),
        "timestep_bytes_per_lane": size(timestep),
        "action_bytes_per_lane": size(action),
        "step_bytes_per_lane": step,
    }


def report(rows: Sequence[dict[str, Any]], peers: Sequence[str]) -> str:
    """Formats the results as an aligned table."""
    header = ["id", "lanes", "steps", "jaxenv ns", *(f"{peer} ns" for peer in peers)]
    header += ["memory ns", "of limit", "state bytes", "TimeStep bytes", "step bytes"]
    lines = []
    for row in rows:
        results = row["contestants"]
        ours = results["jaxenv"]
        times = [f"{results[n]['nanoseconds_per_step']:.3g}" if n in results else "-" for n in ("jaxenv", *peers)]
        limit = ours["memory_limit_nanoseconds"]
        times += [f"{limit:.3g}", f"{limit / ours['nanoseconds_per_step']:.0%}"]
        sizes = [ours[f"{what}_bytes_per_lane"] for what in ("state", "timestep", "step")]
        sizes = ["-" if size is None else f"{size:.0f}" for size in sizes]
        lines.append([row["id"], str(row["num_envs"]), str(row["num_steps"]), *times, *sizes])
    title = (
        "Nanoseconds per environment step; memory: the limit set by memory traffic;\n"
        "of limit: jaxenv's percentage of that limit; bytes: per lane; step bytes: of a compiled step while it runs."
    )
    return "\n".join([title, measure.table(header, lines), *measure.notes(rows)])


def draw(rows: Sequence[dict[str, Any]], path: pathlib.Path) -> None:
    """Draws steps per second over lanes, log-log, with one panel per id and one line per library."""
    from matplotlib.figure import Figure

    ids = list(dict.fromkeys(row["id"] for row in rows))
    figure = Figure(figsize=(5 * len(ids), 4), layout="constrained")
    for axes, id in zip(figure.subplots(1, len(ids), squeeze=False, sharey=True)[0], ids, strict=True):
        for name in ("jaxenv", *PEERS):
            points = [
                (row["num_envs"], row["contestants"][name]["steps_per_second"])
                for row in rows
                if row["id"] == id and name in row["contestants"]
            ]
            if points:
                axes.loglog(*zip(*sorted(points), strict=True), marker="o", label=name)
        axes.set_xscale("log", base=2)
        axes.set(title=id, xlabel="lanes")
        axes.grid(True, which="major", alpha=0.3)
        axes.legend()
    figure.axes[0].set_ylabel("environment steps per second")
    figure.savefig(path, dpi=150)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parses the settings; an invalid one ends the program with status 2 and a one-line message."""
    parser = command.Parser("scaling", __doc__)
    parser.add_argument("--ids", nargs="+", type=command.id, default=["CartPole-v1"], metavar="ID", help="ids to run")
    parser.add_sizes(num_envs=LANES, num_steps=None, repeats=3)
    parser.add_argument(
        "--peers",
        nargs="*",
        choices=list(PEERS),
        default=list(DEFAULT_PEERS),
        help="peers, or nothing for jaxenv alone",
    )
    parser.add_argument(
        "--plot", type=command.png_file, metavar="PATH", help="plot steps per second over lanes to this PNG file"
    )
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the comparison, prints the table, draws the plot and writes the file."""
    args, rows = parse(arguments), []
    bandwidth = measure.copy_bandwidth()
    for id in args.ids:
        for num_envs in args.num_envs:
            print(f"{id}, {num_envs} lanes ...", file=sys.stderr)
            num_steps = args.num_steps or default_num_steps(id, num_envs)
            rows.append(compare(id, num_envs, num_steps, args.repeats, args.peers, bandwidth))
    if args.plot is not None:
        draw(rows, args.plot)
    print(f"copy bandwidth: {bandwidth / 1e9:.3g} GB/s", file=sys.stderr)
    settings = {"repeats": args.repeats, "copy_bytes_per_second": bandwidth}
    return command.finish("scaling", args, rows, lambda rows: report(rows, args.peers), **settings)
