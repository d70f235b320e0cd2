"""Environments of other libraries, run by this library and by their own wrappers; and native ids of the same name.

``python -m benchmarks libraries --ids jumanji:Snake-v1 brax:ant --num-envs 64``. See README.md.
"""

import argparse
import functools
import itertools
import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxenv
from benchmarks import command, measure, ours, peers
from benchmarks.measure import Contestant, Row, jax_contestant
from benchmarks.peers import Unavailable
from jaxenv.cli._arguments import add_assignments, assignment, one_line

DEFAULT_IDS = (
    *("gymnax:CartPole-v1", "gymnax:Breakout-MinAtar"),
    *("jumanji:RubiksCube-v0", "jumanji:Maze-v0", "jumanji:Snake-v1"),
    "brax:ant",
    *("xminigrid:MiniGrid-EmptyRandom-5x5", "xminigrid:MiniGrid-DoorKey-5x5"),
    *("navix:Navix-Empty-Random-5x5-v0", "navix:Navix-DoorKey-5x5-v0"),
    "craftax:Craftax-Classic-Symbolic-v1",
    *("gymnasium:HalfCheetah-v5", "envpool:HalfCheetah-v5"),
)
# Native ids of the same task.
NATIVE = {
    "gymnax:CartPole-v1": "CartPole-v1",
    "gymnax:Breakout-MinAtar": "Breakout-MinAtar",
    "xminigrid:MiniGrid-EmptyRandom-5x5": "MiniGrid-Empty-Random-5x5-v0",
    "xminigrid:MiniGrid-DoorKey-5x5": "MiniGrid-DoorKey-5x5-v0",
    "xminigrid:MiniGrid-Unlock": "MiniGrid-Unlock-v0",
    "xminigrid:MiniGrid-UnlockPickUp": "MiniGrid-UnlockPickup-v0",
    "xminigrid:MiniGrid-BlockedUnlockPickUp": "MiniGrid-BlockedUnlockPickup-v0",
    "xminigrid:MiniGrid-LockedRoom": "MiniGrid-LockedRoom-v0",
    "navix:Navix-Empty-Random-5x5-v0": "MiniGrid-Empty-Random-5x5-v0",
    "navix:Navix-DoorKey-5x5-v0": "MiniGrid-DoorKey-5x5-v0",
    "navix:Navix-GoToDoor-5x5-v0": "MiniGrid-GoToDoor-5x5-v0",
    "navix:Navix-KeyCorridorS3R3-v0": "MiniGrid-KeyCorridorS3R3-v0",
    "navix:Navix-SimpleCrossingS9N1-v0": "MiniGrid-SimpleCrossingS9N1-v0",
    "navix:Navix-Dynamic-Obstacles-5x5-v0": "MiniGrid-Dynamic-Obstacles-5x5-v0",
    # EnvPool keeps MiniGrid's ids.
    **{f"envpool:{id}": id for id in jaxenv.ids() if id.startswith("MiniGrid-")},
}
# A loop as a suite's own users write it: the state for keys [B], the state after a step, the results of a step as
# (observation, reward, terminated, truncated, is_step), and the random actions for a state and keys [B].
Loop = tuple[Callable, Callable, Callable, Callable]


def gymnax(name: str, options: dict[str, Any]) -> Loop:
    """Runs gymnax's ``step`` under ``vmap``; it restarts lanes itself."""
    import gymnax

    return _like_gymnax(*gymnax.make(name, **options))


def craftax(name: str, options: dict[str, Any]) -> Loop:
    """Runs the ``step`` of Craftax's environments with automatic restarts under ``vmap``."""
    from craftax.craftax_env import make_craftax_env_from_name

    env = make_craftax_env_from_name(name, auto_reset=True, **options)
    return _like_gymnax(env, env.default_params)


