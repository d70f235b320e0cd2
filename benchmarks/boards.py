"""Board games, compared with Pgx: games and moves per second of random legal play, or of a search before each move.

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
from jaxenv import interop
from jaxenv.cli._arguments import one_line

PEERS = {
    "ConnectFour-v0": "connect_four",
    "Go-9x9-v0": "go_9x9",
    "Hex-11x11-v0": "hex",
    "Othello-v0": "othello",
    "2048-v0": "2048",
}


def pgx(id: str, num_envs: int, num_steps: int, simulations: int = 0) -> Contestant:
    """Runs Pgx as its users do: ``auto_reset`` under ``vmap``, legal actions by ``act_randomly`` or a search.

    Raises:
        Unavailable: If Pgx is not installed.
    """
    try:
        import pgx
        from pgx.experimental import act_randomly, auto_reset
    except ImportError as error:
        raise Unavailable(f"pgx cannot be imported: {one_line(error)}") from None
    env = pgx.make(PEERS[id])
    advance, step_lanes = jax.vmap(auto_reset(env.step, env.init)), jax.vmap(env.step)

    def recurrent_fn(_, key, action, state):
        player = state.current_player
        state = step_lanes(state, action)
        reward = jnp.take_along_axis(state.rewards, player[:, None], axis=1)[:, 0]
        discount = jnp.where(state.terminated, 0.0, -1.0)
        logits, value = guess(state.observation, state.legal_action_mask)
        node = {"reward": reward, "discount": discount, "prior_logits": logits, "value": value}
        return mctx_library().RecurrentFnOutput(**node), state

    def act(key, state):
        if not simulations:
            return act_randomly(key, state.legal_action_mask)
        logits, value = guess(state.observation, state.legal_action_mask)
        root = mctx_library().RootFnOutput(prior_logits=logits, value=value, embedding=state)
        return searched(key, root, recurrent_fn, ~state.legal_action_mask, simulations)

    def start(key):
        key, key_init, key_action = jax.random.split(key, 3)
        state = jax.vmap(env.init)(jax.random.split(key_init, num_envs))
        return state, key, act(key_action, state)

    def step(carry):
        # The action is carried, as in the rollout of this library.
        state, key, action = carry
        key, key_step, key_action = jax.random.split(key, 3)
        state = advance(state, action, jax.random.split(key_step, num_envs))
        every = jnp.ones(num_envs, bool)  # a lane restarts in the step that ends its game
        row = Row(state.observation, action, state.rewards, state.terminated, state.truncated, every)
        return (state, key, act(key_action, state)), row

    return jax_contestant("pgx", start, step, num_envs, num_steps, store=False)


def searching(id: str, num_envs: int, num_steps: int, simulations: int) -> Contestant:
    """Returns a rollout of this library with a search before each move."""
    mctx_library()
    env = jaxenv.make(id, num_envs=num_envs, wrappers=["StateInInfo"])
    model = interop.to_mctx(env, lambda _, key, state, t: guess(t.observation, t.env_info["action_mask"]))

    def policy(timestep, stream):
        key, invalid = jaxenv.random.jax_keys(stream)[0], model.invalid_actions(timestep)
        return model.action(searched(key, model.root(None, key, timestep), model.recurrent_fn, invalid, simulations))

    return ours.rollout("jaxenv", env, num_steps, policy=policy)


def guess(observation: Any, mask: Any) -> Any:
    """Stands for a network: uniform logits, and values of nearly 0 that depend on the observation."""
    logits = jnp.where(mask, 0.0, jnp.finfo(jnp.float32).min)
    return logits, 1e-12 * observation.astype(jnp.float32).reshape(len(mask), -1).sum(axis=1)


def searched(key: Any, root: Any, recurrent_fn: Any, invalid: Any, simulations: int) -> Any:
    """Returns the actions of Gumbel MuZero's search."""
    policy = mctx_library().gumbel_muzero_policy
    return policy(None, key, root, recurrent_fn, simulations, invalid).action


