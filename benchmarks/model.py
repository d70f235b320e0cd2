"""A paper model of rollouts and PPO on one or many accelerators, from the traffic of the compiled programs.

Nothing is timed. For many accelerators, kernels, bytes and collectives are read from programs that are compiled for
simulated devices of a CPU; with ``--launches`` the steps on one GPU follow from programs that were compiled for it. The
speeds of the accelerator come from its data sheet; the table prints the fractions of them that programs reach.
"""

import argparse
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh

import jaxenv
from benchmarks import command, hlo, measure
from jaxenv.training import ppo

ACCELERATORS = (1, 8, 64, 256, 1024)
SHARED = 64  # with strong scaling all accelerators share the lanes of so many


# Bytes per second of the memory, by the data sheets: H100 SXM, H200 SXM, A100 SXM of 80 GB.
BANDWIDTHS = {"RTX 4090": 1.008e12, "A100": 2.039e12, "H100": 3.35e12, "H200": 4.8e12}
LANES = (2**11, 2**14, 2**17, 2**20)


class Assumptions(NamedTuple):
    """An accelerator, its links, and the fractions that programs reach. Bytes, operations and seconds.

    Data sheets: NVIDIA H200 SXM, with float32 outside of the tensor cores; NVLink 4, 900 GB/s in both directions
    together; one NDR InfiniBand port of 400 Gb/s per accelerator. The time of a kernel, in a CUDA graph, and the
    fraction of the bandwidth are measured on one H200.
    """

    memory: float = 141e9
    bandwidth: float = 4.8e12
    operations: float = 67e12
    node: int = 8
    link_in_node: float = 450e9
    link_between_nodes: float = 50e9
    reached_bandwidth: float = 0.58
    reached_operations: float = 0.3
    reached_link: float = 0.7
    kernel_seconds: float = 1.2e-6
    latency_in_node: float = 15e-6
    latency_per_doubling_of_nodes: float = 10e-6

    def all_reduce_seconds(self, count: float, size: float, accelerators: int) -> float:
        """Estimates the time of ``count`` all-reduces of ``size`` bytes as rings, bound by their slowest link."""
        if accelerators == 1:
            return 0.0
        nodes = math.ceil(accelerators / self.node)
        link = self.link_in_node if nodes == 1 else self.link_between_nodes
        latency = self.latency_in_node + self.latency_per_doubling_of_nodes * math.log2(nodes)
        return count * latency + 2 * (accelerators - 1) / accelerators * size / (self.reached_link * link)


def rollout(id: str, num_envs: int, given: Assumptions) -> dict[str, Any]:
    """Returns a row of the result file: a step of ``num_envs`` lanes on each accelerator; actions are an argument."""
    env = jaxenv.make(id, num_envs=num_envs)
    state, _ = env.start_shapes()
    action = jax.eval_shape(lambda: jaxenv.specs.zeros(env.action_spec(), (num_envs,)))
    compiled = jax.jit(env.step, donate_argnums=0).lower(state, action).compile()
    sizes, work = compiled.memory_analysis(), hlo.work(compiled.as_text())
    held = sizes.argument_size_in_bytes + sizes.output_size_in_bytes + sizes.temp_size_in_bytes
    row = {
        "id": id,
        "what": "rollout",
        "num_envs": num_envs,
        "bytes_per_lane": (held - sizes.alias_size_in_bytes) / num_envs,
        "bytes_per_step": (sizes.argument_size_in_bytes + sizes.output_size_in_bytes) / num_envs,
        "compiled_bytes_per_step": compiled.cost_analysis()["bytes accessed"] / num_envs,
        **work._asdict(),
    }
    row["lanes_that_fit"] = int(given.memory / row["bytes_per_lane"])
    moved = num_envs * row["compiled_bytes_per_step"] / (given.reached_bandwidth * given.bandwidth)
    row["kernel_seconds"], row["memory_seconds"] = work.kernels * given.kernel_seconds, moved
    rate = num_envs / (row["kernel_seconds"] + moved)
    row["steps_per_second"] = {str(n): n * rate for n in ACCELERATORS}
    return row


