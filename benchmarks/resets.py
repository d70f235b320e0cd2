"""Restart strategies, over the fraction of lanes that end at a step and the cost of a reset, and for the ids."""

import argparse
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import command, measure
from benchmarks.ours import default_num_steps, rollout
from jaxenv import ids, load, random, specs, tree
from jaxenv.cli._arguments import one_line
from jaxenv.core.environment import Environment
from jaxenv.core.task import Task
from jaxenv.core.timestep import Transition
from jaxenv.wrappers import AutoReset, TimeLimit

# Cost of a reset -> rounds of integer work.
ROUNDS = {"cheap": 0, "expensive": 100}
# Name -> strategy and number of lanes per block.
STRATEGIES = {
    "select": ("select", 1),
    "cond": ("cond", 1),
    "compact 16": ("compact", 16),
    "compact 64": ("compact", 64),
    "compact 256": ("compact", 256),
}


class Ending(Task):
    """A state of sixteen words, which a step changes by the action; episodes end at random.

    Args:
        fraction: Fraction of the lanes that end at a step.
        rounds: Rounds of integer work on the sixteen words in a reset.
    """

    fraction: float = 0.01
    rounds: int = tree.static(default=0)

    def initial(self, stream):
        words = random.bits(stream, (16,))
        return jax.lax.fori_loop(0, self.rounds, lambda i, w: _mixed(w), words) if self.rounds else words

    def transition(self, state, action, stream):
        ended = random.bernoulli(stream, (), self.fraction)
        return Transition(
            state + action.astype(jnp.uint32)[:, None], jnp.ones(stream.shape, jnp.float32), terminated=ended
        )

    def observe(self, state):
        return random.unit(state)

    def observation_spec(self):
        return specs.Bounded((16,), np.float32, 0, 1, "observation")

    def action_spec(self):
        return specs.discrete(2, name="action")


def _mixed(words: jax.Array) -> jax.Array:
    """Multiplies and shifts every word, and adds its neighbour."""
    words = words * np.uint32(0x9E3779B1)
    words = words ^ (words >> np.uint32(15))
    return words + jnp.roll(words, 1, axis=-1)


def compare(settings: dict[str, Any], env: Environment, num_steps: int, repeats: int) -> dict[str, Any]:
    """Runs ``env`` with every strategy, interleaved, and returns a row of the result file."""
    contestants = []
    for name, (strategy, block) in STRATEGIES.items():
        contestants.append(rollout(name, AutoReset(env, "next_step", reset_strategy=strategy, block=block), num_steps))
    sizes = {"num_envs": env.num_envs, "num_steps": num_steps}
    return settings | sizes | measure.compared(contestants, (), repeats)


def _out_of_phase(id: str, num_envs: int) -> Environment:
    """Makes an id with a different time limit per lane, so that the lanes do not all end at the same step."""
    env = load(id, num_envs=num_envs, autoreset=None)
    if not isinstance(env, TimeLimit):
        return env
    limit = int(env.duration)
    limits = np.random.default_rng(0).integers(limit // 2, limit * 3 // 2, num_envs).astype(np.int32)
    return load(id, num_envs=num_envs, max_episode_steps=limits, autoreset=None)


def report(rows: Sequence[dict[str, Any]], args: argparse.Namespace) -> str:
    """Formats the results as an aligned table."""

    def ending(row: dict[str, Any]) -> str:
        select = row["contestants"]["select"]
        return f"{row.get('fraction', sum(select['episodes']) / sum(select['steps'])):.1%}"

    shown = measure.columns(
        rows,
        ("reset or id", lambda row: row.get("reset") or row["id"]),
        ("lanes", "num_envs"),
        ("ending", ending),
        *((name, measure.side(name)) for name in STRATEGIES),
    )
    title = (
        "Million environment steps per second; ending: fraction of lanes that end at a step; compact: lanes per block."
    )
    return f"{title}\n{shown}"


def options(parser: command.Parser) -> None:
    """Adds the options."""
    parser.add_argument("--resets", nargs="*", choices=list(ROUNDS), default=list(ROUNDS), help="costs of a reset")
    parser.add_argument(
        "--ids", nargs="*", type=command.any_id, default=list(ids()), metavar="ID", help="ids, or nothing to skip them"
    )
    parser.add_argument(
        "--fractions",
        nargs="+",
        type=command.fraction,
        default=[0.001, 0.01, 0.05, 0.2],
        metavar="P",
        help="fractions of the lanes that end at a step",
    )
    parser.add_sizes(num_envs=[2048, 16384], num_steps=None, repeats=3)


def check(parser: command.Parser, args: argparse.Namespace) -> None:
    """Refuses a run of nothing."""
    if not args.resets and not args.ids:
        parser.error("nothing to run: both --resets and --ids are empty")


def rows(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Compares the strategies for the toy environment, then for the ids."""
    for cost, num_envs, fraction in itertools.product(args.resets, args.num_envs, args.fractions):
        env = Ending(fraction, rounds=ROUNDS[cost], num_envs=num_envs)
        num_steps = args.num_steps or max(2**19 // num_envs, 64)
        yield compare({"reset": cost, "fraction": fraction}, env, num_steps, args.repeats)
    for id, num_envs in itertools.product(args.ids, args.num_envs):
        try:
            env = _out_of_phase(id, num_envs)
        except (ImportError, ValueError) as error:
            raise measure.Unavailable(one_line(error)) from None
        yield compare({"id": id}, env, args.num_steps or default_num_steps(id, num_envs), args.repeats)
