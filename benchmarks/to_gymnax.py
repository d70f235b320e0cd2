"""Trainers that vmap one lane: `to_gymnax` compared with this library's own batched loop and with gymnax.

``python -m benchmarks to_gymnax --ids CartPole-v1 --num-envs 64 2048``. See README.md.
"""

import argparse
import statistics
import sys
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

import jaxenv
from benchmarks import command, measure
from benchmarks.measure import Contestant, Row, jax_contestant
from benchmarks.ours import default_num_steps, rollout
from benchmarks.peers import Unavailable, gymnax_env
from jaxenv import specs
from jaxenv.interop import to_gymnax

DEFAULT_IDS = (
    "CartPole-v1",
    "MountainCar-v0",
    "MountainCarContinuous-v0",
    "Pendulum-v1",
    "Acrobot-v1",
    "Asterix-MinAtar",
    "Breakout-MinAtar",
    "Catch-bsuite",
    "DeepSea-bsuite",
)
SIDES = ("jaxenv", "jaxenv, split keys", "to_gymnax", "gymnax")


def compare(id: str, num_envs: int, num_steps: int, repeats: int) -> dict[str, Any]:
    """Runs one id at one number of lanes on all sides, interleaved.

    Returns:
        A row of the result file. The ratios divide the speed of ``to_gymnax`` by the other side's.
    """
    env = jaxenv.make(id, num_envs, autoreset="same_step")
    sides = [rollout("jaxenv", env, num_steps), _batched(env, num_steps)]
    one_lane, notes = to_gymnax(id), []
    sides.append(_vmapped("to_gymnax", one_lane, one_lane.default_params, env, num_steps))
    try:
        sides.append(_vmapped("gymnax", *gymnax_env(id), env, num_steps))
    except Unavailable as error:
        notes.append(str(error))
    samples = measure.sample_interleaved(sides, repeats)
    rates = {name: measure.steps_per_second(s) for name, s in samples.items()}
    return {
        "id": id,
        "num_envs": num_envs,
        "num_steps": num_steps,
        "contestants": {side.name: measure.summary(side, samples[side.name]) for side in sides},
        "ratios": {name: rates["to_gymnax"] / rate for name, rate in rates.items() if name != "to_gymnax"},
        "notes": notes,
    }


def _batched(env: jaxenv.Environment, num_steps: int) -> Contestant:
    """Runs the trainer's loop over a batched environment, which does not need the keys that the trainer splits."""

    def step(keys, state, action):
        state, t = env.step(state, action)
        # A bit of each key is added to the reward. Without it, the compiler would not compute the keys.
        words = jax.random.key_data(keys)
        reward = t.reward + ((words[:, 0] ^ words[:, 1]) & 1).astype(t.reward.dtype)
        return state, Row(t.observation, action, reward, t.terminated, t.truncated, jnp.ones_like(t.terminated))

    return _trainer("jaxenv, split keys", lambda keys: env.reset(keys)[0], step, env, num_steps)


def _vmapped(name: str, one_lane: Any, params: Any, env: jaxenv.Environment, num_steps: int) -> Contestant:
    """Runs the trainer's loop over an environment with gymnax's methods."""
    reset, advance = jax.vmap(one_lane.reset, (0, None)), jax.vmap(one_lane.step, (0, 0, 0, None))

    def step(keys, state, action):
        observation, state, reward, terminated, truncated, _ = advance(keys, state, action, params)
        return state, Row(observation, action, reward, terminated, truncated, jnp.ones_like(terminated))

    return _trainer(name, lambda keys: reset(keys, params)[1], step, env, num_steps)


def _trainer(name: str, reset: Callable, step: Callable, env: jaxenv.Environment, num_steps: int) -> Contestant:
    """Splits keys as PureJaxRL does: one for the actions of all lanes, and one for every lane's step."""
    spec, num_envs = env.action_spec(), env.num_envs

    def act(key):
        key, key_action = jax.random.split(key)
        return key, specs.sample(spec, key_action, num_envs)

    def start(key):
        key, key_reset = jax.random.split(key)
        return reset(jax.random.split(key_reset, num_envs)), *act(key)

    def advance(carry):
        # The action is carried, as in the rollout of this library.
        state, key, action = carry
        key, key_step = jax.random.split(key)
        state, row = step(jax.random.split(key_step, num_envs), state, action)
        return (state, *act(key)), row

    return jax_contestant(name, start, advance, num_envs, num_steps, store=False)


def report(rows: Sequence[dict[str, Any]]) -> str:
    """Formats the results as an aligned table, with the geometric means of the ratios for each number of lanes."""
    header = ["id", "lanes", *SIDES, "of jaxenv", "of split keys", "of gymnax"]
    others = [side for side in SIDES if side != "to_gymnax"]
    lines = []
    for row in rows:
        results, ratios = row["contestants"], row["ratios"]
        rates = [measure.millions(results[s]["steps_per_second"]) if s in results else "-" for s in SIDES]
        shares = [_ratio(side, ratios[side]) if side in ratios else "-" for side in others]
        lines.append([row["id"], str(row["num_envs"]), *rates, *shares])
    for lanes in sorted({row["num_envs"] for row in rows}):
        means = []
        for side in others:
            ratios = [row["ratios"][side] for row in rows if row["num_envs"] == lanes and side in row["ratios"]]
            means.append(_ratio(side, statistics.geometric_mean(ratios)) if ratios else "-")
        lines.append(["geometric mean", str(lanes), *[""] * len(SIDES), *means])
    title = "Million environment steps per second; the last columns compare to_gymnax with each other side."
    return "\n".join([title, measure.table(header, lines), *measure.notes(rows)])


def _ratio(side: str, ratio: float) -> str:
    return f"{ratio:.1f}x" if side == "gymnax" else f"{ratio:.0%}"


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parses the settings; an invalid one ends the program with status 2 and a one-line message."""
    parser = command.Parser("to_gymnax", __doc__)
    parser.add_argument("--ids", nargs="+", type=command.id, default=list(DEFAULT_IDS), metavar="ID", help="ids to run")
    parser.add_sizes(num_envs=[64, 2048, 16384], num_steps=None)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the comparison, prints the table and writes the file."""
    args, rows = parse(arguments), []
    for id in args.ids:
        for num_envs in args.num_envs:
            print(f"{id}, {num_envs} lanes ...", file=sys.stderr)
            num_steps = args.num_steps or default_num_steps(id, num_envs)
            rows.append(compare(id, num_envs, num_steps, args.repeats))
    return command.finish("to_gymnax", args, rows, report, repeats=args.repeats, policy="random", autoreset="same_step")