def learner(id: str, num_envs: int, bytes_per_step: float, given: Assumptions) -> list[dict[str, Any]]:
    """Returns two rows of the result file: a default PPO update under weak and under strong scaling.

    Args:
        id: the environment.
        num_envs: lanes of each accelerator; with strong scaling of each of 64, and any number share as many.
        bytes_per_step: bytes that a step of one lane moves.
        given: the accelerator.
    """
    shared = 2  # simulated devices: a collective has the same bytes on any number
    config = ppo.Config(
        env_id=id,
        num_envs=shared * num_envs,
        total_steps=shared * num_envs * ppo.Config.num_steps,  # one update
        num_evaluations=1,
        num_eval_episodes=shared,
        max_eval_steps=1,
    )
    train = ppo.make_train(config, mesh=Mesh(np.array(jax.devices()[:shared]), ("lanes",)))
    init, iteration = train.init, train.iteration
    state = jax.eval_shape(init, jax.random.key(0))
    work = hlo.work(jax.jit(iteration).lower(state).compile().as_text())
    weights = sum(x.size for x in jax.tree.leaves(state.params))
    compiled = {"id": id, "weights": weights, **work._asdict()}
    return [
        {**compiled, **_expected(scaling, num_envs, config, work, weights, bytes_per_step, given)}
        for scaling in ("weak", "strong")
    ]


def _expected(
    scaling: str,
    num_envs: int,
    config: ppo.Config,
    work: hlo.Work,
    weights: int,
    bytes_per_step: float,
    given: Assumptions,
) -> dict[str, Any]:
    """Estimates the seconds of an update and the steps per second on each number of accelerators."""
    seconds, steps = {}, {}
    for n in ACCELERATORS:
        steps[str(n)] = num_envs * config.num_steps * (SHARED if scaling == "strong" else n)
        own = steps[str(n)] / n
        operations = 2 * weights * own * (1 + 3 * config.num_epochs)  # acting; a forward and a backward pass
        seconds[str(n)] = {
            "kernels": work.kernels * given.kernel_seconds,
            "memory": own * bytes_per_step / (given.reached_bandwidth * given.bandwidth),
            "operations": operations / (given.reached_operations * given.operations),
            "collectives": given.all_reduce_seconds(work.collectives, work.collective_bytes, n),
        }
    total = {n: sum(parts.values()) for n, parts in seconds.items()}
    rates = {n: steps[n] / total[n] for n in seconds}
    return {
        "what": f"ppo, {scaling}",
        "num_envs": num_envs * (SHARED if scaling == "strong" else 1),
        "seconds": seconds,
        "steps_per_second": rates,
        "efficiency": {n: rate / (int(n) * rates["1"]) for n, rate in rates.items()},
    }


def gpus(launches: Sequence[dict[str, Any]], given: Assumptions) -> list[dict[str, Any]]:
    """Estimates the steps per second of rollouts on one GPU from launches in CUDA graphs and memory traffic.

    Args:
        launches: Rows of ``python -m benchmarks launches``. Those with the fewest lanes and with sums count.
        given: The assumptions.
    """
    rows, fewest = [], min((row["num_envs"] for row in launches), default=0)
    for row in launches:
        ours = row["contestants"]["jaxenv"]
        if "error" in ours or row["store"] or row["num_envs"] != fewest:
            continue
        result: dict[str, Any] = {"id": row["id"], "launches": ours["launches"], "bytes": ours["bytes_per_lane"]}
        result["steps_per_second"] = {
            name: {
                str(lanes): lanes
                / (
                    ours["launches"] * given.kernel_seconds
                    + lanes * ours["bytes_per_lane"] / (given.reached_bandwidth * bandwidth)
                )
                for lanes in LANES
            }
            for name, bandwidth in BANDWIDTHS.items()
        }
        rows.append(result)
    return rows


