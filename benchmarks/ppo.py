"""PPO from end to end, compared with purejaxrl's PPO on gymnax: the same network, batch, epochs and settings.

``python -m benchmarks ppo --ids CartPole-v1 --num-envs 4 64``. See README.md.
"""

import argparse
import itertools
import pathlib
import time
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

import jax
import numpy as np

import jaxenv
from benchmarks import command, measure, tables, training
from benchmarks.measure import Unavailable
from benchmarks.peers import importable, module_of_file
from jaxenv._util.library import default_types
from jaxenv.training import ppo

DEFAULT_ROWS = (
    ("CartPole-v1", 4),
    ("CartPole-v1", 64),
    ("Breakout-MinAtar", 64),
    ("SpaceInvaders-MinAtar", 64),
    ("Asterix-MinAtar", 64),
)
_EVALUATIONS = 10  # the return of the last tenth of a run counts
_SOURCE = pathlib.Path(__file__).parents[1] / "tests" / "clients" / "purejaxrl"
# What wrappers.py imports for wrappers that ppo.py does not use.
_UNUSED = ("brax", "brax.envs", "brax.envs.wrappers", "brax.envs.wrappers.training", "navix")
# The settings of purejaxrl's ppo.py.
_SHARED = {"num_steps": 128, "num_epochs": 4, "num_minibatches": 4, "learning_rate": 2.5e-4, "gamma": 0.99}
_SHARED |= {"lambda_": 0.95, "clip": 0.2, "entropy_cost": 0.01, "value_cost": 0.5, "max_gradient_norm": 0.5}
_SHARED |= {"clip_value": True}  # it has no switch there
# Settings that both sides change together. One pass: a single gradient step on all rows of an update.
RECIPES: dict[str, dict[str, Any]] = {"purejaxrl": {}, "one pass": {"num_epochs": 1, "num_minibatches": 1}}