def _like_gymnax(env: Any, params: Any) -> Loop:
    def reset(keys):
        observation, state = jax.vmap(env.reset, in_axes=(0, None))(keys, params)
        zeros = jnp.zeros(keys.shape[0])
        return state, (observation, zeros, zeros.astype(bool), zeros.astype(bool))

    def step(state, action, keys):
        found = jax.vmap(env.step, in_axes=(0, 0, 0, None))(keys, state[0], action, params)
        observation, state, reward, *ends = found[:-1]  # gymnax separates truncations, Craftax does not
        return state, (observation, reward, ends[0], ends[1] if len(ends) > 1 else jnp.zeros_like(ends[0]))

    sample = jax.vmap(env.action_space(params).sample)
    return reset, step, lambda state: (*state[1], _all_steps(state[1][2])), lambda state, keys: sample(keys)


def jumanji(name: str, options: dict[str, Any]) -> Loop:
    """Runs Jumanji's ``VmapAutoResetWrapper``: a lane restarts in the step that ends it; actions obey the masks."""
    import jumanji
    from jumanji.wrappers import VmapAutoResetWrapper

    env = VmapAutoResetWrapper(jumanji.make(name, **options))
    spec = env.action_spec

    def read(state):
        timestep = state[1]
        return timestep.observation, timestep.reward, timestep.last(), jnp.zeros_like(timestep.last())

    def sample(state, keys):
        mask = getattr(state[1].observation, "action_mask", None)
        if mask is not None and mask.shape[1:] == (getattr(spec, "num_values", None),):
            return jax.vmap(lambda key, m: jax.random.categorical(key, jnp.where(m, 0.0, -jnp.inf)))(keys, mask)
        low, high = np.asarray(spec.minimum), np.asarray(spec.maximum)
        draw = jax.vmap(lambda key: jax.random.randint(key, spec.shape, low, high + 1, spec.dtype))
        return draw(keys)

    return (
        env.reset,
        lambda state, action, keys: env.step(state[0], action),
        lambda state: (*read(state), _all_steps(state[1].last())),
        sample,
    )


def brax(name: str, options: dict[str, Any]) -> Loop:
    """Runs the wrappers of Brax's trainers: a lane restarts in the step that ends it, from its first state."""
    from brax import envs
    from brax.envs.wrappers import training

    env = training.wrap(envs.get_environment(name, **options))

    def read(state):
        truncated = state.info["truncation"] > 0
        return state.obs, state.reward, (state.done > 0) & ~truncated, truncated, _all_steps(state.done)

    def sample(state, keys):
        return jax.vmap(lambda key: jax.random.uniform(key, (env.action_size,), minval=-1.0, maxval=1.0))(keys)

    return (
        lambda keys: env.reset(jax.random.key_data(keys)),  # Brax takes the number of lanes from the shape of the words
        lambda state, action, keys: env.step(state, action),
        read,
        sample,
    )


def xminigrid(name: str, options: dict[str, Any]) -> Loop:
    """Runs XLand-MiniGrid's ``GymAutoResetWrapper`` under ``vmap``."""
    import xminigrid
    from xminigrid.wrappers import GymAutoResetWrapper

    env, params = xminigrid.make(name, **options)
    env = GymAutoResetWrapper(env)
    num_actions = env.num_actions(params)
    return (
        jax.vmap(lambda key: env.reset(params, key)),
        lambda state, action, keys: jax.vmap(lambda t, a: env.step(params, t, a))(state, action),
        lambda t: (t.observation, t.reward, t.last() & (t.discount == 0), t.last() & (t.discount > 0), _all_steps(t)),
        lambda state, keys: jax.vmap(lambda key: jax.random.randint(key, (), 0, num_actions))(keys),
    )


def navix(name: str, options: dict[str, Any]) -> Loop:
    """Runs NAVIX's ``step`` under ``vmap``; it restarts lanes in the step after an end."""
    import navix

    env = navix.make(name, **options)

    def read(t):
        return t.observation, t.reward, t.step_type == 2, t.step_type == 1, t.t > 0

    return (
        jax.vmap(env.reset),
        lambda state, action, keys: jax.vmap(env.step)(state, action),
        read,
        lambda state, keys: jax.vmap(lambda key: jax.random.randint(key, (), 0, env.action_space.n))(keys),
    )


def gymnasium(name: str, options: dict[str, Any], num_envs: int, num_steps: int) -> Contestant:
    """Runs a Python loop over ``AsyncVectorEnv``, or over the engine that ``vectorization`` names."""
    import gymnasium

    env = gymnasium.make_vec(name, num_envs, **_mode_and_arguments(options))
    return peers.gymnasium_loop(env, num_envs, num_steps)


