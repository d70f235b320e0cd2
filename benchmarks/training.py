"""Learners with their presets, compared with published results: whole runs of ten seeds, in parts that can be resumed.

``python -m benchmarks training --ids CartPole-v1 Pendulum-v1``, then ``--table --plot PATH``. See README.md.
"""

import argparse
import dataclasses
import json
import pathlib
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np

import jaxenv
from benchmarks import command, measure, tables
from jaxenv import training
from jaxenv.training import baselines, presets, seeds

RESULTS = pathlib.Path(__file__).parent / "results" / "training"
_ZOO = "rl-baselines3-zoo"  # benchmark.md; the table names other sources only
_EPISODES = 1000  # of the evaluation of a policy that ships


@dataclasses.dataclass(frozen=True)
class Published:
    """A published mean return.

    Attributes:
        value: the mean return.
        steps: environment steps of the run.
        learner: the learner.
        source: the table that it is from.
        options: the rules of that table, as options of this library's environment: the policies are evaluated once
            more under them. None for the rules under which they were trained.
    """

    value: float
    steps: int
    learner: str
    source: str = _ZOO
    options: dict[str, Any] | None = None


def _minatar(gymnax: float | None, pgx: float, limit: int = 1000) -> tuple[Published, ...]:
    """Returns the results published by pgx, under MinAtar's rules, and by gymnax-blines."""
    # gymnax's games have no sticky actions and a time limit.
    rules = {"sticky_action_prob": 0.0, "max_episode_steps": limit}
    blines = [] if gymnax is None else [Published(gymnax, 10_000_000, "PPO", "gymnax-blines", rules)]
    return (Published(pgx, 20_000_000, "PPO", "pgx"), *blines)


PUBLISHED = {
    ("CartPole-v1", "ppo"): (Published(500.0, 100_000, "PPO"),),
    ("CartPole-v1", "dqn"): (Published(500.0, 50_000, "DQN"),),
    ("Acrobot-v1", "ppo"): (Published(-73.5, 1_000_000, "PPO"),),
    ("MountainCar-v0", "dqn"): (Published(-101.0, 120_000, "DQN"),),
    ("MountainCarContinuous-v0", "sac"): (Published(94.7, 50_000, "SAC"),),
    ("Pendulum-v1", "sac"): (Published(-157.0, 20_000, "SAC"),),
    ("Pendulum-v1", "ppo"): (Published(-172.0, 100_000, "PPO"),),
    ("LunarLander-v3", "ppo"): (Published(242.1, 1_000_000, "PPO"),),
    ("BipedalWalker-v3", "ppo"): (Published(297.7, 500_000, "SAC"), Published(213.3, 5_000_000, "PPO")),
    ("MiniGrid-Empty-Random-5x5-v0", "ppo"): (Published(0.968, 100_000, "PPO"),),
    ("MiniGrid-DoorKey-5x5-v0", "ppo"): (Published(0.964, 100_000, "PPO"),),
    ("MiniGrid-FourRooms-v0", "ppo"): (Published(0.57, 5_000_000, "PPO"),),
    ("Breakout-MinAtar", "ppo"): _minatar(22.9, 50.0),
    ("Asterix-MinAtar", "ppo"): _minatar(15.0, 22.0),
    ("Freeway-MinAtar", "ppo"): _minatar(58.8, 63.5, limit=2500),
    ("SpaceInvaders-MinAtar", "ppo"): _minatar(131.6, 144.0),
    ("Seaquest-MinAtar", "ppo"): _minatar(None, 54.0),
}