def whole_updates(num_envs: int, total_steps: int) -> int:
    """Rounds down to steps that are the same number of updates on both sides.

    Ours runs equally many before each evaluation, at least one.
    """
    rows = num_envs * _SHARED["num_steps"] * _EVALUATIONS
    return max(total_steps // rows, 1) * rows


def ours(id: str, num_envs: int, total_steps: int, recipe: str = "purejaxrl") -> Callable:
    """Returns this library's PPO as a function of a key, which returns the mean return of its last episodes.

    On both sides it is NaN if no episode ended.
    """
    config = ppo.Config(
        env_id=id,
        env_options=_rules_of_gymnax(id),
        num_envs=num_envs,
        total_steps=total_steps,
        torso="mlp",
        num_evaluations=_EVALUATIONS,
        num_eval_episodes=1,
        max_eval_steps=1,  # purejaxrl does not evaluate
        **(_SHARED | RECIPES[recipe]),
    )
    train = ppo.make_train(config)
    return lambda key: jax.tree.map(lambda x: x[-1], train(key)[1].train["return_mean"])


def _rules_of_gymnax(id: str) -> dict[str, Any]:
    """Returns the options that give a game of MinAtar gymnax's rules; none for other ids."""
    published = training.PUBLISHED.get((id, "ppo"), ())
    return next((table.options for table in published if table.source == "gymnax-blines" and table.options), {})


def theirs(id: str, num_envs: int, total_steps: int, recipe: str = "purejaxrl") -> Callable:
    """Returns purejaxrl's PPO on gymnax, unchanged, as a function of a key.

    Raises:
        Unavailable: without its libraries, or an id that gymnax lacks.
    """
    shared = _SHARED | RECIPES[recipe]
    config = {
        "LR": shared["learning_rate"],
        "NUM_ENVS": num_envs,
        "NUM_STEPS": shared["num_steps"],
        "TOTAL_TIMESTEPS": total_steps,
        "UPDATE_EPOCHS": shared["num_epochs"],
        "NUM_MINIBATCHES": shared["num_minibatches"],
        "GAMMA": shared["gamma"],
        "GAE_LAMBDA": shared["lambda_"],
        "CLIP_EPS": shared["clip"],
        "ENT_COEF": shared["entropy_cost"],
        "VF_COEF": shared["value_cost"],
        "MAX_GRAD_NORM": shared["max_gradient_norm"],
        "ACTIVATION": "tanh",
        "ENV_NAME": id,
        "ANNEAL_LR": True,
    }
    try:
        with default_types():
            with importable(dict.fromkeys(_UNUSED, mock.MagicMock())):
                wrappers = module_of_file(_SOURCE / "wrappers.py")
            with importable({"wrappers": wrappers}):
                module = module_of_file(_SOURCE / "ppo.py")
            module.gymnax = types.SimpleNamespace(make=_make)
            train = module.make_train(config)
    except (ImportError, ValueError) as error:
        raise Unavailable(f"purejaxrl: {error}") from None

    def run(key):
        metrics = train(key)["metrics"]
        ended = metrics["returned_episode"]
        last = ended.shape[0] * 9 // 10
        returns = jax.numpy.where(ended, metrics["returned_episode_returns"], 0.0)[last:]
        return returns.sum() / ended[last:].sum()

    return run


def _make(id: str) -> tuple[Any, Any]:
    """Makes gymnax's environment with the step that purejaxrl expects, from before gymnax 1.0: one flag ``done``."""
    import gymnax

    env, params = gymnax.make(id)

    class Env(type(env)):
        def step(self, *args):
            observation, state, reward, terminated, truncated, info = super().step(*args)
            return observation, state, reward, terminated | truncated, info

    env.__class__ = Env
    return env, params


def compare(id: str, num_envs: int, total_steps: int, repeats: int, recipe: str = "purejaxrl") -> dict[str, Any]:
    """Runs both sides of one row by one of the `RECIPES`, interleaved, and returns a row of the result file."""
    total_steps = whole_updates(num_envs, total_steps)
    runs: dict[str, Callable] = {}
    compiling, notes = {}, []
    for name, make, key in (("jaxenv", ours, jax.random.key), ("purejaxrl", theirs, jax.random.PRNGKey)):
        try:
            train = make(id, num_envs, total_steps, recipe)
        except Unavailable as error:
            notes.append(str(error))
            continue
        with default_types():
            started = time.perf_counter()
            compiled = jax.jit(train).lower(key(0)).compile()
            compiling[name] = time.perf_counter() - started
        runs[name] = lambda seed, compiled=compiled, key=key: float(compiled(key(seed)))
    timed = measure.time_interleaved(runs, repeats)
    sides = measure.sides(timed, total_steps, "steps_per_second")
    for name, side in sides.items():
        side |= {"return": [value for _, value in timed[name]], "compile_seconds": compiling[name]}
    sizes = {"id": id, "num_envs": num_envs, "total_steps": total_steps, "recipe": recipe}
    return sizes | {"contestants": sides, "ratios": measure.ratios(sides), "notes": notes}


def report(rows: Sequence[dict[str, Any]], args: argparse.Namespace) -> str:
    """Formats the results as an aligned table."""
    sides, found = ("jaxenv", "purejaxrl"), []
    for name in sides:
        found.append(("compile s", tables.side(name, "compile_seconds", "{:.1f}".format)))
        found.append(("return", tables.side(name, "return", lambda x: f"{np.mean(x):.1f}")))
    shown = tables.columns(
        rows,
        ("id", "id"),
        ("lanes", "num_envs"),
        *((name, tables.side(name, text=lambda rate: f"{rate / 1e3:.0f}")) for name in sides),
        ("ratio", tables.ratio("purejaxrl", ".2f")),
        *found,
    )
    title = "Thousand environment steps per second of whole training runs; the return of the last tenth of the run."
    return "\n".join([title, shown, *tables.notes(rows)])


def _id(text: str) -> str:
    """Checks that an id is registered and has one integer as action, as purejaxrl's ppo.py does."""
    spec = jaxenv.make(command.id(text), 1).action_spec()
    if not isinstance(spec, jaxenv.specs.Bounded) or not spec.is_discrete or spec.shape:
        raise argparse.ArgumentTypeError(f"must have one integer as action, as purejaxrl's PPO, got {text!r}")
    return text


def options(parser: command.Parser) -> None:
    """Adds the options."""
    parser.add_ids(None, _id, "environments (default: five rows)")
    steps = "environment steps of a run, over all lanes, rounded down to tens of updates, at least ten"
    parser.add_sizes(num_envs=[64], num_steps=400_000, repeats=3, steps=steps)


def rows(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Compares every id and number of lanes."""
    for id, num_envs in itertools.product(args.ids, args.num_envs) if args.ids else DEFAULT_ROWS:
        yield compare(id, num_envs, args.num_steps, args.repeats)
