"""Time of one call of CartPole's step from a Python loop: `host`, the exports to Gymnasium, and Gymnasium itself."""

import argparse
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import gymnasium
import jax
import numpy as np

import jaxenv
from benchmarks import command, measure, tables
from jaxenv.interop import host, to_gymnasium, to_gymnasium_vector

_ID = "CartPole-v1"
# A loop: starts episodes for a seed, and takes an action to the observation, in NumPy.
Loop = tuple[Callable[[int], Any], Callable[[np.ndarray], np.ndarray]]


def _jitted(num_envs: int) -> Loop:
    env = jaxenv.make(_ID, num_envs)
    reset, step = jax.jit(env.reset), jax.jit(env.step, donate_argnums=0)
    state: Any = None

    def start(seed: int) -> None:
        nonlocal state
        state, _ = reset(jax.random.key(seed))

    def advance(action: np.ndarray) -> np.ndarray:
        nonlocal state
        state, timestep = step(state, action.astype(np.int32))
        return np.asarray(timestep.observation)

    return start, advance


def _host(num_envs: int) -> Loop:
    env = host(_ID, num_envs)
    return lambda seed: env.reset(seed=seed), lambda action: np.asarray(env.step(action).observation)


def _vector(envs: gymnasium.vector.VectorEnv) -> Loop:
    return lambda seed: envs.reset(seed=seed), lambda action: np.asarray(envs.step(action)[0])


def _single(env: gymnasium.Env) -> Loop:
    def advance(action: np.ndarray) -> np.ndarray:
        observation, _, terminated, truncated, _ = env.step(action[0])
        return env.reset()[0] if terminated or truncated else observation

    return lambda seed: env.reset(seed=seed), advance


def loops(num_envs: int) -> dict[str, Loop]:
    """Returns the loops by name; those over a single environment for one lane only."""
    found = {
        "jax.jit(env.step)": _jitted(num_envs),
        "host": _host(num_envs),
        "to_gymnasium_vector": _vector(to_gymnasium_vector(_ID, num_envs)),
        "to_gymnasium_vector, jax": _vector(to_gymnasium_vector(_ID, num_envs, arrays="jax")),
        "gymnasium, vector": _vector(
            gymnasium.make_vec(_ID, num_envs, vectorization_mode="vector_entry_point", max_episode_steps=500)
        ),
        "gymnasium, sync": _vector(gymnasium.make_vec(_ID, num_envs, vectorization_mode="sync")),
    }
    if num_envs == 1:
        found["to_gymnasium"] = _single(to_gymnasium(_ID))
        found["gymnasium"] = _single(gymnasium.make(_ID))
    return found


def compare(num_envs: int, num_steps: int, repeats: int) -> dict[str, Any]:
    """Runs all loops, interleaved, and returns a row of the result file."""
    actions = np.random.default_rng(0).integers(2, size=(num_steps, num_envs))
    runs = {name: _run(loop, actions) for name, loop in loops(num_envs).items()}
    timed = {name: [s for _, s in t] for name, t in measure.time_interleaved(runs, repeats).items()}
    microseconds = {name: 1e6 * statistics.median(seconds) / num_steps for name, seconds in timed.items()}
    return {
        "id": _ID,
        "num_envs": num_envs,
        "num_steps": num_steps,
        "contestants": {
            name: {
                "microseconds_per_call": microseconds[name],
                "steps_per_second": 1e6 * num_envs / microseconds[name],
                "seconds": seconds,
            }
            for name, seconds in timed.items()
        },
        "notes": [],
    }


def _run(loop: Loop, actions: np.ndarray) -> Callable[[int], float]:
    """Returns a run that makes all steps and returns their seconds, without the reset."""
    start, advance = loop

    def run(seed: int) -> float:
        start(seed)
        started = time.perf_counter()
        for action in actions:
            advance(action)
        return time.perf_counter() - started

    return run


def report(rows: Sequence[dict[str, Any]], args: argparse.Namespace) -> str:
    """Formats the results as an aligned table."""
    names = list(dict.fromkeys(name for row in rows for name in row["contestants"]))

    def cells(entry: str, text: Callable[[Any], str]) -> list[tuple[str, Callable[[str], str]]]:
        column = [(f"{row['num_envs']} lanes", row["contestants"]) for row in rows]
        return [(title, lambda name, sides=sides: text(sides[name][entry])) for title, sides in column]

    times = cells("microseconds_per_call", "{:.1f}".format)
    shown = tables.columns(names, ("loop", str), *times, *cells("steps_per_second", tables.millions))
    title = f"{_ID} from Python, each observation read: microseconds per call, then million steps per second."
    return f"{title}\n{shown}"


def options(parser: command.Parser) -> None:
    """Adds the options."""
    parser.add_sizes(num_envs=[1, 64, 1024], num_steps=500)


def rows(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Compares the loops for every number of lanes."""
    for num_envs in args.num_envs:
        yield compare(num_envs, args.num_steps, args.repeats)
