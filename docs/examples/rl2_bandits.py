"""RL2 on Bernoulli bandits: PPO with a GRU learns to explore within a trial: ``python docs/examples/rl2_bandits.py``.

A trial is some pulls of arms that pay with probabilities uniform in [0, 1], each pull an episode, as in Duan et al.
(2016), arXiv:1611.02779, section 3.1. The regret is compared with other strategies on the same arms.
"""

import argparse
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxenv
from jaxenv import rollout
from jaxenv.training import ppo


def counted(timestep: jaxenv.TimeStep, memory: Any) -> Any:
    """Adds the pull that a row shows to the pulls and wins of the arms, float32 ``[B, arms]`` each."""
    pulls, wins = memory
    arms = np.arange(pulls.shape[1])[None]
    pulled = (timestep.observation["prev_action"][:, None] == arms) & ~timestep.is_first()[:, None]
    return pulls + pulled, wins + pulled * timestep.observation["prev_reward"][:, None]


def thompson(timestep: jaxenv.TimeStep, stream: Any, memory: Any) -> rollout.PolicyStep:
    """Thompson sampling (1933) from a uniform prior."""
    pulls, wins = memory = counted(timestep, memory)
    drawn = jax.vmap(jax.random.beta)(jaxenv.random.jax_keys(stream), 1 + wins, 1 + pulls - wins)
    return rollout.PolicyStep(jnp.argmax(drawn, axis=1).astype(jnp.int32), memory)


def greedy(timestep: jaxenv.TimeStep, stream: Any, memory: Any) -> rollout.PolicyStep:
    """The arm with the highest posterior mean under a uniform prior, one of equal ones at random."""
    pulls, wins = memory = counted(timestep, memory)
    mean = (wins + 1) / (pulls + 2) + 1e-6 * jaxenv.random.uniform(stream, pulls.shape[1:])
    return rollout.PolicyStep(jnp.argmax(mean, axis=1).astype(jnp.int32), memory)


def ucb(scale: float) -> Any:
    """UCB1 (Auer et al., 2002, doi:10.1023/A:1013689704352) with a bonus times ``scale``."""

    def policy(timestep: jaxenv.TimeStep, stream: Any, memory: Any) -> rollout.PolicyStep:
        pulls, wins = memory = counted(timestep, memory)
        once, total = jnp.maximum(pulls, 1), jnp.maximum(pulls.sum(axis=1, keepdims=True), 1)
        index = wins / once + scale * jnp.sqrt(2 * jnp.log(total) / once)
        index = jnp.where(pulls == 0, jnp.inf, index)
        return rollout.PolicyStep(jnp.argmax(index, axis=1).astype(jnp.int32), memory)

    return policy


def played(env: jaxenv.Environment, policy: Any, memory: Any, pulls: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Plays a trial in every lane; returns its regret, and the rewards of its first and its last pull."""

    @jax.jit
    def play(memory: Any) -> Any:
        state, timestep = env.reset(jax.random.key(1))
        (_, last, _), rows = jaxenv.unroll(env, policy, state, timestep, pulls, initial_memory=memory)
        regret = rows.timestep.env_info["regret"].sum(axis=0) + last.env_info["regret"]
        return regret, last.env_info["trial"]["first_return"], last.env_info["trial"]["last_return"]

    return jax.device_get(play(memory))


def main() -> None:
    """Trains, and prints a table of regrets."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arms", type=int, default=5)
    parser.add_argument("--pulls", type=int, default=10, help="of a trial")
    parser.add_argument("--steps", type=int, default=2_000_000, help="of each seed")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--trials", type=int, default=20_000, help="to measure the regret")
    options = parser.parse_args()
    config = ppo.Config(
        env_id="BernoulliBandit-misc",
        env_options={"arms_from": "independent", "num_arms": options.arms, "max_episode_steps": 1},
        wrappers=(("Trials", {"num_episodes": options.pulls}), "PreviousActionAndReward"),
        total_steps=options.steps,
        num_envs=256,
        num_steps=options.pulls + 1,
        num_epochs=4,
        gamma=0.99,
        lambda_=0.3,
        entropy_cost=0.01,
        anneal_entropy=True,
        recurrent=64,
        hidden=(64,),
        num_evaluations=5,
        num_eval_episodes=256,
        eval_explore=True,
    )
    learners, _ = jax.jit(jax.vmap(ppo.make_train(config)))(jax.random.split(jax.random.key(0), options.seeds))
    env = config.make_env(options.trials, "eval")
    nothing = (jnp.zeros((options.trials, options.arms)),) * 2
    rules = {"Thompson sampling": thompson, "UCB1": ucb(1.0), "UCB1, bonus times 0.3": ucb(0.3), "greedy": greedy}
    policies = {name: (rule, nothing) for name, rule in rules.items()}
    for seed in range(options.seeds):
        params = jax.tree.map(lambda x, seed=seed: x[seed], learners.params)
        policies[f"RL2, seed {seed}"] = ppo.make_policy(config, env, params, explore=True)
    print("| policy | regret | first pull pays | last pull pays | gain |\n|---|---|---|---|---|")
    for name, (policy, memory) in policies.items():
        regret, first, last = played(env, policy, memory, options.pulls)
        found = [(x.mean(), x.std(ddof=1) / np.sqrt(len(x))) for x in (regret, last - first)]
        cells = [f"{mean:.2f} ± {error:.3f}" for mean, error in found]
        print(f"| {name} | {cells[0]} | {first.mean():.3f} | {last.mean():.3f} | {cells[1]} |", flush=True)


if __name__ == "__main__":
    main()
