"""Time and memory of a rollout over the number of lanes, compared with the peers, as a table and a log-log plot."""

import argparse
import itertools
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import jax

import jaxenv
from benchmarks import command, measure, tables, throughput
from benchmarks.ours import default_num_steps
from benchmarks.peers import DEFAULT

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


def report(rows: Sequence[dict[str, Any]], args: argparse.Namespace) -> str:
    """Formats the results as an aligned table, and draws the plot."""
    if args.plot is not None:
        draw(rows, args.plot)

    def own(entry: str) -> Any:
        return tables.side("jaxenv", entry, lambda size: "-" if size is None else f"{size:.0f}")

    def of_limit(row: dict[str, Any]) -> str:
        result = row["contestants"]["jaxenv"]
        return f"{result['memory_limit_nanoseconds'] / result['nanoseconds_per_step']:.0%}"

    shown = tables.columns(
        rows,
        ("id", "id"),
        ("lanes", "num_envs"),
        ("steps", "num_steps"),
        *((f"{n} ns", tables.side(n, "nanoseconds_per_step", "{:.3g}".format)) for n in ("jaxenv", *args.peers)),
        ("memory ns", tables.side("jaxenv", "memory_limit_nanoseconds", "{:.3g}".format)),
        ("of limit", of_limit),
        *((f"{what} bytes", own(f"{what.lower()}_bytes_per_lane")) for what in ("state", "TimeStep", "step")),
    )
    title = (
        "Nanoseconds per environment step; memory: the limit set by memory traffic;\n"
        "of limit: jaxenv's percentage of that limit; bytes: per lane; step bytes: of a compiled step while it runs."
    )
    return "\n".join([title, shown, *tables.notes(rows)])


def draw(rows: Sequence[dict[str, Any]], path: pathlib.Path) -> None:
    """Draws steps per second over lanes, log-log, with one panel per id and one line per library."""
    from matplotlib.figure import Figure

    ids = list(dict.fromkeys(row["id"] for row in rows))
    figure = Figure(figsize=(5 * len(ids), 4), layout="constrained")
    for axes, id in zip(figure.subplots(1, len(ids), squeeze=False, sharey=True)[0], ids, strict=True):
        for name in ("jaxenv", *DEFAULT):
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


def options(parser: command.Parser) -> None:
    """Adds the options."""
    parser.add_ids(["CartPole-v1"])
    parser.add_sizes(num_envs=LANES, num_steps=None, repeats=3)
    parser.add_peers(list(DEFAULT))
    parser.add_argument(
        "--plot", type=command.png_file, metavar="PATH", help="plot steps per second over lanes to this PNG file"
    )


def rows(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Compares every id and number of lanes."""
    bandwidth = measure.copy_bandwidth()
    for id, num_envs in itertools.product(args.ids, args.num_envs):
        num_steps = args.num_steps or default_num_steps(id, num_envs)
        row = compare(id, num_envs, num_steps, args.repeats, args.peers, bandwidth)
        yield row | {"copy_bytes_per_second": bandwidth}
