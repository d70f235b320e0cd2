"""CPU seconds to trace, lower and compile: a rollout of each id and a run of each learner, compared with the peers.

CPU seconds of the whole process depend less on other programs than wall time does. A reference program that no change
of this library touches is compiled before every row; divide by it to compare two machines or two days. The lines of
StableHLO, the text that XLA compiles, are exact.
"""

import argparse
import functools
import itertools
import pathlib
import re
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp

import jaxenv
from benchmarks import command, levels, ppo, tables, updates
from benchmarks.libraries import COUNTERPARTS, PEERS
from benchmarks.measure import Unavailable
from benchmarks.ours import rollout_of_id
from jaxenv._util.library import default_types

STAGES = ("trace", "lower", "compile")
LANES, STEPS = 2048, 100
NAMES = ("what", "id")
# Learners with a peer of the same settings -> their id and the programs of both sides, made from the options.
_PEERS: dict[str, tuple[str, dict[str, Callable[[argparse.Namespace], Callable]]]] = {
    "ppo of purejaxrl": (
        "CartPole-v1",
        {
            "jaxenv": lambda _: ppo.ours("CartPole-v1", 64, 10**6),
            "purejaxrl": lambda _: ppo.theirs("CartPole-v1", 64, 10**6),
        },
    ),
    "an update of robust PLR": (
        levels.ID,
        {
            "jaxenv": lambda _: _of_update(*levels.ours_plr("replayed", 3)),
            "jaxued": lambda args: _of_update(*levels.jaxued_plr(_clone(args.jaxued), "replayed", 3)),
        },
    ),
}
LEARNERS = (*updates.LEARNERS, *_PEERS)


def stages(make: Callable[[], Callable]) -> dict[str, Any]:
    """Makes a program, a function of a key, and returns the CPU seconds of each stage and its lines of StableHLO."""
    jax.clear_caches()
    with default_types():  # peers rely on JAX's defaults
        program, seconds = make(), [time.process_time()]
        traced = jax.jit(program).trace(jax.random.key(0))
        seconds.append(time.process_time())
        lowered = traced.lower()
        seconds.append(time.process_time())
        lowered.compile()
    seconds.append(time.process_time())
    spent = dict(zip(STAGES, (b - a for a, b in itertools.pairwise(seconds)), strict=True))
    return spent | {"total": seconds[-1] - seconds[0], "lines": lines_of(lowered)}


def lines_of(lowered: Any) -> int:
    """Returns the lines of StableHLO of a lowered program, with every function in the place of its calls, as in XLA."""
    _, *functions = lowered.as_text().split("func.func ")
    bodies = {text.partition("@")[2].partition("(")[0]: text for text in functions}

    @functools.cache
    def count(name: str) -> int:
        called = re.findall(r"""(?<!custom_)call @("[^"]*"|[\w.]+)\(""", bodies[name])
        return bodies[name].count("\n") + sum(count(callee) for callee in called)

    return count("main")


def reference() -> Callable[[jax.Array], jax.Array]:
    """Returns a program without this library: a loop over a few layers, each with its random numbers."""

    def program(key):
        def body(x, i):
            for j in range(3):
                noise = jax.random.uniform(jax.random.fold_in(key, j), x.shape)
                x = jnp.where(x > j, jnp.cumsum(x * noise, axis=j % 2), jnp.sin(x + i))
            return x, x.sum()

        return jax.lax.scan(body, jnp.zeros((64, 8)), jnp.arange(100))

    return program


def row_of(what: str, id: str, makers: dict[str, Callable[[], Callable]], repeats: int) -> dict[str, Any]:
    """Compiles all sides in turn and returns a row of the result file: for each side the repeat of median time."""
    found: dict[str, list[dict[str, Any]]] = {}
    notes: dict[str, None] = {}
    for _ in range(repeats):
        for name, make in {"reference": reference, **makers}.items():
            try:
                found.setdefault(name, []).append(stages(make))
            except Unavailable as error:
                notes[str(error)] = None
    by_total = {name: sorted(runs, key=lambda run: run["total"]) for name, runs in found.items() if runs}
    medians = {name: runs[(len(runs) - 1) // 2] for name, runs in by_total.items()}
    own = medians["jaxenv"]["total"]
    ratios = {name: side["total"] / own for name, side in medians.items() if name not in ("jaxenv", "reference")}
    return {"what": what, "id": id, "contestants": medians, "ratios": ratios, "notes": list(notes)}


def rollouts_of(id: str) -> dict[str, Callable[[], Callable]]:
    """Returns the makers of a rollout of an id, by side."""
    peer = "popjaxrl" if id.endswith("-popgym") else "jaxmarl" if id in COUNTERPARTS["jaxmarl"] else "gymnax"
    sides = {"jaxenv": rollout_of_id, peer: PEERS[peer]}
    return {name: lambda side=side: side(id, LANES, STEPS, "sums").program for name, side in sides.items()}


def learners_of(name: str, args: argparse.Namespace) -> tuple[str, dict[str, Callable[[], Callable]]]:
    """Returns the id of a learner and the makers of a run, by side."""
    if name in _PEERS:
        id, sides = _PEERS[name]
        return id, {side: lambda make=make: make(args) for side, make in sides.items()}
    config = updates.config_of(name)
    return config.env_id, {"jaxenv": lambda: updates.LEARNERS[name][0].make_train(config)}


def _of_update(state: Any, update: Callable) -> Callable:
    return lambda key: update(state)


def _clone(path: pathlib.Path | None) -> pathlib.Path:
    if path is None:
        raise Unavailable("jaxued: give a clone of its repository by --jaxued")
    return path


def options(parser: command.Parser) -> None:
    """Adds the options."""
    parser.add_argument("--ids", nargs="*", type=command.id, default=jaxenv.ids(), metavar="ID", help="rollouts")
    parser.add_argument("--learners", nargs="*", choices=LEARNERS, default=list(LEARNERS), help="runs of learners")
    parser.add_argument("--jaxued", type=command.folder, metavar="PATH", help="a clone of DramaCow/jaxued")
    parser.add_repeats(3)


def rows(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Compiles all rollouts and learners."""
    stages(reference)  # the first compilation of a process takes longer
    for id in args.ids:
        yield row_of("rollout", id, rollouts_of(id), args.repeats)
    for name in args.learners:
        yield row_of(name, *learners_of(name, args), args.repeats)


def report(rows: Sequence[dict[str, Any]], args: argparse.Namespace) -> str:
    """Formats the results as an aligned table."""

    def peer(row: dict[str, Any]) -> str:
        return next(iter(row["ratios"]))

    own = [(stage, tables.side("jaxenv", stage, "{:.2f}".format)) for stage in (*STAGES, "total")]
    shown = tables.columns(
        rows,
        ("id", "id"),
        ("what", "what"),
        *own,
        ("lines", tables.side("jaxenv", "lines", str)),
        ("peer", peer),
        ("total", lambda row: f"{row['contestants'][peer(row)]['total']:.2f}"),
        ("lines", lambda row: row["contestants"][peer(row)]["lines"]),
        ("ratio", lambda row: tables.ratio(peer(row))(row)),
    )
    middle = statistics.median(row["contestants"]["reference"]["total"] for row in rows)
    title = "CPU seconds, lines of StableHLO; ratio: how many times as long the peer takes."
    return "\n".join([title, shown, f"the reference program: {middle:.2f} s in the median", *tables.notes(rows)])
