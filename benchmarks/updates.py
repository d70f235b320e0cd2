"""Launches of one update of every learner, compiled for an accelerator that need not be there.

``python -m benchmarks updates --target h100``. See README.md.
"""

import argparse
import dataclasses
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from benchmarks import command, hlo, launches, measure
from jaxenv.training import alphazero, dqn, ppo, sac

UPDATES = 37  # of the compiled run; no other loop of the runs below has as many rounds, nor half as many
_IMAGE = {"env_id": "Breakout-MinAtar", "torso": "mlp"}
# The runs whose updates are counted. The evaluation of a run is outside of its updates, and short.
LEARNERS: dict[str, tuple[ModuleType, dict[str, Any]]] = {
    "ppo": (ppo, {**_IMAGE, "num_envs": 2048, "num_steps": 128, "num_epochs": 4, "num_minibatches": 4}),
    "ppo, recurrent": (ppo, {"env_id": "CartPole-v1", "num_envs": 2048, "num_steps": 64, "recurrent": 64}),
    "dqn": (dqn, {**_IMAGE, "num_envs": 1024, "num_steps": 8, "num_gradient_steps": 16, "batch_size": 1024}),
    "sac": (sac, {"env_id": "Pendulum-v1", "num_envs": 256, "num_steps": 1, "num_gradient_steps": 2}),
    "alphazero": (alphazero, {"env_id": "ConnectFour-v0", "num_steps": 32, "num_gradient_steps": 64}),
}


def config_of(learner: str) -> Any:
    """Returns the settings of a run of `UPDATES` updates."""
    module, settings = LEARNERS[learner]
    long = module.Config(
        **settings, total_steps=10**7, num_evaluations=1, num_eval_episodes=settings.get("num_envs", 128)
    )
    return dataclasses.replace(
        long, total_steps=long.num_warmup_rows + UPDATES * long.rows_per_update, max_eval_steps=1
    )


def compiled(target: str, learner: str) -> dict[str, Any]:
    """Compiles a run and returns the counts of an update, or the error of the compiler."""
    try:
        executable, seconds = launches.compile_for(target, LEARNERS[learner][0].make_train(config_of(learner)))
        text = executable.as_text()
        counts = hlo.launches(text, UPDATES)
    except Exception as error:  # every failure is a row
        return launches.error_row(error)
    return {
        "launches": counts.total,
        **counts._asdict(),
        "loops": [{"rounds": rounds, "launches": part.total} for rounds, part in hlo.loops(text, UPDATES)],
        "temporary_bytes": executable.memory_analysis().temp_size_in_bytes,
        "compile_seconds": seconds,
    }


def report(rows: Sequence[dict[str, Any]]) -> str:
    """Formats the results as an aligned table."""
    header = ["learner", "id", "lanes", "launches", "kernels", "copies", "others", "branches"]
    header += ["MB", "compile s", "loops"]
    lines, notes = [], []
    for row in rows:
        names = [row["learner"], row["id"], str(row["num_envs"])]
        if "error" in row:
            notes.append({"notes": [f"{row['learner']}: {row['error']}"]})
            continue
        loops = sorted(row["loops"], key=lambda loop: -loop["launches"])
        lines.append(
            [
                *names,
                *(f"{row[name]:.0f}" for name in ("launches", "kernels", "copies", "others", "branches")),
                f"{row['bytes'] / 1e6:.0f}",
                f"{row['compile_seconds']:.0f}",
                " + ".join(f"{loop['rounds']} x {loop['launches'] / loop['rounds']:.4g}" for loop in loops[:4]),
            ]
        )
    text = [
        "Launches of one update; branches: conditionals and loops whose length depends on data; MB: read and written;",
        "loops: rounds and launches of a round, of the loops with the most launches.",
        measure.table(header, lines),
    ]
    return "\n".join([*text, *measure.notes(notes)])


# --- command line ----------------------------------------------------------------------------------------------------


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parses the settings; an invalid one ends the program with status 2 and a one-line message."""
    parser = command.Parser("updates", __doc__)
    launches.add_target(parser)
    parser.add_argument(
        "--learners", nargs="+", choices=list(LEARNERS), default=list(LEARNERS), metavar="NAME", help="runs to compile"
    )
    parser.add_argument("--seconds", type=command.positive, default=600, metavar="S", help="limit of one compilation")
    parser.add_json()
    parser.add_update()
    return launches.checked_target(parser, parser.parse_args(arguments))


def main(arguments: Sequence[str] | None = None) -> int:
    """Compiles the runs, prints the table and writes the file."""
    args, rows = parse(arguments), []
    launches.prepare(args.target)
    compiler = launches.Compiler(args.target, args.seconds)
    try:
        for learner in args.learners:
            config = config_of(learner)
            print(f"{learner} ...", file=sys.stderr)
            found = compiler(compiled, learner)
            rows.append({"learner": learner, "id": config.env_id, "num_envs": config.num_envs, **found})
    finally:
        compiler.close()
    settings = {"target": args.target, "updates": UPDATES, "settings": {k: v for k, (_, v) in LEARNERS.items()}}
    return command.finish("updates", args, rows, report, names=("learner",), **settings)


if __name__ == "__main__":
    from benchmarks.__main__ import main as run_part

    sys.exit(run_part(["updates", *sys.argv[1:]]))
