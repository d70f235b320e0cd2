"""A trained player against plain Monte Carlo tree search: the score, and the difference of Elo that it stands for.

``python -m benchmarks match RUN --simulations 800 --own 128 --games 64 --json PATH``. See README.md.
"""

import argparse
import dataclasses
import time
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np

import jaxenv
from benchmarks import command, tables
from jaxenv import interop
from jaxenv.training import load, self_play
from jaxenv.wrappers import AutoReset, Opponent, StateInInfo

SIDES = ("first", "second")


def played(run: Any, simulations: int, games: int, side: Any) -> dict[str, Any]:
    """Plays games from one side, all at once, and returns a row of the result file."""
    game = jaxenv.make(run.config.env_id, games, **dict(run.config.env_options), autoreset=None)
    shown = StateInInfo(game)
    env = AutoReset(Opponent(shown, interop.mcts_policy(shown, simulations), side))

    play = jax.jit(lambda key, memory: jaxenv.evaluate(env, run.policy, key, games, initial_memory=memory).returns)
    started = time.monotonic()
    scores = np.asarray(play(jax.random.key(0), run.make_memory(games)))
    outcomes = {
        name: int((np.sign(scores) == sign).sum()) for name, sign in (("wins", 1), ("draws", 0), ("losses", -1))
    }
    return {"side": side, "games": games, "simulations": simulations, **outcomes, "seconds": time.monotonic() - started}


def report(rows: Sequence[dict[str, Any]], args: argparse.Namespace) -> str:
    """Formats the results as an aligned table, with the score over both sides and its difference of Elo."""
    counts = ("games", "wins", "draws", "losses", "seconds")
    score = sum(row["wins"] - row["losses"] for row in rows) / sum(row["games"] for row in rows)
    first, second = self_play.ratings([[0, score], [-score, 0]])
    opponent = f"Monte Carlo tree search of {rows[0]['simulations']} simulations"
    title = f"Against {opponent}: mean score {score:.2f}, {first - second:+.0f} Elo."
    cells = [(name, lambda row, name=name: round(row[name])) for name in counts]
    return f"{title}\n{tables.columns(rows, ('side', 'side'), *cells)}"


def options(parser: command.Parser) -> None:
    """Adds the options."""
    parser.add_argument("run", metavar="RUN", help="the folder of a run of jaxenv train, in a game of turns")
    parser.add_argument("--simulations", type=command.positive, default=800, metavar="N", help="of its opponent")
    parser.add_argument("--own", type=command.positive, metavar="N", help="simulations of AlphaZero, if not the run's")
    parser.add_argument("--games", type=command.positive, default=64, metavar="N", help="games from each side")


def rows(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Plays from both sides."""
    run = load(args.run)
    if args.own is not None:
        run = dataclasses.replace(run, config=dataclasses.replace(run.config, num_simulations=args.own))
    for side in SIDES:
        yield played(run, args.simulations, args.games, side)
