"""Levels of AMaze, compared with jaxued and minimax: random steps in new or replayed levels, and updates of robust PLR.

``python -m benchmarks levels --jaxued PATH --minimax PATH``, where the paths are clones of their repositories. See
README.md.
"""

import argparse
import dataclasses
import functools
import inspect
import itertools
import pathlib
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp

import jaxenv
from benchmarks import command, measure, tables
from benchmarks import ours as own_rollouts
from benchmarks.measure import Contestant, Unavailable, one_line
from benchmarks.peers import Loop, importable, module_of_file
from jaxenv._util.library import default_types
from jaxenv.training import ued

ID = "AMaze-13x13-v0"
LEVELS = ("new", "replayed")
SIZE, LIMIT, WALLS, TRAINED_WALLS = 13, 250, 60, 25
# jaxued's settings, the defaults, but for the fill of the buffer: levels are replayed from the second update on.
CONFIG = ued.Config(fill=1e-3, num_eval_episodes=1, max_eval_steps=1)
# The settings of maze_plr.py that no field of `ued.Config` has; these are its defaults.
_ONLY_JAXUED = {
    "mode": "train",
    "seed": 0,
    "run_name": "",
    "checkpoint_save_interval": 0,
    "exploratory_grad_updates": False,
    "use_accel": False,
    "buffer_duplicate_check": True,
    "prioritization": "rank",
    "topk_k": 4,
    "score_function": "MaxMC",
    "agent_view_size": 5,
    "n_walls": TRAINED_WALLS,
    "eval_levels": ["Labyrinth"],
    "eval_num_attempts": 1,
}

Update = Callable[[Any], tuple[Any, Any]]  # one update of a run: maps its state to the next one, and what it records


# === This library ====================================================================================================


def ours_rollout(levels: str, num_envs: int, num_steps: int) -> Contestant:
    """Runs the maze in new levels, or every lane in one level."""
    env = jaxenv.make(ID, num_envs=num_envs)
    if levels == "replayed":
        env = env.with_level(jaxenv.sample_level(env, jax.random.key(0)))
    return own_rollouts.rollout("jaxenv", env, num_steps)


def ours_plr(levels: str, num_updates: int) -> tuple[Any, Update]:
    """Returns a run before its first update, and the update, which a single step of an evaluation follows."""
    config = dataclasses.replace(
        CONFIG,
        replay_probability=float(levels == "replayed"),
        total_steps=num_updates * CONFIG.rows_per_update,
        num_evaluations=num_updates,
    )
    train = ued.make_train(config)
    return jax.jit(train.init)(jax.random.key(0), {}), train.iteration


# === jaxued ==========================================================================================================


def jaxued_rollout(path: pathlib.Path, levels: str, num_envs: int, num_steps: int) -> Contestant:
    """Runs jaxued's maze as its users do: ``AutoResetWrapper`` or ``AutoReplayWrapper`` under ``vmap``."""
    sys.path.insert(0, str(path / "src"))
    from jaxued import wrappers
    from jaxued.environments import maze

    inner, sample_level = maze.Maze(SIZE, SIZE), maze.make_level_generator(SIZE, SIZE, WALLS)
    env = wrappers.AutoResetWrapper(inner, sample_level) if levels == "new" else wrappers.AutoReplayWrapper(inner)
    params = inner.default_params

    def start(keys):
        return jax.vmap(env.reset_to_level, (0, 0, None))(keys, jax.vmap(sample_level)(keys), params)[1]

    def step(keys, state, action):
        return jax.vmap(env.step, (0, 0, 0, None))(keys, state, action, params)

    return _rollout("jaxued", start, step, num_envs, num_steps)