def mctx_library() -> Any:
    """Imports mctx.

    Raises:
        Unavailable: If it is not installed.
    """
    try:
        import mctx
    except ImportError as error:
        raise Unavailable(f"mctx cannot be imported: {one_line(error)}") from None
    return mctx


def compare(id: str, num_envs: int, num_steps: int, repeats: int, simulations: int = 0) -> dict[str, Any]:
    """Runs both sides, interleaved, and returns a row of the result file; without pgx a note says why."""
    if simulations:
        mine = searching(id, num_envs, num_steps, simulations)
    else:
        mine = ours.rollout("jaxenv", jaxenv.make(id, num_envs=num_envs), num_steps)
    contestants, notes = [mine], []
    try:
        contestants.append(pgx(id, num_envs, num_steps, simulations))
    except Unavailable as error:
        notes.append(f"no comparison: {error}")
    samples = measure.sample_interleaved(contestants, repeats)
    found = {c.name: measure.summary(c, samples[c.name]) for c in contestants}
    for name, s in samples.items():
        found[name]["games_per_second"] = statistics.median(x.episodes / x.seconds for x in s)
    own = found["jaxenv"]["games_per_second"]
    ratios = {name: own / side["games_per_second"] for name, side in found.items() if name != "jaxenv"}
    sizes = {"id": id, "num_envs": num_envs, "num_steps": num_steps, "simulations": simulations}
    return {**sizes, "contestants": found, "ratios": ratios, "notes": notes}


def report(rows: Sequence[dict[str, Any]]) -> str:
    """Formats the results as an aligned table."""
    header = ["id", "lanes", "jaxenv: games/s", "moves/s", "pgx: games/s", "moves/s", "ratio", "compile s", "pgx"]
    lines = []
    for row in rows:
        both = [row["contestants"].get(name) for name in ("jaxenv", "pgx")]
        units = ("games_per_second", "steps_per_second")
        speeds = [f"{side[unit]:,.0f}" if side else "-" for side in both for unit in units]
        seconds = [f"{side['compile_seconds']:.1f}" if side else "-" for side in both]
        ratio = f"{row['ratios']['pgx']:.1f}x" if row["ratios"] else "-"
        lines.append([row["id"], str(row["num_envs"]), *speeds, ratio, *seconds])
    searches = rows[0]["simulations"]
    play = f"A search of {searches} simulations before each move" if searches else "Random legal play"
    title = f"{play}; ratio: how many times more games jaxenv plays per second than pgx."
    return "\n".join([title, measure.table(header, lines)])


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parses the settings; an invalid one ends the program with status 2 and a one-line message."""
    parser = command.Parser("boards", __doc__ or "")
    parser.add_argument(
        "--ids", nargs="+", type=command.one_of(PEERS), default=list(PEERS), metavar="ID", help="games to play"
    )
    parser.add_sizes(num_envs=[2048], num_steps=256)
    parser.add_argument(
        "--simulations",
        type=command.natural,
        default=0,
        metavar="N",
        help="of a search by mctx before each move; 0 for random play",
    )
    parser.add_update()
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the comparison, prints the table and writes the file."""
    args, rows = parse(arguments), []
    for id in args.ids:
        for num_envs in args.num_envs:
            print(f"{id}, {num_envs} lanes ...", file=sys.stderr)
            try:
                rows.append(compare(id, num_envs, args.num_steps, args.repeats, args.simulations))
                for note in rows[-1]["notes"]:
                    print(f"note: {id}: {note}", file=sys.stderr)
            except Unavailable as error:
                print(f"jaxenv bench boards: {error}", file=sys.stderr)
                return 1
    names = ("id", "num_envs", "num_steps", "simulations")
    return command.finish("boards", args, rows, report, names=names, repeats=args.repeats)


if __name__ == "__main__":
    from benchmarks.__main__ import main as run_part

    sys.exit(run_part(["boards", *sys.argv[1:]]))
