"""Records single steps of JaxMARL's coin game in ``coin_game.npz``, which the tests compare with.

python -m venv coins && coins/bin/pip install jaxmarl==0.2.0
coins/bin/python tests/envs/make_coin_game.py
"""

import pathlib

import jax
import jax.numpy as jnp
import numpy as np
from jaxmarl.environments.coin_game import CoinGame

STATES = 600
random = np.random.default_rng(0)
env = CoinGame(cnn=True, payoff_matrix=[[1, 1, -2], [1, 1, -2]])
cells = random.integers(0, 3, (STATES, 4, 2))
action = random.integers(0, 5, (STATES, 2))


def one(cells, action):
    _, state = env.reset(jax.random.key(0))
    state = state.replace(red_pos=cells[0], blue_pos=cells[1], red_coin_pos=cells[2], blue_coin_pos=cells[3])
    shown = env.get_obs(state)
    _, after, reward, *_ = env.step_env(jax.random.key(0), state, dict(zip(env.agents, action, strict=True)))
    moved = jnp.stack([after.red_pos, after.blue_pos, after.red_coin_pos, after.blue_coin_pos])
    return jnp.stack([shown[a] for a in env.agents]), moved, jnp.stack([reward[a] for a in env.agents])


observation, after, reward = jax.vmap(one)(cells, action)
rows = {"cells": cells, "action": action, "observation": observation, "after": after, "reward": reward}
np.savez_compressed(
    pathlib.Path(__file__).with_name("coin_game.npz"), **{name: np.asarray(x, np.int8) for name, x in rows.items()}
)