def jaxued_plr(path: pathlib.Path, levels: str, num_updates: int) -> tuple[Any, Update]:
    """Takes state and update from ``main`` of jaxued's ``examples/maze_plr.py``, unchanged, without its logger."""
    sys.path.insert(0, str(path / "src"))
    settings = {
        "num_updates": num_updates,
        "eval_freq": num_updates + 1,
        "num_train_envs": CONFIG.num_envs,
        "num_steps": CONFIG.num_steps,
        "epoch_ppo": CONFIG.num_epochs,
        "num_minibatches": CONFIG.num_minibatches,
        "lr": CONFIG.learning_rate,
        "gamma": CONFIG.gamma,
        "gae_lambda": CONFIG.lambda_,
        "clip_eps": CONFIG.clip,
        "entropy_coeff": CONFIG.entropy_cost,
        "critic_coeff": CONFIG.value_cost,
        "max_grad_norm": CONFIG.max_gradient_norm,
        "level_buffer_capacity": CONFIG.capacity,
        "minimum_fill_ratio": CONFIG.fill,
        "replay_prob": float(levels == "replayed"),
        "staleness_coeff": CONFIG.staleness,
        "temperature": CONFIG.temperature,
        "num_edits": CONFIG.num_edits,
        **_ONLY_JAXUED,
    }
    jitted: dict[str, Any] = {}

    def jit(function, **options):
        jitted[function.__name__] = function
        return jax.jit(function, **options)

    unused = dict.fromkeys(("orbax", "orbax.checkpoint"), mock.MagicMock())
    with importable({"wandb": mock.MagicMock(config=settings), **unused}):
        module = module_of_file(path / "examples" / "maze_plr.py")
        module.jax = types.SimpleNamespace(**{**vars(jax), "jit": jit})
        train_state = module.main(settings)  # no update: the first evaluation would come after the last one
    # The function that main compiles runs many updates and an evaluation; this is its update.
    train_step = inspect.getclosurevars(jitted["train_and_eval_step"]).nonlocals["train_step"]
    return (jax.random.PRNGKey(0), train_state), lambda carry: train_step(carry, None)


# === minimax =========================================================================================================


def minimax_rollout(path: pathlib.Path, levels: str, num_envs: int, num_steps: int) -> Contestant:
    """Runs minimax's maze as its runners do: ``step`` restarts a lane in a new level or in a given state."""
    _import_minimax(path)
    from minimax.envs import maze

    env = maze.Maze(SIZE, SIZE, n_walls=WALLS, replace_wall_pos=True, max_episode_steps=LIMIT)

    def start(keys):
        state = jax.vmap(env.reset)(keys)[1]
        return state, state

    def step(keys, states, action):
        def one(key, state, action, first):
            return env.step(key, state, action, True, first if levels == "replayed" else None)

        state, first = states
        observation, state, *ends = jax.vmap(one)(keys, state, action, first)
        return observation, (state, first), *ends

    return _rollout("minimax", start, step, num_envs, num_steps)


def minimax_plr(path: pathlib.Path, levels: str, num_updates: int) -> tuple[Any, Update]:
    """Runs minimax's ``PLRRunner`` with the settings of its ``maze/plr.json`` that are not those of `ued.Config`."""
    _import_minimax(path)
    from minimax import models
    from minimax.agents import PPOAgent
    from minimax.runners.plr_runner import PLRRunner

    model = models.make(
        "Maze",
        "default_student_cnn",
        output_dim=7,
        hidden_dim=CONFIG.hidden[0],
        recurrent_arch="lstm",
        recurrent_hidden_dim=CONFIG.recurrent,
    )
    agent = PPOAgent(model, entropy_coef=CONFIG.entropy_cost, n_unroll_update=5)
    runner = PLRRunner(
        env_name="Maze",
        env_kwargs={
            "height": SIZE,
            "width": SIZE,
            "n_walls": TRAINED_WALLS,
            "replace_wall_pos": True,
            "normalize_obs": True,
        },
        student_agents=[agent],
        n_parallel=CONFIG.num_envs,
        n_rollout_steps=CONFIG.num_steps,
        lr=CONFIG.learning_rate,
        discount=CONFIG.gamma,
        gae_lambda=CONFIG.lambda_,
        replay_prob=float(levels == "replayed"),
        buffer_size=CONFIG.capacity,
        staleness_coef=CONFIG.staleness,
        temp=CONFIG.temperature,
        min_fill_ratio=CONFIG.fill,
        use_robust_plr=True,
        ued_score="max_mc",
        force_unique=True,
    )

    def update(state):
        recorded, *state = runner.run(*state)
        return tuple(state), recorded

    return runner.reset(jax.random.PRNGKey(0)), update


def _import_minimax(path: pathlib.Path) -> None:
    """Makes minimax's modules importable, without the ``__init__`` of packages that import its command line."""
    for name in ("minimax", "minimax.util", "minimax.runners"):
        if name not in sys.modules:
            sys.modules[name] = types.ModuleType(name)
            sys.modules[name].__path__ = [str(path / "src" / name.replace(".", "/"))]
    for name, value in (("tree_map", jax.tree.map), ("jax", jax)):  # names of older versions of JAX, which minimax uses
        if not hasattr(jax, name):
            setattr(jax, name, value)


# === All =============================================================================================================


