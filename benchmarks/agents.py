"""Tasks of several agents that act at the same time, compared with JaxMARL and Jumanji: steps per second at random.

``python -m benchmarks agents --ids SimpleSpread-mpe --num-envs 2048 --json PATH``. See README.md. Jumanji's tasks run
if ``--ids`` names them.
"""

import argparse
import functools
import itertools
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp

import jaxenv
from benchmarks import command, measure, ours
from benchmarks.measure import Contestant, Row, jax_contestant
from benchmarks.peers import Unavailable
from jaxenv.cli._arguments import one_line

JAXMARL = {
    "SimpleSpread-mpe": "MPE_simple_spread_v3",
    "SimpleTag-mpe": "MPE_simple_tag_v3",
    "SimpleReference-mpe": "MPE_simple_reference_v3",
    # with the layout
    "Overcooked-CrampedRoom-v1": "overcooked:cramped_room",
    "Overcooked-AsymmAdvantages-v1": "overcooked:asymm_advantages",
    "Overcooked-CoordRing-v1": "overcooked:coord_ring",
    "Overcooked-ForcedCoord-v1": "overcooked:forced_coord",
    "Overcooked-CounterCircuit-v1": "overcooked:counter_circuit",
}
# Jumanji's ``LevelBasedForaging``: size of the grid, sight, number of agents, of food, and ``force_coop``.
JUMANJI = {
    "Foraging-8x8-2p-2f-coop-v3": (8, 8, 2, 2, True),
    "Foraging-10x10-3p-3f-v3": (10, 10, 3, 3, False),
    "Foraging-2s-10x10-3p-3f-v3": (10, 2, 3, 3, False),
    "Foraging-15x15-4p-3f-v3": (15, 15, 4, 3, False),
}
PEERS = (*JAXMARL, *JUMANJI)
LOOPS = ("sums", "stored")  # of `ours.LOOPS`
NAMES = ("id", "loop", "num_envs", "num_steps")


def jaxmarl(id: str, num_envs: int, num_steps: int, loop: str) -> Contestant:
    """Runs JaxMARL as its users do: its ``step``, which restarts games, under ``vmap``.

    Raises:
        Unavailable: If JaxMARL is not installed.
    """
    try:
        import jaxmarl
        from jaxmarl.environments.overcooked import overcooked_layouts
    except ImportError as error:
        raise Unavailable(f"jaxmarl cannot be imported: {one_line(error)}") from None
    name, _, layout = JAXMARL[id].partition(":")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # JaxMARL recommends its Overcooked V2
        env = jaxmarl.make(name, **({"layout": overcooked_layouts[layout]} if layout else {}))

    def act(key):
        keys = jax.random.split(key, (len(env.agents), num_envs))
        return {a: jax.vmap(env.action_space(a).sample)(k) for a, k in zip(env.agents, keys, strict=True)}

    def start(key):
        key, key_reset, key_action = jax.random.split(key, 3)
        _, state = jax.vmap(env.reset)(jax.random.split(key_reset, num_envs))
        return state, key, act(key_action)

    def step(carry):
        # The actions are carried, as in the rollout of this library.
        state, key, actions = carry
        key, key_step, key_action = jax.random.split(key, 3)
        keys = jax.random.split(key_step, num_envs)
        observations, state, rewards, ends, _ = jax.vmap(env.step)(keys, state, actions)
        rewards = jnp.stack([rewards[a] for a in env.agents], axis=1)
        every = jnp.ones(num_envs, bool)  # a lane restarts in the step that ends its game
        row = Row(observations, actions, rewards, ~every, ends["__all__"], every)
        return (state, key, act(key_action)), row

    return jax_contestant("jaxmarl", start, step, num_envs, num_steps, loop == "stored")


