"""Environments of other libraries: the loops of their own users, and which of their environments are ours.

An id ``SUITE:ID`` is compared with the loop of the suite's own users (`library`) and with this library's environment of
the same task (`native`); an id of this library with its counterpart in JaxMARL, Jumanji or Pgx.
"""

import dataclasses
import functools
import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxenv
from benchmarks import ours, peers
from benchmarks.measure import Contestant, Unavailable, one_line
from benchmarks.peers import Loop

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
# Library -> its environments of our ids.
COUNTERPARTS: dict[str, dict[str, Any]] = {
    "jaxmarl": {
        "SimpleSpread-mpe": "MPE_simple_spread_v3",
        "SimpleTag-mpe": "MPE_simple_tag_v3",
        "SimpleReference-mpe": "MPE_simple_reference_v3",
        # with the layout
        "Overcooked-CrampedRoom-v1": "overcooked:cramped_room",
        "Overcooked-AsymmAdvantages-v1": "overcooked:asymm_advantages",
        "Overcooked-CoordRing-v1": "overcooked:coord_ring",
        "Overcooked-ForcedCoord-v1": "overcooked:forced_coord",
        "Overcooked-CounterCircuit-v1": "overcooked:counter_circuit",
    },
    # of ``LevelBasedForaging``: size of the grid, sight, number of agents, of food, and ``force_coop``
    "jumanji": {
        "Foraging-8x8-2p-2f-coop-v3": (8, 8, 2, 2, True),
        "Foraging-10x10-3p-3f-v3": (10, 10, 3, 3, False),
        "Foraging-2s-10x10-3p-3f-v3": (10, 2, 3, 3, False),
        "Foraging-15x15-4p-3f-v3": (15, 15, 4, 3, False),
    },
    "pgx": {
        "ConnectFour-v0": "connect_four",
        "Go-9x9-v0": "go_9x9",
        "Hex-11x11-v0": "hex",
        "Othello-v0": "othello",
        "2048-v0": "2048",
    },
}


def gymnax(name: str, num_envs: int) -> Loop:
    """Runs gymnax's ``step`` under ``vmap``; it restarts lanes itself."""
    import gymnax

    return peers.like_gymnax(*gymnax.make(name), num_envs)


def craftax(name: str, num_envs: int) -> Loop:
    """Runs the ``step`` of Craftax's environments with automatic restarts under ``vmap``."""
    from craftax.craftax_env import make_craftax_env_from_name

    env = make_craftax_env_from_name(name, auto_reset=True)
    return peers.like_gymnax(env, env.default_params, num_envs)


def jumanji(name: Any, num_envs: int) -> Loop:
    """Runs Jumanji's ``VmapAutoResetWrapper``: a lane restarts in the step that ends it; actions obey the masks.

    A tuple of `COUNTERPARTS` is a foraging task, with the time limit of this library.
    """
    import jumanji
    from jumanji.environments.routing.lbf.env import LevelBasedForaging
    from jumanji.environments.routing.lbf.generator import RandomGenerator
    from jumanji.wrappers import VmapAutoResetWrapper

    if isinstance(name, tuple):
        size, sight, num_agents, num_food, coop = name
        generator = RandomGenerator(size, fov=sight, num_agents=num_agents, num_food=num_food, force_coop=coop)
        limit = jaxenv.spec("Foraging-8x8-2p-2f-coop-v3").max_episode_steps
        env = VmapAutoResetWrapper(LevelBasedForaging(generator, time_limit=limit))
    else:
        env = VmapAutoResetWrapper(jumanji.make(name))
    spec = env.action_spec
    low, high = np.asarray(spec.minimum), np.asarray(spec.maximum)

    def step(state, action, keys):
        state, timestep = env.step(state[0], action)
        last = timestep.last()
        return (state, timestep), (timestep.observation, timestep.reward, last, jnp.zeros_like(last))

    def sample(state, key):
        mask = getattr(state[1].observation, "action_mask", None)
        if mask is not None and mask.shape[-1] == high.max() + 1 and mask.ndim == 2 + len(spec.shape):
            return jax.random.categorical(key, jnp.where(mask, 0.0, -jnp.inf))
        return jax.random.randint(key, (num_envs, *spec.shape), low, high + 1, spec.dtype)

    return Loop(env.reset, step, sample)


def brax(name: str, num_envs: int) -> Loop:
    """Runs the wrappers of Brax's trainers: a lane restarts in the step that ends it, from its first state."""
    from brax import envs
    from brax.envs.wrappers import training

    env = training.wrap(envs.get_environment(name))

    def step(state, action, keys):
        state = env.step(state, action)
        truncated = state.info["truncation"] > 0
        return state, (state.obs, state.reward, (state.done > 0) & ~truncated, truncated)

    def sample(state, key):
        return jax.random.uniform(key, (num_envs, env.action_size), minval=-1.0, maxval=1.0)

    # Brax takes the number of lanes from the shape of the words.
    return Loop(lambda keys: env.reset(jax.random.key_data(keys)), step, sample)


def xminigrid(name: str, num_envs: int) -> Loop:
    """Runs XLand-MiniGrid's ``GymAutoResetWrapper`` under ``vmap``."""
    import xminigrid
    from xminigrid.wrappers import GymAutoResetWrapper

    env, params = xminigrid.make(name)
    env = GymAutoResetWrapper(env)
    num_actions = env.num_actions(params)

    def step(state, action, keys):
        t = jax.vmap(lambda t, a: env.step(params, t, a))(state, action)
        return t, (t.observation, t.reward, t.last() & (t.discount == 0), t.last() & (t.discount > 0))

    def sample(state, key):
        return jax.random.randint(key, (num_envs,), 0, num_actions)

    return Loop(jax.vmap(lambda key: env.reset(params, key)), step, sample)