def _mode_and_arguments(options: dict[str, Any]) -> dict[str, Any]:
    """Translates the options of ``load`` to arguments of ``gymnasium.make_vec``."""
    arguments = {"vectorization": "async", **options}
    mode = arguments.pop("vectorization")
    return {"vectorization_mode": "vector_entry_point" if mode == "native" else mode, **arguments}


def envpool(name: str, options: dict[str, Any], num_envs: int, num_steps: int) -> Contestant:
    """Runs a Python loop over EnvPool's synchronous mode."""
    import envpool

    env = envpool.make(name, env_type="gymnasium", num_envs=num_envs, **options)
    return peers.envpool_loop(env, num_envs, num_steps)


def gxm(name: str, options: dict[str, Any], num_envs: int, num_steps: int) -> Contestant:
    """Runs gxm's adapter for Gymnasium: a ``pure_callback`` under ``vmap``, which JAX joins to one call per step."""
    import gxm

    env = gxm.make(f"Gymnasium/{name}", **_mode_and_arguments(options))
    sample = jax.vmap(env.action_space.sample)

    def start(key):
        key, key_reset, key_action = jax.random.split(key, 3)
        state, _ = jax.vmap(env.init)(jax.random.split(key_reset, num_envs))
        ended = jnp.zeros(num_envs, bool)
        return state, key, sample(jax.random.split(key_action, num_envs)), ended

    def step(carry):
        state, key, action, ended = carry
        key, key_step, key_action = jax.random.split(key, 3)
        state, t = jax.vmap(env.step)(jax.random.split(key_step, num_envs), state, action)
        row = Row(t.next_obs, action, t.reward, t.terminated, t.truncated, ~ended)
        return (state, key, sample(jax.random.split(key_action, num_envs)), t.terminated | t.truncated), row

    return jax_contestant("gxm", start, step, num_envs, num_steps, False)


SUITES = {f.__name__: f for f in (gymnax, craftax, jumanji, brax, xminigrid, navix)}
# Suites outside JAX.
HOSTS = {f.__name__: f for f in (gymnasium, envpool)}

NAMES = ("id", "options", "num_envs", "num_steps")


def _all_steps(state: Any) -> jax.Array:
    """Counts every row as a step, for lanes that restart within the step."""
    return jnp.ones(jax.tree.leaves(state)[0].shape[0], bool)


def library(id: str, num_envs: int, num_steps: int, options: dict[str, Any], store: bool = False) -> Contestant:
    """Runs the loop of the library's own users, with its own restarts.

    Raises:
        Unavailable: If the library is not installed.
    """
    name, _, own = id.partition(":")
    try:
        if name in HOSTS:
            return HOSTS[name](own, options, num_envs, num_steps)
        reset, advance, read, sample = SUITES[name](own, options)
    except ImportError as error:
        raise Unavailable(f"{name} cannot be imported: {one_line(error)}") from None

    def start(key):
        key, key_reset, key_action = jax.random.split(key, 3)
        state = reset(jax.random.split(key_reset, num_envs))
        return state, key, sample(state, jax.random.split(key_action, num_envs))

    def step(carry):
        # The action is carried, as in the rollout of this library.
        state, key, action = carry
        key, key_step, key_action = jax.random.split(key, 3)
        state = advance(state, action, jax.random.split(key_step, num_envs))
        observation, reward, terminated, truncated, is_step = read(state)
        row = Row(observation, action, reward, terminated, truncated, is_step)
        return (state, key, sample(state, jax.random.split(key_action, num_envs))), row

    return jax_contestant(name, start, step, num_envs, num_steps, store)


