"""PPO learns MiniGrid-MultiRoom-N4-S5 from a curriculum: ``python docs/examples/multi_room_ppo.py``.

A third of the lanes walks through two rooms, a third through four, a third through six: one compiled program, in
which chains that random actions solve teach what the longer ones need. Evaluations have the six rooms of the id only.
"""

import csv
import pathlib

import jax
import jax.numpy as jnp
import numpy as np

import jaxenv
from jaxenv import Environment, Multitask
from jaxenv.training import ppo
from jaxenv.wrappers import AutoReset, OneHotObservation

RESULTS = pathlib.Path(__file__).parent / "results" / "multi_room_ppo.csv"
ID = "MiniGrid-MultiRoom-N4-S5-v0"
ROOMS = (2, 4, 6)
SEEDS = 4
CONFIG = ppo.Config(
    env_id=ID,
    total_steps=1_500_000,
    num_envs=64,
    num_steps=128,
    num_epochs=4,
    num_minibatches=16,
    learning_rate=1e-3,
    gamma=0.99,
    lambda_=0.95,
    entropy_cost=0.01,
    num_evaluations=12,
)


def level(num_envs: int, rooms: int) -> Environment:
    """A level with up to the id's six rooms, and its time limit of 20 steps per room."""
    return jaxenv.make(ID, num_envs, autoreset=None, num_rooms=rooms, max_episode_steps=20 * rooms)


def stack(env: Environment) -> Environment:
    """The cells of the view as one-hot codes, and restarts."""
    return AutoReset(OneHotObservation(env, num_values=(11, 6, 3), fields="image"))


def train(config: ppo.Config = CONFIG, seeds: int = SEEDS) -> tuple[np.ndarray, np.ndarray]:
    """Steps ``[N]`` and mean returns ``[N, seeds]`` of the evaluations."""
    task = jnp.arange(config.num_envs, dtype=jnp.int32) % len(ROOMS)
    env = stack(Multitask([level(config.num_envs, rooms) for rooms in ROOMS], task=task))
    init, iterate = ppo.make_iteration(config, env, stack(level(config.num_eval_episodes, ROOMS[-1])))
    learners = jax.jit(jax.vmap(init))(jax.random.split(jax.random.key(0), seeds))
    iterate = jax.jit(jax.vmap(iterate), donate_argnums=0)
    steps, returns = [], []
    for _ in range(config.num_evaluations):
        learners, curve = iterate(learners)
        steps.append(int(curve.steps[0]))
        returns.append(np.asarray(curve.returns).mean(axis=1))
        print(f"{steps[-1]:9,d}  {np.round(returns[-1], 3)}", flush=True)
    return np.array(steps), np.array(returns)


if __name__ == "__main__":
    steps, returns = train()
    lines = [[int(n), *(round(float(x), 4) for x in row)] for n, row in zip(steps, returns, strict=True)]
    with RESULTS.open("w", newline="") as file:
        csv.writer(file).writerows([("steps", *(f"seed {i}" for i in range(SEEDS))), *lines])
