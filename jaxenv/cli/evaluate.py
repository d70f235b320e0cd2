"""``jaxenv eval``: the return of a trained policy over whole episodes, with its interval."""

import argparse
import json
import pathlib
import sys
from collections.abc import Iterator
from typing import Any

import jax

import jaxenv
from jaxenv.cli._arguments import add_env_settings, add_seed, add_time_limit, integer, one_line, settings_of
from jaxenv.cli._parser import Parser
from jaxenv.cli._policies import add_modules, add_policy, load_policy
from jaxenv.core.environment import Environment
from jaxenv.rollout import to_host
from jaxenv.training import Trained

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
    """Adds description and arguments."""
    command.description = (
        "Plays whole episodes, one per lane, with the policy of a run of `jaxenv train`, and prints the "
        "mean return with its 95% bootstrap interval."
    )
    command.epilog = "examples: jaxenv eval runs/CartPole-v1 --episodes 1000; jaxenv eval runs/CartPole-v1 --seeds all"
    command.add_argument(
        "folder",
        metavar="DIR",
        type=pathlib.Path,
        help="the folder of a run of `jaxenv train`, or baseline:ID[:LEARNER]",
    )
    command.add_argument("--episodes", metavar="N", type=integer(1), default=100, help="number of episodes")
    which = command.add_mutually_exclusive_group()
    add_policy(which)
    which.add_argument(
        "--seeds",
        metavar="best|all",
        type=_which_seeds,
        default="best",
        help="the seed with the best last evaluation, or all",
    )
    command.add_argument(
        "--explore", action="store_true", help="explore as in training (default: as the run's evaluations)"
    )
    add_modules(command)
    add_seed(command)
    command.add_argument("--json", action="store_true", help="print a JSON object")
    add_env_settings(command)
    add_time_limit(command)
    command.set_defaults(run=run, parser=command)


def _which_seeds(text: str) -> str:
    if text not in ("best", "all"):
        hint = f"; --policy-seed {text} evaluates one seed" if text.isdecimal() else ""
        raise argparse.ArgumentTypeError(f"must be best or all, got {text!r}{hint}")
    return text


def run(args: argparse.Namespace) -> None:
    """Evaluates and prints a line per seed."""
    settings = settings_of(args)
    found: list[dict[str, Any]] = []
    try:
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
        for trained in _policies(first, args.seeds == "all"):
            summary = evaluate(env, trained.make_memory(args.episodes), jax.random.key(args.seed))
            found.append({"seed": trained.seed, **to_host(summary)})
    except BrokenPipeError:
        raise
    except (ImportError, OSError, TypeError, ValueError) as error:
        args.parser.error(one_line(error))
    for one in found:
        if one["unfinished"]:
            limit = "100,000, which is the default without a time limit" if max_steps is None else f"{max_steps:,}"
            print(
                f"{args.parser.prog}: {one['unfinished']} of {args.episodes} episodes of seed {one['seed']} are left "
                f"out, they had not ended when max_eval_steps were taken: {limit}",
                file=sys.stderr,
            )
    if args.json:
        given = {"folder": str(args.folder), "id": first.config.env_id, "algorithm": first.algorithm}
        options = {"steps": first.steps, "episodes": args.episodes, "explore": explore, "seed": args.seed}
        print(json.dumps({**given, **options, "params": params, "results": found}))
        return
    print("\n".join(_table(found)))


def _policies(first: Trained, all_seeds: bool) -> Iterator[Trained]:
    """Yields the policies to evaluate."""
    for seed in range(first.num_seeds) if all_seeds else [first.seed]:
        yield first if seed == first.seed else load_policy(first.folder, seed)


def _table(found: list[dict[str, Any]]) -> Iterator[str]:
    """Yields aligned lines: a header and one per seed."""
    lines = [list(_COLUMNS), *([_text(one[name]) for name in _COLUMNS.values()] for one in found)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        yield "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True))


def _text(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:.5g}"