def navix(name: str, num_envs: int) -> Loop:
    """Runs NAVIX's ``step`` under ``vmap``; it restarts lanes in the step after an end."""
    import navix

    env = navix.make(name)

    def step(state, action, keys):
        t = jax.vmap(env.step)(state, action)
        return t, (t.observation, t.reward, t.step_type == 2, t.step_type == 1, t.t > 0)

    def sample(state, key):
        return jax.random.randint(key, (num_envs,), 0, env.action_space.n)

    return Loop(jax.vmap(env.reset), step, sample)


def jaxmarl(name: str, num_envs: int) -> Loop:
    """Runs JaxMARL's ``step``, which restarts games, under ``vmap``."""
    import jaxmarl
    from jaxmarl.environments.overcooked import overcooked_layouts

    name, _, layout = name.partition(":")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # JaxMARL recommends its Overcooked V2
        env = jaxmarl.make(name, **({"layout": overcooked_layouts[layout]} if layout else {}))

    def step(state, actions, keys):
        observations, state, rewards, ends, _ = jax.vmap(env.step)(keys, state, actions)
        ended = ends["__all__"]
        return state, (observations, jnp.stack([rewards[a] for a in env.agents], axis=1), jnp.zeros_like(ended), ended)

    def sample(state, key):
        keys = jax.random.split(key, (len(env.agents), num_envs))
        return {a: jax.vmap(env.action_space(a).sample)(k) for a, k in zip(env.agents, keys, strict=True)}

    return Loop(lambda keys: jax.vmap(env.reset)(keys)[1], step, sample)


def pgx(name: str, num_envs: int) -> Loop:
    """Runs Pgx's ``auto_reset`` under ``vmap``, and legal actions by its ``act_randomly``."""
    import pgx
    from pgx.experimental import act_randomly, auto_reset

    env = pgx.make(name)
    advance = jax.vmap(auto_reset(env.step, env.init))

    def step(state, action, keys):
        state = advance(state, action, keys)
        return state, (state.observation, state.rewards, state.terminated, state.truncated)

    return Loop(jax.vmap(env.init), step, lambda state, key: act_randomly(key, state.legal_action_mask))


LOOPS = {f.__name__: f for f in (gymnax, craftax, jumanji, brax, xminigrid, navix, jaxmarl, pgx)}


def gymnasium(name: str, num_envs: int, num_steps: int) -> Contestant:
    """Runs a Python loop over ``AsyncVectorEnv``."""
    import gymnasium

    spawned = {"context": "spawn"}  # a fork of a process with JAX's threads may never end
    env = gymnasium.make_vec(name, num_envs, vectorization_mode="async", vector_kwargs=spawned)
    return peers.gymnasium_loop(env, num_envs, num_steps)


def envpool(name: str, num_envs: int, num_steps: int) -> Contestant:
    """Runs a Python loop over EnvPool's synchronous mode."""
    import envpool

    return peers.envpool_loop(envpool.make(name, env_type="gymnasium", num_envs=num_envs), num_envs, num_steps)


HOSTS = {f.__name__: f for f in (gymnasium, envpool)}  # suites outside JAX


def library(id: str, num_envs: int, num_steps: int, loop: str = "sums") -> Contestant:
    """Runs the loop of the library's own users for an id ``SUITE:ID``, with its own restarts.

    Raises:
        Unavailable: If the library is not installed, or its loop is not known.
    """
    suite, _, name = id.partition(":")
    if name and suite in HOSTS:
        found = _imported(suite, lambda: HOSTS[suite](name, num_envs, num_steps))
    elif name and suite in LOOPS:
        found = _run(suite, name, num_envs, num_steps, loop)
    else:
        raise Unavailable(f"no library of its own has {id}")
    return dataclasses.replace(found, name="library")


def native(id: str, num_envs: int, num_steps: int, loop: str = "sums") -> Contestant:
    """Runs this library's environment of the same task.

    Raises:
        Unavailable: If there is none.
    """
    if id not in NATIVE:
        raise Unavailable(f"native: no environment here has the task of {id}")
    return ours.rollout("native", jaxenv.make(NATIVE[id], num_envs=num_envs), num_steps, loop == "stored")


def counterpart(suite: str, id: str, num_envs: int, num_steps: int, loop: str = "sums") -> Contestant:
    """Runs the environment of another library that is the same task as one of this library.

    Raises:
        Unavailable: If the library is not installed or lacks the id.
    """
    if id not in COUNTERPARTS[suite]:
        raise Unavailable(f"{suite} has no {id}")
    return _run(suite, COUNTERPARTS[suite][id], num_envs, num_steps, loop)


def _run(suite: str, name: Any, num_envs: int, num_steps: int, loop: str) -> Contestant:
    return _imported(suite, lambda: LOOPS[suite](name, num_envs)).contestant(
        suite, num_envs, num_steps, loop == "stored"
    )


def _imported(suite: str, make: Callable[[], Any]) -> Any:
    try:
        return make()
    except ImportError as error:
        raise Unavailable(f"{suite} cannot be imported: {one_line(error)}") from None


PEERS: dict[str, Callable[..., Contestant]] = {
    **peers.PEERS,
    **{suite: functools.partial(counterpart, suite) for suite in COUNTERPARTS},
    "library": library,
    "native": native,
}
