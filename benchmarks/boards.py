"""Board games, compared with Pgx: games and moves per second of random legal play, or of a search before each move.

``python -m benchmarks boards --ids ConnectFour-v0 Othello-v0 --num-envs 2048 --json PATH``. See README.md.
"""

import argparse
import itertools
import statistics
from collections.abc import Iterator, Sequence
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

NAMES = ("id", "num_envs", "num_steps", "simulations")


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
    """Runs both sides, interleaved, and returns a row of the result file; the ratios are of games per second."""
    if simulations:
        mctx_library()
        mine = searching(id, num_envs, num_steps, simulations)
    else:
        mine = ours.rollout("jaxenv", jaxenv.make(id, num_envs=num_envs), num_steps)
    sides, notes = measure.available(lambda: mine, lambda: pgx(id, num_envs, num_steps, simulations))
    sizes = {"id": id, "num_envs": num_envs, "num_steps": num_steps, "simulations": simulations}
    row = sizes | measure.compared(sides, notes, repeats)
    for side in row["contestants"].values():
        pairs = zip(side["episodes"], side["seconds"], strict=True)
        side["games_per_second"] = statistics.median(episodes / seconds for episodes, seconds in pairs)
    games = {name: side["games_per_second"] for name, side in row["contestants"].items()}
    return row | {"ratios": {name: games["jaxenv"] / games[name] for name in row["ratios"]}}


def report(rows: Sequence[dict[str, Any]], args: argparse.Namespace) -> str:
    """Formats the results as an aligned table."""
    sides, seconds = ("jaxenv", "pgx"), "{:.1f}".format
    speeds = []
    for name in sides:
        speeds.append((f"{name}: games/s", measure.side(name, "games_per_second", "{:,.0f}".format)))
        speeds.append(("moves/s", measure.side(name, "steps_per_second", "{:,.0f}".format)))
    shown = measure.columns(
        rows,
        ("id", "id"),
        ("lanes", "num_envs"),
        *speeds,
        ("ratio", measure.ratio("pgx")),
        *((f"{name}: compile s", measure.side(name, "compile_seconds", seconds)) for name in sides),
    )
    searches = rows[0]["simulations"]
    play = f"A search of {searches} simulations before each move" if searches else "Random legal play"
    title = f"{play}; ratio: how many times more games jaxenv plays per second than pgx."
    return "\n".join([title, shown, *measure.notes(rows)])


def options(parser: command.Parser) -> None:
    """Adds the options."""
    parser.add_ids(PEERS, command.one_of(PEERS), "games to play")
    parser.add_sizes(num_envs=[2048], num_steps=256)
    help = "of a search by mctx before each move; 0 for random play"
    parser.add_argument("--simulations", type=command.natural, default=0, metavar="N", help=help)
    parser.add_update()


def rows(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Compares every game and number of lanes."""
    for id, num_envs in itertools.product(args.ids, args.num_envs):
        yield compare(id, num_envs, args.num_steps, args.repeats, args.simulations)
