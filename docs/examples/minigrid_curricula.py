"""PPO learns long levels of MiniGrid from curricula: ``python docs/examples/minigrid_curricula.py [ID ...]``.

The lanes play shorter levels besides the one that is to be learned, all in one compiled program (`Multitask`): what
random actions solve teaches what the longer levels need. Evaluations play the level of the id only.
"""

import csv
import dataclasses
import pathlib
import sys

import jax
import jax.numpy as jnp
import numpy as np

import jaxenv
from jaxenv import Environment, Multitask
from jaxenv.training import ppo
from jaxenv.wrappers import AutoReset, OneHotObservation

RESULTS = pathlib.Path(__file__).parent / "results"


@dataclasses.dataclass(frozen=True)
class Curriculum:
    """How one id is learned.

    Attributes:
        levels: ids with arguments of `jaxenv.make`; the last one is that of the evaluations.
        lanes: numbers of levels, which the lanes take in turn.
        total_steps: steps of all lanes together.
        num_envs: lanes, of all levels together.
        entropy_cost: weight of PPO's entropy bonus.
        eval_explore: evaluate with sampled actions. A policy without memory may walk in circles otherwise.
        seeds: runs, under ``jax.vmap``.
    """

    levels: tuple[tuple[str, dict], ...]
    lanes: tuple[int, ...]
    total_steps: int
    num_envs: int = 128
    entropy_cost: float = 0.02
    eval_explore: bool = True
    seeds: int = 1


CURRICULA = {
    "MiniGrid-MultiRoom-N4-S5-v0": Curriculum(
        levels=(  # 20 steps per room are MiniGrid's limits
            ("MultiRoom-N4-S5-v0", {"num_rooms": 2, "max_episode_steps": 40}),
            ("MultiRoom-N4-S5-v0", {"num_rooms": 4, "max_episode_steps": 80}),
            ("MultiRoom-N4-S5-v0", {}),
        ),
        lanes=(0, 1, 2),
        total_steps=1_500_000,
        num_envs=64,
        entropy_cost=0.01,
        eval_explore=False,
        seeds=4,
    ),
    "MiniGrid-LockedRoom-v0": Curriculum(
        levels=(
            ("MultiRoom-N2-S4-v0", {"max_episode_steps": 60}),
            ("DoorKey-5x5-v0", {"max_episode_steps": 100}),
            ("DoorKey-8x8-v0", {"max_episode_steps": 200}),
            ("Unlock-v0", {"max_episode_steps": 200}),
            ("LockedRoom-v0", {"max_size": 13, "max_episode_steps": 400}),
            ("LockedRoom-v0", {"max_size": 16, "max_episode_steps": 400}),
            ("LockedRoom-v0", {"max_episode_steps": 400}),
            ("LockedRoom-v0", {}),
        ),
        lanes=(0, 1, 2, 3, 4, 4, 5, 5, 6, 6, 7),
        total_steps=16_000_000,
    ),
    "MiniGrid-ObstructedMaze-2Dlh-v0": Curriculum(
        levels=(
            ("Unlock-v0", {"max_episode_steps": 200}),
            ("ObstructedMaze-1Dl-v0", {}),
            ("ObstructedMaze-1Dlh-v0", {}),
            ("ObstructedMaze-2Dlh-v0", {"key_in_box": False}),
            ("ObstructedMaze-2Dlh-v0", {}),
        ),
        lanes=(0, 1, 2, 3, 4, 4, 3, 2),
        total_steps=8_000_000,
    ),
}


def make(level: tuple[str, dict], num_envs: int) -> Environment:
    """A level without its mission, so that all have the same observation."""
    id, options = level
    return jaxenv.make(f"MiniGrid-{id}", num_envs, autoreset=None, observe_mission=False, **options)


def stack(env: Environment) -> Environment:
    """The cells of the view as one-hot codes, and restarts."""
    return AutoReset(OneHotObservation(env, num_values=(11, 6, 3), fields="image"))


def train(id: str, curriculum: Curriculum) -> tuple[np.ndarray, np.ndarray]:
    """Steps ``[N]`` and mean returns ``[N, seeds]`` of the evaluations."""
    config = ppo.Config(
        env_id=id,
        total_steps=curriculum.total_steps,
        num_envs=curriculum.num_envs,
        num_steps=128,
        num_epochs=4,
        num_minibatches=16,
        learning_rate=1e-3,
        gamma=0.99,
        lambda_=0.95,
        entropy_cost=curriculum.entropy_cost,
        num_evaluations=12,
        eval_explore=curriculum.eval_explore,
    )
    task = jnp.asarray(np.resize(curriculum.lanes, config.num_envs), jnp.int32)
    env = stack(Multitask([make(level, config.num_envs) for level in curriculum.levels], task=task))
    run = ppo.make_train(config, env, stack(make(curriculum.levels[-1], config.num_eval_episodes)))
    init, iterate = run.init, run.iteration
    learners = jax.jit(jax.vmap(init))(jax.random.split(jax.random.key(0), curriculum.seeds))
    iterate = jax.jit(jax.vmap(iterate), donate_argnums=0)
    steps, returns = [], []
    for _ in range(config.num_evaluations):
        learners, curve = iterate(learners)
        steps.append(int(curve.steps[0]))
        returns.append(np.asarray(curve.returns).mean(axis=1))
        print(f"{steps[-1]:9,d}  {np.round(returns[-1], 3)}", flush=True)
    return np.array(steps), np.array(returns)


if __name__ == "__main__":
    for id in sys.argv[1:] or CURRICULA:
        steps, returns = train(id, CURRICULA[id])
        lines = [[int(n), *(round(float(x), 4) for x in row)] for n, row in zip(steps, returns, strict=True)]
        with (RESULTS / f"{id}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([("steps", *(f"seed {i}" for i in range(CURRICULA[id].seeds))), *lines])
