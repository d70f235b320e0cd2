"""Board games, compared with Pgx: games and moves per second of random legal play.

``python -m benchmarks boards --ids ConnectFour-v0 Othello-v0 --num-envs 2048 --json PATH``. See README.md.
"""

import argparse
import statistics
import sys
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

import jaxenv
from benchmarks import command, measure, ours
from benchmarks.measure import Contestant, Row, jax_contestant
from benchmarks.peers import Unavailable
from jaxenv.cli._arguments import one_line

PEERS = {
    "ConnectFour-v0": "connect_four",
    "Go-9x9-v0": "go_9x9",
    "Hex-11x11-v0": "hex",
    "Othello-v0": "othello",
    "2048-v0": "2048",
}


def pgx(id: str, num_envs: int, num_steps: int) -> Contestant:
    """Runs Pgx as its users do: ``auto_reset`` under ``vmap``, legal actions by ``act_randomly``.

    Raises:
        Unavailable: If Pgx is not installed.
    """
    try:
        import pgx
        from pgx.experimental import act_randomly, auto_reset
    except ImportError as error:
        raise Unavailable(f"pgx cannot be imported: {one_line(error)}") from None
    env = pgx.make(PEERS[id])
    advance = jax.vmap(auto_reset(env.step, env.init))

    def start(key):
        key, key_init, key_action = jax.random.split(key, 3)
        state = jax.vmap(env.init)(jax.random.split(key_init, num_envs))
        return state, key, act_randomly(key_action, state.legal_action_mask)

    def step(carry):
        # The action is carried, as in the rollout of this library.
        state, key, action = carry
        key, key_step, key_action = jax.random.split(key, 3)
        state = advance(state, action, jax.random.split(key_step, num_envs))
        every = jnp.ones(num_envs, bool)  # a lane restarts in the step that ends its game
        row = Row(state.observation, action, state.rewards, state.terminated, state.truncated, every)
        return (state, key, act_randomly(key_action, state.legal_action_mask)), row

    return jax_contestant("pgx", start, step, num_envs, num_steps, store=False)


def compare(id: str, num_envs: int, num_steps: int, repeats: int) -> dict[str, Any]:
    """Runs both sides, interleaved, and returns a row of the result file."""
    contestants = [ours.rollout("jaxenv", jaxenv.make(id, num_envs=num_envs), num_steps)]
    contestants.append(pgx(id, num_envs, num_steps))
    samples = measure.sample_interleaved(contestants, repeats)
    found = {c.name: measure.summary(c, samples[c.name]) for c in contestants}
    for name, s in samples.items():
        found[name]["games_per_second"] = statistics.median(x.episodes / x.seconds for x in s)
    ratio = found["jaxenv"]["games_per_second"] / found["pgx"]["games_per_second"]
    sizes = {"id": id, "num_envs": num_envs, "num_steps": num_steps}
    return {**sizes, "contestants": found, "ratios": {"pgx": ratio}, "notes": []}


def report(rows: Sequence[dict[str, Any]]) -> str:
    """Formats the results as an aligned table."""
    header = ["id", "lanes", "jaxenv: games/s", "moves/s", "pgx: games/s", "moves/s", "ratio", "compile s", "pgx"]
    lines = []
    for row in rows:
        both = [row["contestants"][name] for name in ("jaxenv", "pgx")]
        speeds = [f"{side[unit]:,.0f}" for side in both for unit in ("games_per_second", "steps_per_second")]
        seconds = [f"{side['compile_seconds']:.1f}" for side in both]
        lines.append([row["id"], str(row["num_envs"]), *speeds, f"{row['ratios']['pgx']:.1f}x", *seconds])
    title = "Random legal play; ratio: how many times more games jaxenv plays per second than pgx."
    return "\n".join([title, measure.table(header, lines)])


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parses the settings; an invalid one ends the program with status 2 and a one-line message."""
    parser = command.Parser("boards", __doc__ or "")
    parser.add_argument(
        "--ids", nargs="+", type=command.one_of(PEERS), default=list(PEERS), metavar="ID", help="games to play"
    )
    parser.add_sizes(num_envs=[2048], num_steps=256)
    parser.add_update()
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the comparison, prints the table and writes the file."""
    args, rows = parse(arguments), []
    for id in args.ids:
        for num_envs in args.num_envs:
            print(f"{id}, {num_envs} lanes ...", file=sys.stderr)
            try:
                rows.append(compare(id, num_envs, args.num_steps, args.repeats))
            except Unavailable as error:
                print(f"jaxenv bench boards: {error}", file=sys.stderr)
                return 1
    names = ("id", "num_envs", "num_steps")
    return command.finish("boards", args, rows, report, names=names, repeats=args.repeats, policy="random legal")


if __name__ == "__main__":
    from benchmarks.__main__ import main as run_part

    sys.exit(run_part(["boards", *sys.argv[1:]]))