def jumanji(id: str, num_envs: int, num_steps: int, loop: str) -> Contestant:
    """Runs Jumanji's ``VmapAutoResetWrapper``, which restarts games; actions obey the masks, as in this library.

    Raises:
        Unavailable: If Jumanji is not installed.
    """
    try:
        from jumanji import wrappers
        from jumanji.environments.routing.lbf.env import LevelBasedForaging
        from jumanji.environments.routing.lbf.generator import RandomGenerator
    except ImportError as error:
        raise Unavailable(f"jumanji cannot be imported: {one_line(error)}") from None
    size, sight, num_agents, num_food, coop = JUMANJI[id]
    generator = RandomGenerator(size, fov=sight, num_agents=num_agents, num_food=num_food, force_coop=coop)
    limit = jaxenv.spec(id).max_episode_steps
    env = wrappers.VmapAutoResetWrapper(LevelBasedForaging(generator, time_limit=limit))

    def act(key, timestep):
        return jax.random.categorical(key, jnp.where(timestep.observation.action_mask, 0.0, -jnp.inf))

    def start(key):
        key, key_reset, key_action = jax.random.split(key, 3)
        state, timestep = env.reset(jax.random.split(key_reset, num_envs))
        return state, key, act(key_action, timestep)

    def step(carry):
        state, key, actions = carry
        key, key_action = jax.random.split(key)
        state, timestep = env.step(state, actions)
        ends, every = timestep.last(), jnp.ones(num_envs, bool)  # a lane restarts in the step that ends its game
        row = Row(timestep.observation, actions, timestep.reward, ends, ~every, every)
        return (state, key, act(key_action, timestep)), row

    return jax_contestant("jumanji", start, step, num_envs, num_steps, loop == "stored")


def compare(id: str, num_envs: int, num_steps: int, repeats: int, loop: str) -> dict[str, Any]:
    """Runs both sides, interleaved, and returns a row of the result file; without the peer a note says why."""
    peer = jaxmarl if id in JAXMARL else jumanji
    makers = [functools.partial(make, id, num_envs, num_steps, loop) for make in (ours.rollout_of_id, peer)]
    sides, notes = measure.available(*makers)
    sizes = {"id": id, "loop": loop, "num_envs": num_envs, "num_steps": num_steps}
    return sizes | {"agents": jaxenv.make(id).num_agents} | measure.compared(sides, notes, repeats)


def report(rows: Sequence[dict[str, Any]], args: argparse.Namespace) -> str:
    """Formats the results as an aligned table."""

    def of_peer(form: Callable[[str], Callable[[Any], str]]) -> Callable[[Any], str]:
        return lambda row: form(next(iter(row["ratios"])))(row)

    seconds = functools.partial(measure.side, entry="compile_seconds", text="{:.1f}".format)
    shown = measure.columns(
        rows,
        ("id", "id"),
        ("agents", "agents"),
        ("observations", "loop"),
        ("lanes", "num_envs"),
        ("jaxenv", measure.side("jaxenv")),
        ("peer", of_peer(measure.side)),
        ("", of_peer(lambda name: lambda _: name)),
        ("ratio", of_peer(measure.ratio)),
        ("compile s", seconds("jaxenv")),
        ("peer", of_peer(seconds)),
    )
    title = "Million steps of a lane, with all its agents, per second; ratio: how many times faster jaxenv is."
    return "\n".join([title, shown, *measure.notes(rows)])


def options(parser: command.Parser) -> None:
    """Adds the options."""
    parser.add_ids(JAXMARL, command.one_of(PEERS), "tasks to run, by default all that JaxMARL also has")
    help = "; ".join(f"{name} {ours.LOOPS[name]}" for name in LOOPS)
    parser.add_argument("--loops", nargs="+", choices=LOOPS, default=list(LOOPS), help=f"of a rollout: {help}")
    parser.add_sizes(num_envs=[2048], num_steps=256)
    parser.add_update()


def rows(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Compares every task, loop and number of lanes."""
    for id, loop, num_envs in itertools.product(args.ids, args.loops, args.num_envs):
        yield compare(id, num_envs, args.num_steps, args.repeats, loop)
