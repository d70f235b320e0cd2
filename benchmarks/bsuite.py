"""bsuite's score of PPO: all 468 settings, trained in one command that can be resumed, and bsuite's radar.

``python -m benchmarks bsuite --agents ppo random --json PATH --plot PATH``. See README.md.
"""

import argparse
import contextlib
import dataclasses
import functools
import importlib.util
import json
import pathlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxenv
from benchmarks import bsuite_logs, bsuite_score, command, measure
from jaxenv import tree
from jaxenv._util import files
from jaxenv.suites import bsuite as suite
from jaxenv.training import ppo
from jaxenv.wrappers import RewardWrapper

# One set of hyperparameters for all experiments, as bsuite asks for, and one lane. Nothing is evaluated: the score
# counts the episodes of training. The learning rate falls to 0 over `total_steps`, so this many keep it constant.
_PPO = ppo.Config(
    num_envs=1,
    num_steps=128,
    num_epochs=2,
    num_minibatches=4,
    learning_rate=2e-3,
    gamma=0.99,
    lambda_=0.95,
    entropy_cost=0.01,
    hidden=(64, 64),
    torso="mlp",
    total_steps=2**31 - 1,
    num_evaluations=(2**31 - 1) // (128 * 16),  # 16 updates in each iteration
    num_eval_episodes=1,
    max_eval_steps=1,
)
AGENTS: dict[str, ppo.Config | None] = {
    "ppo": _PPO,
    # The one lane is one minibatch: as many gradient steps need as many more epochs.
    "ppo-gru": dataclasses.replace(_PPO, recurrent=64, num_minibatches=1, num_epochs=8),
    "random": None,
}
# The order of runs, by the time that they take.
CHEAPEST_FIRST = [
    *("bandit", "mnist", "discounting_chain", "catch", "bandit_noise", "bandit_scale", "mnist_noise", "mnist_scale"),
    *("catch_noise", "catch_scale", "memory_size", "memory_len", "umbrella_length", "cartpole", "cartpole_swingup"),
    *("mountain_car", "cartpole_noise", "cartpole_scale", "mountain_car_noise", "mountain_car_scale"),
    *("umbrella_distract", "deep_sea", "deep_sea_stochastic"),
]
_FAST_TO_COMPILE = {"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False}
_ROWS = 2048  # of the random agent between two looks at its log


@tree.struct
class Player:
    """The carry of the random agent: state and TimeStep of its environment."""

    env_state: Any
    timestep: Any


class RewardScale(RewardWrapper):
    """Multiplies the reward by a number, which may differ between settings that are trained together."""

    scale: float = 1.0

    def reward(self, reward):
        return self.scale * reward


NAMES = ("agent", "experiment")


def stack(id: str, num_episodes: int, **changes: Any) -> bsuite_logs.Log:
    """Makes the environment of a setting, one lane, with its log.

    It has the task of ``jaxenv.make("bsuite:ID")``, but the environment's name, and scales are leaves, so that settings
    that differ only in numbers have the same structure.
    """
    found, setting = suite.experiment(id)
    setting, own = {**setting, **changes}, []
    if (scale := setting.pop("noise_scale", None)) is not None:
        own.append(("RewardNoise", {"scale": scale}))
    if (scale := setting.pop("reward_scale", None)) is not None:
        own.append(functools.partial(RewardScale, scale=scale))
    return bsuite_logs.Log(jaxenv.make(found.env_id, wrappers=own, **setting), num_episodes)


def trained(id: str, num_episodes: int) -> bsuite_logs.Log:
    """Makes the `stack` without parts that only the first start reads: a bandit keeps its arms in its state."""
    return stack(id, num_episodes, **({"mapping_seed": None} if id.startswith("bandit") else {}))


def groups(name: str) -> list[list[str]]:
    """Groups the ids of an experiment that one program trains together, short episodes first.

    They differ in params alone, and where the setting decides how long an episode is, by at most a factor of two.
    """
    found: dict[Any, list[str]] = {}
    for index, setting in enumerate(suite.EXPERIMENTS[name].settings):
        id, rows = f"{name}/{index}", 2 + setting.get("memory_length", setting.get("chain_length", 0))
        found.setdefault((rows.bit_length(), jax.tree.structure(trained(id, 1))), []).append(id)
    return list(found.values())


def functions(config: ppo.Config | None, env: bsuite_logs.Log) -> tuple[Callable, Callable]:
    """Returns ``start(key)`` and ``advance(learner)`` of an agent; without a config it acts at random."""
    if config is not None:
        train = ppo.make_train(config, env, env)
        init, iteration = train.init, train.iteration
        return init, lambda learner: iteration(learner)[0]
    policy = jaxenv.rollout.random_policy(env)

    def start(key: jax.Array) -> Player:
        return Player(*env.reset(jax.random.split(key, 3)[1]))

    def advance(player: Player) -> Player:
        (state, timestep, _), _ = jaxenv.unroll(env, policy, player.env_state, player.timestep, _ROWS, fields=())
        return Player(state, timestep)

    return start, advance


def run(ids: Sequence[str], config: ppo.Config | None, num_episodes: int) -> list[np.ndarray]:
    """Trains the settings of a group, one lane each, for ``num_episodes`` episodes; returns their logs ``[K, C]``.

    Every setting has a separate key. A finished setting continues, unlogged, until the last one is done.
    """
    stacks = [trained(id, num_episodes) for id in ids]
    env = jax.tree.map(lambda *leaves: jnp.stack(leaves), *stacks)
    keys = [jax.random.fold_in(jax.random.key(0), suite.ids().index(id)) for id in ids]
    # The start runs once, so compiling it fast counts more than its speed.
    start = jax.jit(jax.vmap(lambda env, key: functions(config, env)[0](key)), compiler_options=_FAST_TO_COMPILE)
    learner = start(env, jnp.stack(keys))
    if ids[0].startswith("bandit"):
        starts = [stack(id, num_episodes).reset(jax.random.split(key, 3)[1]) for id, key in zip(ids, keys, strict=True)]
        state, timestep = jax.tree.map(lambda *leaves: jnp.stack(leaves), *starts)
        learner = dataclasses.replace(learner, env_state=state, timestep=timestep)

    @functools.partial(jax.jit, donate_argnums=1)
    def advance(env, learner):
        return jax.vmap(lambda env, learner: functions(config, env)[1](learner))(env, learner)

    while int(learner.env_state.episodes.min()) < num_episodes:
        learner = advance(env, learner)
    return list(np.asarray(learner.env_state.table)[:, 0])


def train(agent: str, experiment: str, folder: pathlib.Path, most: int | None) -> None:
    """Trains the settings of an experiment that have no log in the folder yet.

    Args:
        agent: one of `AGENTS`.
        experiment: the name of the experiment.
        folder: the folder of the agent. Besides the logs it holds ``config.json``, and seconds per program in
            ``seconds.json``.
        most: end runs after this many episodes, or None for the number that bsuite prescribes.

    Raises:
        ValueError: if the folder has logs of another config, or another process writes to it.
    """
    num_episodes = min(most or 2**31, suite.EXPERIMENTS[experiment].num_episodes)
    config = AGENTS[agent]
    settings = {"agent": agent, "episodes": most, "config": None if config is None else dataclasses.asdict(config)}
    with _claimed(folder, settings):
        for ids in groups(experiment):
            if all(bsuite_logs.path_of(folder, id).exists() for id in ids):
                continue
            print(f"{agent}, {experiment}, {len(ids)} settings from {ids[0]} ...", file=sys.stderr, flush=True)
            started = time.perf_counter()
            tables = run(ids, config, num_episodes)
            columns = stack(ids[0], num_episodes).columns
            _add_seconds(folder, ids[0], time.perf_counter() - started)
            for id, table in zip(ids, tables, strict=True):
                bsuite_logs.write(folder, id, columns, table)


@contextlib.contextmanager
def _claimed(folder: pathlib.Path, settings: dict[str, Any]) -> Iterator[None]:
    """Keeps a folder for this process and these settings; raises a ``ValueError`` if others have it."""
    folder.mkdir(parents=True, exist_ok=True)
    lock = files.FolderLock("bsuite", folder)
    try:
        path, text = folder / "config.json", json.dumps(settings, indent=1) + "\n"
        if path.exists() and path.read_text() != text:
            raise ValueError(f"bsuite: {path} has the settings of other runs, choose another --folder")
        path.write_text(text)
        yield
    finally:
        lock.release()


def _seconds(folder: pathlib.Path) -> dict[str, float]:
    path = folder / "seconds.json"
    return json.loads(path.read_text()) if path.exists() else {}


def _add_seconds(folder: pathlib.Path, id: str, seconds: float) -> None:
    text = json.dumps(_seconds(folder) | {id: round(seconds, 1)}, indent=1) + "\n"
    (folder / "seconds.json").write_text(text)


def results(agent: str, folder: pathlib.Path) -> list[dict[str, Any]]:
    """Returns the rows of the result file: one per experiment whose settings have all been logged."""
    logged = {path.name for path in folder.glob("*.csv")}
    complete = [
        name
        for name, experiment in suite.EXPERIMENTS.items()
        if all(bsuite_logs.path_of(folder, f"{name}/{i}").name in logged for i in range(len(experiment.settings)))
    ]
    scored = bsuite_score.scores(folder, complete) if complete else {}
    seconds = _seconds(folder)
    return [
        {
            "agent": agent,
            "experiment": name,
            "tags": list(suite.EXPERIMENTS[name].tags),
            "settings": len(suite.EXPERIMENTS[name].settings),
            **scored[name],
            "programs": len(groups(name)),
            "seconds": round(sum(time for id, time in seconds.items() if id.partition("/")[0] == name), 1),
        }
        for name in complete
    ]


def report(rows: Sequence[dict[str, Any]], args: argparse.Namespace) -> str:
    """Formats the scores, and draws the radar."""
    if args.plot:
        bsuite_score.draw(rows, args.plot)
    return bsuite_score.report(rows)


def options(parser: command.Parser) -> None:
    """Adds the options."""
    parser.add_argument("--agents", nargs="+", choices=tuple(AGENTS), default=["ppo", "random"], help="who is scored")
    names = {"nargs": "+", "choices": CHEAPEST_FIRST, "default": CHEAPEST_FIRST, "metavar": "NAME"}
    parser.add_argument("--experiments", **names, help="what to train")
    parser.add_argument("--episodes", type=command.positive, metavar="N", help="end runs early (default: bsuite's)")
    folder = pathlib.Path("runs/bsuite")
    parser.add_argument("--folder", type=pathlib.Path, default=folder, metavar="DIR", help="logs, by agent")
    parser.add_argument("--table", action="store_true", help="train nothing, score the logs of the folder")
    parser.add_argument("--plot", type=command.new_file, metavar="PATH", help="draw the radar")


def check(parser: command.Parser, args: argparse.Namespace) -> None:
    """Refuses to start without the package that scores."""
    if importlib.util.find_spec("bsuite") is None:  # better now than after hours of training
        parser.error("the scores need the package bsuite: pip install bsuite")


def rows(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Trains the settings without a log and scores all logs."""
    for experiment in () if args.table else args.experiments:
        for agent in args.agents:
            train(agent, experiment, args.folder / agent, args.episodes)
    found = [row for agent in args.agents for row in results(agent, args.folder / agent)]
    if not found:
        raise measure.Unavailable(f"{args.folder} holds no logs of {', '.join(args.agents)}")
    yield from found
