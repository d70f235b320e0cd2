"""Trainers that vmap one lane: `to_gymnax` compared with this library's own batched loop and with gymnax.

``python -m benchmarks to_gymnax --ids CartPole-v1 --num-envs 64 2048``. See README.md.
"""

import argparse
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp

import jaxenv
from benchmarks import command, measure
from benchmarks.measure import Contestant, Row, jax_contestant
from benchmarks.ours import default_num_steps, rollout
from benchmarks.peers import gymnax_env
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
    """Runs one id on all sides, interleaved; the ratios divide the speed of ``to_gymnax`` by the other side's."""
    env = jaxenv.make(id, num_envs, autoreset="same_step")
    one_lane = to_gymnax(id)
    sides, notes = measure.available(
        lambda: _vmapped("to_gymnax", one_lane, one_lane.default_params, env, num_steps),
        lambda: rollout("jaxenv", env, num_steps),
        lambda: _batched(env, num_steps),
        lambda: _vmapped("gymnax", *gymnax_env(id), env, num_steps),
    )
    return {"id": id, "num_envs": num_envs, "num_steps": num_steps} | measure.compared(sides, notes, repeats)


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


def report(rows: Sequence[dict[str, Any]], args: argparse.Namespace) -> str:
    """Formats the results as an aligned table, with the geometric means of the ratios for each number of lanes."""
    others = [(f"of {side.removeprefix('jaxenv, ')}", side) for side in SIDES if side != "to_gymnax"]
    forms = {side: ".1f" if side == "gymnax" else ".0%" for side in SIDES}
    shown = measure.columns(
        [*rows, *measure.means(rows)],
        ("id", "id"),
        ("lanes", "num_envs"),
        *((side, measure.side(side)) for side in SIDES),
        *((title, measure.ratio(side, forms[side])) for title, side in others),
    )
    title = "Million environment steps per second; the last columns compare to_gymnax with each other side."
    return "\n".join([title, shown, *measure.notes(rows)])


def options(parser: command.Parser) -> None:
    """Adds the options."""
    parser.add_ids(DEFAULT_IDS)
    parser.add_sizes(num_envs=[64, 2048, 16384], num_steps=None)


def rows(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Compares every id and number of lanes."""
    for id, num_envs in itertools.product(args.ids, args.num_envs):
        yield compare(id, num_envs, args.num_steps or default_num_steps(id, num_envs), args.repeats)
