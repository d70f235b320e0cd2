"""Records the behaviour of JaxMARL's Overcooked in ``overcooked.npz``, which the tests compare with.

    python -m venv marl && marl/bin/pip install jax flax jaxtyping && marl/bin/pip install --no-deps jaxmarl==0.2.0
    marl/bin/python tests/envs/grid/make_overcooked.py

``jaxmarl`` is imported without the ``__init__`` of its two outermost packages, which import all of its environments.
"""

import importlib.util
import pathlib
import sys
import types
import warnings

import jax
import jax.numpy as jnp
import numpy as np

ROOT = pathlib.Path(importlib.util.find_spec("jaxmarl").origin).parent
for name in ("jaxmarl", "jaxmarl.environments"):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [str(ROOT.parent / name.replace(".", "/"))]
warnings.simplefilter("ignore")  # JaxMARL suggests OvercookedV2

from jaxmarl.environments.overcooked import Overcooked, overcooked_layouts  # noqa: E402

STEPS, LANES, STARTS, DRAWS = 400, 2, 3000, 20_000
ACTIONS = np.array([0.16, 0.16, 0.16, 0.16, 0.03, 0.33])  # enough interactions for soups
OFTEN = np.array([0.1, 0.1, 0.1, 0.1, 0.0, 0.6])


def pair(of_agents):
    return jnp.stack([of_agents["agent_0"], of_agents["agent_1"]], axis=1)


def fields(prefix, env, state):
    """Cells, directions and items of the cooks, and the statuses of the pots, row by row."""
    grid = np.asarray(state.maze_map)[:, 4:-4, 4:-4]
    rows, columns = np.nonzero(grid[0, :, :, 0] == 8)
    cells = np.asarray(state.agent_pos) @ np.array([1, env.width])
    items = np.searchsorted([1, 3, 5, 9], np.asarray(state.agent_inv))
    found = {"cells": cells, "directions": state.agent_dir_idx, "items": items, "pots": grid[:, rows, columns, 2]}
    return {f"{prefix}_{k}": np.asarray(v, np.uint8) for k, v in found.items()}


def rows(env, state, action):
    """One step without a restart, in all lanes."""
    keys = jax.random.split(jax.random.key(0), len(action))
    actions = {"agent_0": action[:, 0], "agent_1": action[:, 1]}
    observation, state, reward, done, info = jax.vmap(env.step_env)(keys, state, actions)
    row = pair(observation), pair(reward), pair(info["shaped_reward"]), done["__all__"]
    return state, row


def named(prefix, row):
    return {f"{prefix}_{k}": np.asarray(v).astype(bool if k == "done" else np.uint8)
            for k, v in zip(("observation", "reward", "shaped", "done"), row, strict=True)}  # fmt: skip


def record(layout):
    """Episodes, one of which has the usual start, steps from random states, and counts of random starts."""
    rng = np.random.default_rng(0)
    usual, env = (Overcooked(overcooked_layouts[layout], random_reset=random) for random in (False, True))
    reset = [jax.jit(jax.vmap(e.reset)) for e in (usual, env)]
    first = [reset[i](jax.random.split(jax.random.key(1), n)) for i, n in enumerate((1, LANES - 1))]
    observation, state = jax.tree.map(lambda x, y: jnp.concatenate([x, y]), *first)
    actions = rng.choice(6, p=ACTIONS, size=(STEPS, LANES, 2)).astype(np.uint8)
    found = jax.jit(lambda state: jax.lax.scan(lambda s, a: rows(env, s, a), state, actions)[1])(state)
    data = {"actions": actions, "first_observation": np.asarray(pair(observation)), **fields("first", env, state)}
    data |= named("step", found)

    _, state = reset[1](jax.random.split(jax.random.key(2), STARTS))
    action = rng.choice(6, p=OFTEN, size=(STARTS, 2)).astype(np.uint8)
    data |= {"pose_actions": action, **fields("pose", env, state)}
    data |= named("pose", jax.jit(lambda state: rows(env, state, action)[1])(state))
    data["pose_observation"] = data["pose_observation"][::30]

    drawn = fields("drawn", env, reset[1](jax.random.split(jax.random.key(3), DRAWS))[1])
    data |= {k: np.stack([np.bincount(x, minlength=64) for x in v.T]) for k, v in drawn.items()}
    print(layout, "soups", data["step_reward"].sum() // 40, "and", data["pose_reward"].sum() // 40)
    return {f"{layout}_{k}": v for k, v in data.items()}


def main():
    data = {"jaxmarl": np.array("0.2.0")}
    for layout in overcooked_layouts:
        data |= record(layout)
    np.savez_compressed(pathlib.Path(__file__).parent / "overcooked.npz", **data)


if __name__ == "__main__":
    main()
