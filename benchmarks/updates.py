"""Launches of one update of every learner, compiled for an accelerator that need not be there.

``python -m benchmarks updates --target h100``. See README.md.
"""

import argparse
import dataclasses
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any

from benchmarks import command, hlo, launches, tables
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

NAMES = ("learner",)


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


def report(rows: Sequence[dict[str, Any]], args: argparse.Namespace) -> str:
    """Formats the results as an aligned table."""

    def loops(row: dict[str, Any]) -> str:
        most = sorted(row["loops"], key=lambda loop: -loop["launches"])[:4]
        return " + ".join(f"{loop['rounds']} x {loop['launches'] / loop['rounds']:.4g}" for loop in most)

    counts = ("launches", "kernels", "copies", "others", "branches")
    shown = tables.columns(
        [row for row in rows if "error" not in row],
        ("learner", "learner"),
        ("id", "id"),
        ("lanes", "num_envs"),
        *((name, lambda row, name=name: f"{row[name]:.0f}") for name in counts),
        ("MB", lambda row: f"{row['bytes'] / 1e6:.0f}"),
        ("compile s", lambda row: f"{row['compile_seconds']:.0f}"),
        ("loops", loops),
    )
    notes = [{"notes": [f"{row['learner']}: {row['error']}"]} for row in rows if "error" in row]
    text = [
        "Launches of one update; branches: conditionals and loops whose length depends on data; MB: read and written;",
        "loops: rounds and launches of a round, of the loops with the most launches.",
        shown,
    ]
    return "\n".join([*text, *tables.notes(notes)])


def options(parser: command.Parser) -> None:
    """Adds the options."""
    launches.add_target(parser, seconds=600)
    parser.add_argument("--learners", nargs="+", choices=LEARNERS, default=list(LEARNERS), help="runs to compile")


check = launches.check


def rows(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Compiles the runs."""
    with launches.Compiler(args.target, args.seconds) as compiler:
        for learner in args.learners:
            config, settings = config_of(learner), {"updates": UPDATES, "settings": LEARNERS[learner][1]}
            row = {"learner": learner, "id": config.env_id, "num_envs": config.num_envs, **settings}
            yield row | compiler(compiled, learner)
