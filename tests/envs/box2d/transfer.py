"""A trained policy flies Gymnasium's environment and ours: the same mean return within two standard errors.

    python -m tests.envs.box2d.transfer baseline:LunarLander-v3    # trained here
    python -m tests.envs.box2d.transfer runs/gym 1000    # trained on "gymnasium:LunarLander-v3"

It needs ``gymnasium[box2d]``. The number is that of the episodes on each side, 200 by default.
"""

import dataclasses
import sys

import jax
import numpy as np

import jaxenv
from jaxenv import training

SUITE = "gymnasium:"


def returns(trained: training.Trained, env_id: str, num: int, **options) -> np.ndarray:
    """Returns of ``num`` whole episodes without exploration, float64 ``[num]``."""
    config = dataclasses.replace(trained.config, env_id=env_id, env_options=options)
    with config.make_env(num, "eval") as env:
        key = jax.random.key(0)
        episodes = jaxenv.evaluate(env, trained.policy, key, initial_memory=trained.make_memory(num), max_steps=2000)
        assert bool(episodes.finished.all())
        return np.asarray(episodes.returns, np.float64)


def main(run: str, num: str = "200") -> None:
    kind, _, env_id = run.partition(":")
    trained = training.baseline(env_id) if kind == "baseline" else training.load(run)
    name = trained.config.env_id.removeprefix(SUITE)
    ours = returns(trained, name, int(num))
    theirs = returns(trained, SUITE + name, int(num), vectorization="sync")
    error = np.sqrt((ours.var() + theirs.var()) / len(ours))
    for side, found in (("jaxenv", ours), ("Gymnasium", theirs)):
        print(f"{side}: mean return {found.mean():.2f}, standard deviation {found.std():.1f}, lowest {found.min():.1f}")
    print(f"trained on {trained.config.env_id}: the means are {abs(ours.mean() - theirs.mean()) / error:.2f} se apart")


if __name__ == "__main__":
    main(*sys.argv[1:])