def report_gpus(rows: Sequence[dict[str, Any]]) -> str:
    """Formats the expectations as an aligned table."""
    header = ["id", "launches", "bytes", *(f"{n:,} lanes" for n in LANES), *list(BANDWIDTHS)[:-1]]
    lines = []
    for row in rows:
        rates = {name: [measure.millions(rate) for rate in of.values()] for name, of in row["steps_per_second"].items()}
        last = [rates[name][2] for name in list(BANDWIDTHS)[:-1]]
        lines.append([row["id"], f"{row['launches']:.0f}", f"{row['bytes']:.0f}", *rates["H200"], *last])
    title = (
        "Expected million environment steps per second, as CUDA graphs: by lanes on an H200, and with "
        f"{LANES[2]:,} lanes\non other GPUs; launches and bytes of a step."
    )
    return f"{title}\n{measure.table(header, lines)}"


def report(rows: Sequence[dict[str, Any]], args: argparse.Namespace) -> str:
    """Formats programs, expectations and assumptions as aligned tables."""
    if args.launches is not None:
        return report_gpus(rows)
    given = Assumptions()
    programs = [
        [
            row["id"],
            row["what"],
            str(row["num_envs"]),
            *(f"{row[name]:.0f}" if name in row else "-" for name in ("bytes_per_lane", "bytes_per_step")),
            f"{row['compiled_bytes_per_step']:.0f}" if "compiled_bytes_per_step" in row else "-",
            f"{row['lanes_that_fit'] / 1e6:.0f}" if "lanes_that_fit" in row else "-",
            *(str(row[name]) for name in ("kernels", "collectives", "collective_bytes")),
        ]
        for row in rows
    ]
    header = ["id", "what", "lanes", "held B", "least B", "moved B", "M lanes fit", "kernels", "collectives", "bytes"]
    expected = []
    for row in rows:
        rates = [measure.millions(rate) for rate in row["steps_per_second"].values()]
        efficiency = row.get("efficiency", {"1": 1.0} | {str(n): 1.0 for n in ACCELERATORS})
        expected.append([row["id"], row["what"], str(row["num_envs"]), *rates])
        expected[-1] += [f"{efficiency[str(n)]:.0%}" for n in ACCELERATORS[1:]]
    columns = [f"{n}" for n in ACCELERATORS] + [f"{n} of 1" for n in ACCELERATORS[1:]]
    return "\n".join(
        [
            "Programs of one accelerator, as compiled: a step of all its lanes, an update of PPO without evaluation;",
            "bytes per lane: held while a step runs, the least that it can move, and what its kernels move;",
            "ppo, strong: this many lanes are shared by all, otherwise each accelerator has as many.",
            measure.table(header, programs),
            "",
            "Expected million environment steps per second on so many accelerators; efficiency compared with one.",
            measure.table(["id", "what", "lanes", *columns], expected),
            "",
            "Assumptions, in bytes, operations and seconds.",
            measure.table(["assumption", "value"], [[name, f"{value:g}"] for name, value in given._asdict().items()]),
        ]
    )


def options(parser: command.Parser) -> None:
    """Adds the options."""
    parser.add_ids(["CartPole-v1"], help="ids to model")
    help = "lanes of each accelerator"
    parser.add_argument("--num-envs", type=command.positive, default=16384, metavar="B", help=help)
    help = "results of `launches`: model one GPU of each kind"
    parser.add_argument("--launches", type=command.result_file, metavar="PATH", help=help)
    parser.add_json()


def check(parser: command.Parser, args: argparse.Namespace) -> None:
    """Refuses results of another part."""
    if args.launches is not None and args.launches["benchmark"] != "launches":
        parser.error(f"argument --launches: must be a file of launches, got one of {args.launches['benchmark']}")


def rows(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Models a GPU of each kind, or compiles the programs of one accelerator and models many."""
    given = Assumptions()
    if args.launches is not None:
        yield from gpus(args.launches.pop("rows"), given)
        return
    command.start_with_devices(2)
    for id in args.ids:
        yield (row := rollout(id, args.num_envs, given))
        yield from learner(id, args.num_envs, row["compiled_bytes_per_step"], given)