def run(id: str, algorithm: str, num_seeds: int, folder: pathlib.Path, sequential: bool, devices: int = 1) -> None:
    """Trains one preset, or resumes it, and writes ``results/training/ID-ALGORITHM.json`` when it is complete."""
    config = presets.preset(id, algorithm)
    name = f"{id}-{algorithm}"
    elapsed = folder / name / "seconds.json"
    seconds = json.loads(elapsed.read_text()) if elapsed.exists() else 0.0
    started = time.perf_counter()
    runs = seeds.train(config, num_seeds, folder=folder / name, resume=True, sequential=sequential, devices=devices)
    for last in runs:  # noqa: B007
        elapsed.write_text(json.dumps(seconds + time.perf_counter() - started))
    returns = np.array([row["eval_return"] for row in seeds.rows(last)], np.float64).reshape(-1, num_seeds)
    RESULTS.mkdir(exist_ok=True, parents=True)
    result = {
        "id": id,
        "algorithm": algorithm,
        "config": dataclasses.asdict(config),
        "num_seeds": num_seeds,
        "seconds": json.loads(elapsed.read_text()),
        "steps": np.asarray(last.curve.steps[:, 0]).tolist(),
        "returns": np.round(returns, 4).tolist(),  # [evaluations, seeds], means of whole episodes
        "under_rules": _under_rules(id, algorithm, num_seeds, folder / name),
        "record": measure.record(),
    }
    (RESULTS / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n")


def _under_rules(id: str, algorithm: str, num_seeds: int, folder: pathlib.Path) -> dict[str, list[float]]:
    """Returns the mean returns of all seeds under the rules of each published table that differ from ours."""
    found = {}
    for table in PUBLISHED.get((id, algorithm), ()):
        if table.options is not None:
            policies = [training.load(folder, seed) for seed in range(num_seeds)]
            summaries = [_evaluated(trained, **table.options) for trained in policies]
            found[table.source] = [round(summary["return_mean"], 4) for summary in summaries]
    return found


def _evaluated(trained: training.Trained, **options) -> dict[str, Any]:
    """Evaluates 1000 whole episodes and returns their summary."""
    env = trained.make_env(_EPISODES, **options)
    policy = trained.explore if trained.config.eval_explore else trained.policy

    @jax.jit
    def evaluate(memory, key):
        episodes = jaxenv.evaluate(env, policy, key, initial_memory=memory, max_steps=trained.config.max_eval_steps)
        return episodes.summary(jax.random.fold_in(key, 1))

    return jaxenv.rollout.to_host(evaluate(trained.make_memory(_EPISODES), jax.random.key(1)))


def ship(id: str, algorithm: str, num_seeds: int, folder: pathlib.Path, sequential: bool, devices: int = 1) -> None:
    """Writes the policy of the best seed, which `jaxenv.training.baseline` reads, with its return in 1000 episodes."""
    trained = training.load(folder / f"{id}-{algorithm}")
    halved = jax.tree.map(lambda x: x.astype(np.float16).astype(np.float32), trained.params)
    trained = dataclasses.replace(trained, params=halved)
    found = _evaluated(trained)
    how = f"--seeds {num_seeds}" + " --sequential" * sequential + f" --devices {devices}" * (devices > 1)
    values = {field.name: getattr(trained, field.name) for field in dataclasses.fields(trained)}
    values |= {
        "seed": 0,
        "num_seeds": 1,
        "eval_return": found["return_mean"],
        "eval_interval": (found["return_low"], found["return_high"]),
        "eval_episodes": _EPISODES,
        "command": f"jaxenv train {id} --algo {algorithm} {how}",
    }
    baselines.write(id, baselines.Baseline(**values))


def load_results() -> list[dict[str, Any]]:
    """Loads all results, in the order of their ids."""
    return [json.loads(path.read_text()) for path in sorted(RESULTS.glob("*.json"))]


def table(results: Sequence[dict[str, Any]]) -> str:
    """Formats the results as a Markdown table."""
    header = ["id", "learner", "steps", "return", "95% interval", "wall time", "published", "seeds that reach it"]
    lines = []
    for result in results:
        final = np.array(result["returns"])[-1]
        steps, seconds = f"{result['steps'][-1]:,}", f"{result['seconds']:.0f} s"
        known = PUBLISHED.get((result["id"], result["algorithm"]), ())
        own, others = [x for x in known if x.options is None], [x for x in known if x.options is not None]
        name = [result["id"], result["algorithm"].upper(), steps]
        lines.append([*name, *_cells(final, own[0] if own else None, seconds)])
        for table in others:
            final = np.array(result["under_rules"][table.source])
            lines.append([f"same policies, rules of {table.source}", "", "", *_cells(final, table, "")])
    return "\n".join(tables.markdown(header, lines))


def _cells(final: np.ndarray, known: Published | None, seconds: str) -> list[str]:
    """Formats return, interval, wall time, published value and how many seeds reach it."""
    low, high = interval(final)
    digits = 2 if abs(final.mean()) < 10 else 1
    if known is not None:  # at least as many digits as the published value has
        digits = max(digits, len(f"{known.value:g}".partition(".")[2]))
    shown = f"{low:.{digits}f} to {high:.{digits}f}"
    if known is None:
        return [f"{final.mean():.{digits}f}", shown, seconds, "-", "-"]
    source = "" if known.source == _ZOO else f", {known.source}"
    published = f"{known.value:g} at {known.steps:,}, {known.learner}{source}"
    reached = f"{int((final >= known.value).sum())} of {len(final)}"
    return [f"{final.mean():.{digits}f}", shown, seconds, published, reached]


def interval(values: np.ndarray) -> tuple[float, float]:
    """Returns the 95% percentile bootstrap interval of the mean over the seeds."""
    draws = np.random.default_rng(0).choice(values, (10_000, len(values)))
    low, high = np.quantile(draws.mean(axis=1), [0.025, 0.975])
    return float(low), float(high)


def draw(results: Sequence[dict[str, Any]], path: pathlib.Path) -> None:
    """Draws the learning curve of every seed, their mean, and the published value."""
    import matplotlib.pyplot as plt

    columns = 3
    rows = -(-len(results) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(12, 2.9 * rows), layout="constrained", squeeze=False)
    for axis in axes.flat[len(results) :]:
        axis.axis("off")
    for axis, result in zip(axes.flat, results, strict=False):
        steps, returns = np.array(result["steps"]) / 1e3, np.array(result["returns"])
        axis.plot(steps, returns, color="tab:blue", alpha=0.25, linewidth=0.8)
        axis.plot(steps, returns.mean(axis=1), color="tab:blue", linewidth=2)
        if known := PUBLISHED.get((result["id"], result["algorithm"])):
            axis.axhline(known[0].value, color="tab:orange", linestyle="--", linewidth=1)
        axis.set_title(f"{result['id']}, {result['algorithm'].upper()}", fontsize=10)
        axis.set_xlabel("thousand steps", fontsize=8)
        axis.tick_params(labelsize=8)
        axis.grid(alpha=0.3)
    figure.savefig(path, dpi=100)
    plt.close(figure)


def options(parser: command.Parser) -> None:
    """Adds the options."""
    parser.add_argument("--ids", nargs="+", type=command.id, metavar="ID", help="presets to run (default: all)")
    parser.add_argument("--algos", nargs="+", choices=tuple(presets.PRESETS), help="learners (default: all)")
    parser.add_argument("--seeds", type=command.positive, default=10, metavar="N", help="seeds, trained in parallel")
    parser.add_argument("--sequential", action="store_true", help="train the seeds one after another")
    parser.add_argument("--devices", type=command.positive, default=1, metavar="N", help="devices that share the seeds")
    parser.add_argument(
        "--folder", type=pathlib.Path, default=pathlib.Path("runs/presets"), metavar="DIR", help="checkpoints of runs"
    )
    parser.add_argument("--ship", action="store_true", help="put the best policies into the library, as baselines")
    parser.add_argument("--table", action="store_true", help="run nothing, print the table of the stored results")
    parser.add_argument("--plot", type=pathlib.Path, metavar="PATH", help="draw the stored results, after any runs")


def check(parser: command.Parser, args: argparse.Namespace) -> None:
    """Refuses options that run nothing."""
    if args.table and (args.ids or args.algos or args.ship):
        parser.error("argument --table: shows all stored results and runs nothing: leave out --ids, --algos and --ship")
    if not args.table and not list(chosen(args)):
        every = "; ".join(f"{algorithm}: {', '.join(by_id)}" for algorithm, by_id in presets.PRESETS.items())
        parser.error(f"no preset of these ids and learners, the presets are {every}")


def chosen(args: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """Yields ids and learners of the presets to run."""
    for algorithm, by_id in presets.PRESETS.items():
        if args.algos is None or algorithm in args.algos:
            yield from ((id, algorithm) for id in by_id if args.ids is None or id in args.ids)


def main(args: argparse.Namespace) -> int:
    """Runs the presets that are not complete yet, and prints the table."""
    jax.config.update("jax_enable_compilation_cache", False)  # the wall time includes compilation
    if args.devices > 1:
        jax.config.update("jax_num_cpu_devices", args.devices)  # has no effect on other accelerators
    for id, algorithm in () if args.table else chosen(args):
        print(f"{id}, {algorithm} ...", file=sys.stderr)
        run(id, algorithm, args.seeds, args.folder, args.sequential, args.devices)
        if args.ship:
            ship(id, algorithm, args.seeds, args.folder, args.sequential, args.devices)
    results = load_results()
    print(table(results))
    if args.plot:
        draw(results, args.plot)
    return 0