def _rollout(name: str, start: Callable, step: Callable, num_envs: int, num_steps: int) -> Contestant:
    """Returns a rollout of a library that has untyped keys, and one flag for all ends."""

    def reset(keys):
        return start(jax.random.key_data(keys))

    def advance(state, action, keys):
        observation, state, reward, done, _ = step(jax.random.key_data(keys), state, action)
        return state, (observation, reward, done, jnp.zeros_like(done))

    def sample(state, key):
        return jax.random.randint(key, (num_envs,), 0, 7)

    return Loop(reset, advance, sample).contestant(name, num_envs, num_steps)


def _sides(args: argparse.Namespace, ours: Callable, jaxued: Callable, minimax: Callable) -> Iterator[tuple[str, Any]]:
    """Makes the sides of one row, those of a peer only where its path is given."""
    yield "jaxenv", ours()
    for name, make, path in (("jaxued", jaxued, args.jaxued), ("minimax", minimax, args.minimax)):
        if path is not None:
            try:
                with default_types():
                    made = make(path)
            except (ImportError, OSError) as error:
                raise Unavailable(f"{name} cannot be imported from {path}: {one_line(error)}") from None
            yield name, made


def compare_rollouts(levels: str, num_envs: int, args: argparse.Namespace) -> dict[str, Any]:
    """Steps a second at random, as a row of the result file."""
    sizes = (levels, num_envs, args.num_steps)
    peers = (
        functools.partial(lambda make, path: make(path, *sizes), make) for make in (jaxued_rollout, minimax_rollout)
    )
    sides = [side for _, side in _sides(args, lambda: ours_rollout(*sizes), *peers)]
    row = {"part": "rollout", "levels": levels, "num_envs": num_envs, "num_steps": args.num_steps}
    return row | measure.compared(sides, (), args.repeats)


def compare_updates(levels: str, args: argparse.Namespace) -> dict[str, Any]:
    """Seconds of one update of robust PLR on new or on replayed levels, as a row of the result file."""
    num_updates = args.repeats + 3
    made = _sides(
        args,
        lambda: ours_plr(levels, num_updates),
        lambda path: jaxued_plr(path, levels, num_updates),
        lambda path: minimax_plr(path, levels, num_updates),
    )
    runs: dict[str, Callable[[int], Any]] = {}
    for name, (state, update) in made:
        compiled, carried = jax.jit(update), [state]
        with default_types():
            carried[0], _ = compiled(state)  # new levels, which the next update may replay

        def run(_: int, compiled=compiled, carried=carried) -> None:
            with default_types():
                carried[0], _ = jax.block_until_ready(compiled(carried[0]))

        runs[name] = run
    found = measure.sides(measure.time_interleaved(runs, args.repeats), 1, "updates_per_second")
    sizes = {"part": "update", "levels": levels, "num_envs": CONFIG.num_envs, "num_steps": CONFIG.num_steps}
    return sizes | {"contestants": found, "ratios": measure.ratios(found, "updates_per_second")}


def report(rows: Sequence[dict[str, Any]], args: argparse.Namespace) -> str:
    """Formats the results as an aligned table."""
    peers = list(dict.fromkeys(name for row in rows for name in row["ratios"]))

    def rate(name: str) -> Callable[[Any], str]:
        def cell(row: dict[str, Any]) -> str:
            side = row["contestants"][name]
            return f"{side.get('steps_per_second', 0) / 1e6 or side['updates_per_second']:.3g}"

        return cell

    found = [column for name in peers for column in ((name, rate(name)), ("ratio", tables.ratio(name)))]
    names = (("part", "part"), ("levels", "levels"), ("lanes", "num_envs"))
    title = "Million random steps, or updates of robust PLR, per second; ratio: how many times faster jaxenv is."
    return f"{title}\n{tables.columns(rows, *names, ('jaxenv', rate('jaxenv')), *found)}"


def options(parser: command.Parser) -> None:
    """Adds the options."""
    parts = ["rollout", "update"]
    parser.add_argument("--parts", nargs="+", choices=parts, default=parts, help="parts")
    parser.add_argument("--levels", nargs="+", choices=LEVELS, default=list(LEVELS), help="levels that are played")
    parser.add_argument("--jaxued", type=command.folder, metavar="PATH", help="a clone of DramaCow/jaxued")
    parser.add_argument("--minimax", type=command.folder, metavar="PATH", help="a clone of facebookresearch/minimax")
    parser.add_sizes(num_envs=[2048], num_steps=256, steps="steps of each lane of a rollout")


def rows(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Compares rollouts, for every number of lanes, and updates."""
    for part, levels in itertools.product(args.parts, args.levels):
        if part == "update":
            yield compare_updates(levels, args)
            continue
        for num_envs in args.num_envs:
            yield compare_rollouts(levels, num_envs, args)
