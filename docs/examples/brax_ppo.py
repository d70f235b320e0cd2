"""Brax's PPO learns CartPole-v1: ``pip install brax``, then ``python docs/examples/brax_ppo.py``.

The curve is the mean return of 128 whole episodes of the mode of the policy, which Brax plays in each of its
evaluations.
"""

import argparse
import csv
import functools
import pathlib
import time

import jax
import jax.numpy as jnp
from brax.training.agents.ppo import networks, train

from jaxenv.interop import to_brax

if not hasattr(jax, "device_put_replicated"):  # Brax 0.14 calls what JAX 0.10 removed (google/brax#671)
    jax.device_put_replicated = lambda x, devices: jax.pmap(lambda _: x, axis_name="i", devices=devices)(
        jnp.arange(len(devices))
    )


def learn(seed: int = 0, num_timesteps: int = 500_000, num_evals: int = 21) -> list:
    """Rows ``(steps, return)``, one per evaluation."""
    rows, begin = [], time.perf_counter()

    def progress(steps, metrics):
        rows.append((int(steps), round(float(metrics["eval/episode_reward"]), 1)))
        print(f"{steps:>8} steps  return {rows[-1][1]:5.1f}  {time.perf_counter() - begin:5.0f} s", flush=True)

    train.train(
        to_brax("CartPole-v1"),
        num_timesteps,
        episode_length=500,
        num_envs=128,
        unroll_length=32,
        batch_size=32,
        num_minibatches=4,
        num_updates_per_batch=8,
        learning_rate=1e-3,
        discounting=0.99,
        clipping_epsilon=0.2,
        entropy_cost=1e-3,
        max_grad_norm=0.5,
        reward_scaling=0.1,
        normalize_observations=True,
        network_factory=functools.partial(
            networks.make_ppo_networks,
            policy_hidden_layer_sizes=(64, 64),
            value_hidden_layer_sizes=(64, 64),
        ),
        deterministic_eval=True,
        num_evals=num_evals,
        num_eval_envs=128,
        seed=seed,
        progress_fn=progress,
    )
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    rows = learn(parser.parse_args().seed)
    results = pathlib.Path(__file__).parent / "results"
    results.mkdir(exist_ok=True)
    with open(results / "brax_ppo.csv", "w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([("steps", "return"), *rows])
