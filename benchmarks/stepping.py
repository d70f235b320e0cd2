"""Time of one call of the jitted step from Python, compared with empty jitted functions on the same trees."""

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax

import jaxenv
from benchmarks import command, measure

# "same state" takes state and action and returns the donated state. "same state and row" returns a TimeStep as well, so
# the same number of arrays goes in and out as for the step.
SIDES = ("jaxenv", "same state", "same state and row")


def compare(id: str, num_envs: int, num_calls: int, repeats: int) -> dict[str, Any]:
    """Calls the step and the empty functions, interleaved, and returns a row of the result file.

    Ratios are the time of the step divided by the time of the empty function.
    """
    env = jaxenv.make(id, num_envs=num_envs)
    action = jaxenv.specs.sample(env.action_spec(), jax.random.key(1), (num_envs,))
    reset = jax.jit(env.reset)
    runs = {
        "jaxenv": _calls(reset, jax.jit(env.step, donate_argnums=0), action, num_calls),
        "same state": _calls(reset, jax.jit(lambda state, action: (state, ()), donate_argnums=0), action, num_calls),
        "same state and row": _calls(
            reset, jax.jit(lambda state, row: (state, row), donate_argnums=(0, 1)), None, num_calls
        ),
    }
    timed = {name: [seconds for _, seconds in t] for name, t in measure.time_interleaved(runs, repeats).items()}
    microseconds = {name: 1e6 * statistics.median(seconds) / num_calls for name, seconds in timed.items()}
    state, timestep = jax.eval_shape(env.reset, jax.random.key(0))
    return {
        "id": id,
        "num_envs": num_envs,
        "num_calls": num_calls,
        "arrays": len(jax.tree.leaves((state, timestep))),
        "contestants": {n: {"microseconds_per_call": microseconds[n], "seconds": timed[n]} for n in SIDES},
        "ratios": {n: microseconds["jaxenv"] / microseconds[n] for n in SIDES[1:]},
        "notes": [],
    }


def _calls(reset: Callable, fn: Callable, action: Any, num_calls: int) -> Callable[[int], float]:
    """Returns a run that makes ``num_calls`` dependent calls and returns their seconds, without the reset."""

    def run(seed: int) -> float:
        state, timestep = jax.block_until_ready(reset(jax.random.key(seed)))
        started = time.perf_counter()
        for _ in range(num_calls):
            state, timestep = fn(state, timestep if action is None else action)
        jax.block_until_ready((state, timestep))
        return time.perf_counter() - started

    return run


def report(rows: Sequence[dict[str, Any]]) -> str:
    """Formats the results as an aligned table."""
    header = ["id", "lanes", "arrays", "jaxenv", "same state", "ratio", "same state and row", "ratio"]
    lines = []
    for row in rows:
        line = [row["id"], str(row["num_envs"]), str(row["arrays"])]
        for name in SIDES:
            line.append(f"{row['contestants'][name]['microseconds_per_call']:.1f}")
            line += [f"{row['ratios'][name]:.2f}x"] if name in row["ratios"] else []
        lines.append(line)
    title = "Microseconds per call, with donated state; ratio: the step's time divided by the empty function's."
    return "\n".join([title, measure.table(header, lines)])


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parses the settings; an invalid one ends the program with status 2 and a one-line message."""
    parser = command.Parser("stepping", __doc__)
    parser.add_argument(
        "--ids", nargs="+", type=command.id, default=["CartPole-v1", "Pendulum-v1"], metavar="ID", help="ids to run"
    )
    parser.add_sizes(num_envs=[1, 64, 1024], num_steps=2000)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the comparison, prints the table and writes the file."""
    args, rows = parse(arguments), []
    for id in args.ids:
        for num_envs in args.num_envs:
            print(f"{id}, {num_envs} lanes ...", file=sys.stderr)
            rows.append(compare(id, num_envs, args.num_steps, args.repeats))
    return command.finish("stepping", args, rows, report, repeats=args.repeats)
