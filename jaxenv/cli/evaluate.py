"""Plays whole episodes, one per lane, with the policy of a run of `jaxenv train`, and prints the mean return with its
95% bootstrap interval.

examples: jaxenv eval runs/CartPole-v1 --episodes 1000; jaxenv eval runs/CartPole-v1 --seeds all
"""

import argparse
import json
import sys
from typing import Any

import jax

import jaxenv
from jaxenv.cli._arguments import add_options, columns, load_policy, settings_of
from jaxenv.cli._parser import Parser
from jaxenv.core.environment import Environment
from jaxenv.rollout import to_host
from jaxenv.rollout.writers import text_of

_COLUMNS = {
    "seed": "seed",
    "mean return": "return_mean",
    "95% from": "return_low",
    "to": "return_high",
    "lowest": "return_min",
    "highest": "return_max",
    "mean length": "length_mean",
    "terminated": "terminated",
    "truncated": "truncated",
    "unfinished": "unfinished",
}


def add(command: Parser) -> None:
    """Adds the arguments."""
    add_options(command, "folder")
    add_options(command, "--episodes", metavar="N", default=100, help="number of episodes")
    which = command.add_mutually_exclusive_group()
    add_options(which, "--policy-seed")
    text = "the seed with the best last evaluation, or all; --policy-seed S is one of them"
    which.add_argument("--seeds", choices=("best", "all"), default="best", help=text)
    explore = "explore as in training (default: as the run's evaluations)"
    add_options(command, "--explore", action="store_true", help=explore)
    add_options(command, "--module", "--seed", "--json", "--env", "--max-episode-steps")


def run(args: argparse.Namespace) -> None:
    """Evaluates and prints a line per seed."""
    settings = settings_of(args)
    found: list[dict[str, Any]] = []
    first = load_policy(args.folder, args.policy_seed, args.modules)
    env = first.make_env(args.episodes, **settings)
    explore = args.explore or first.config.eval_explore
    policy, max_steps = first.explore if explore else first.policy, first.config.max_eval_steps

    # Weights are an argument, so all seeds share one compiled function.
    @jax.jit
    def evaluate(env: Environment, memory: Any, key: jax.Array) -> dict[str, Any]:
        episodes = jaxenv.evaluate(env, policy, key, initial_memory=memory, max_steps=max_steps)
        return episodes.summary(jax.random.fold_in(key, 1))

    params = dict(first.config.env_options) | settings
    if not args.json:
        of = ", ".join([first.config.env_id, *(f"{name}={value}" for name, value in params.items())])
        how = "exploring" if explore else "without exploration"
        print(f"{of}, {first.algorithm} after {first.steps:,} steps: {args.episodes} episodes, {how}")
    for seed in range(first.num_seeds) if args.seeds == "all" else [first.seed]:
        trained = first if seed == first.seed else load_policy(first.folder, seed)
        summary = to_host(evaluate(env, trained.make_memory(args.episodes), jax.random.key(args.seed)))
        found.append({"seed": seed, **summary})
        if summary["unfinished"]:
            limit = "100,000, which is the default without a time limit" if max_steps is None else f"{max_steps:,}"
            left_out = f"{summary['unfinished']} of {args.episodes} episodes of seed {seed} are left out"
            why = f"they had not ended when max_eval_steps were taken: {limit}"
            print(f"{args.parser.prog}: {left_out}, {why}", file=sys.stderr)
    if args.json:
        given = {"folder": str(args.folder), "id": first.config.env_id, "algorithm": first.algorithm}
        options = {"steps": first.steps, "episodes": args.episodes, "explore": explore, "seed": args.seed}
        print(json.dumps({**given, **options, "params": params, "results": found}))
        return
    table = [list(_COLUMNS), *([text_of(one[name]) for name in _COLUMNS.values()] for one in found)]
    print("\n".join(columns(table, left=0)))