def compare(id: str, options: dict[str, Any], num_envs: int, num_steps: int, repeats: int) -> dict[str, Any]:
    """Runs all sides of one id, interleaved; the ratios are the other sides' speeds divided by the library's."""
    theirs, _, own = id.partition(":")
    env = jaxenv.make(id, num_envs=num_envs, **options)
    contestants = [ours.rollout("jaxenv", env, num_steps), library(id, num_envs, num_steps, options)]
    notes = []
    if id in NATIVE:
        contestants.append(ours.rollout("native", jaxenv.make(NATIVE[id], num_envs=num_envs), num_steps))
    elif theirs == "gymnasium":
        try:
            contestants.append(gxm(own, options, num_envs, num_steps))
        except ImportError as error:
            notes.append(f"gxm cannot be imported: {one_line(error)}")
    row = {"id": id, "options": options, "num_envs": num_envs, "num_steps": num_steps}
    row |= measure.compared(contestants, notes, repeats)
    env.close()
    rates = {name: side["steps_per_second"] for name, side in row["contestants"].items()}
    return row | {"ratios": {name: rate / rates[theirs] for name, rate in rates.items() if name != theirs}}


def report(rows: Sequence[dict[str, Any]], args: argparse.Namespace) -> str:
    """Formats the results as an aligned table, with geometric means of the ratios."""

    def named(row: dict[str, Any]) -> str:
        given = ", ".join(f"{name}={value}" for name, value in row["options"].items())
        return row["id"] + (f" ({given})" if given else "")

    def of(which: str, form: Callable[[str], Callable[[Any], str]]) -> Callable[[Any], str]:
        def cell(row: dict[str, Any]) -> str:
            theirs = row["id"].partition(":")[0]
            others = (name for name in row["contestants"] if name not in (theirs, "jaxenv"))
            return form({"library": theirs, "jaxenv": "jaxenv"}.get(which) or next(others))(row)

        return cell

    rate = functools.partial(measure.side, text=lambda x: f"{x / 1e3:.3g}")
    seconds = functools.partial(measure.side, entry="compile_seconds", text=lambda x: "-" if x is None else f"{x:.1f}")
    shown = measure.columns(
        [row for row in rows if row["contestants"]],
        ("id", named),
        ("lanes", "num_envs"),
        *((side, of(side, rate)) for side in ("library", "jaxenv")),
        ("ratio", measure.ratio("jaxenv", ".2f")),
        ("other", of("other", rate)),
        ("", of("other", lambda name: lambda _: name)),
        ("ratio", of("other", measure.ratio)),
        *((f"compile s: {side}", of(side, seconds)) for side in ("library", "jaxenv")),
    )
    title = (
        "Thousand environment steps per second; ratio: how many times faster than the library with its own wrappers.\n"
        "Other: native, this library's environment of the same task; gxm, which runs Gymnasium under JAX."
    )
    text = [title, shown, *measure.notes(rows)]
    if len(ratios := [row["ratios"]["jaxenv"] for row in rows if row["ratios"]]) > 1:
        text.append(f"geometric mean of {len(ratios)} rows: {statistics.geometric_mean(ratios):.2f}x")
    return "\n".join(text)


# --- command line ----------------------------------------------------------------------------------------------------


def suite_id(text: str) -> str:
    """Checks that an id names a suite that has a loop here."""
    if text.partition(":")[0] not in {**SUITES, **HOSTS} or ":" not in text:
        raise argparse.ArgumentTypeError(f"must be SUITE:ID with one of {', '.join([*SUITES, *HOSTS])}, got {text!r}")
    return text


def options(parser: command.Parser) -> None:
    """Adds the options."""
    parser.add_ids(DEFAULT_IDS, suite_id)
    add_assignments(parser, "--options", "arguments of the library's constructor")
    parser.add_sizes(num_envs=[64], num_steps=256)
    parser.add_update()


def check(parser: command.Parser, args: argparse.Namespace) -> None:
    """Reads ``--options``."""
    args.options = dict(assignment(text, parser, "--options") for text in args.options)


def rows(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Compares every id and number of lanes; one that cannot run is a row with a note."""
    for id, num_envs in itertools.product(args.ids, args.num_envs):
        try:
            yield compare(id, args.options, num_envs, args.num_steps, args.repeats)
        except (ImportError, Unavailable, ValueError) as error:
            row = {"id": id, "options": args.options, "num_envs": num_envs, "num_steps": args.num_steps}
            yield row | {"contestants": {}, "ratios": {}, "notes": [f"{id}, {num_envs} lanes: {one_line(error)}"]}
