"""CleanRL-style PPO on CartPole-v1. Observations, rewards and flags are tensors that share their memory with JAX.

python docs/examples/cleanrl_ppo.py
"""

import pathlib

import numpy as np
import torch
from gymnasium.wrappers.vector import JaxToTorch
from torch import nn
from torch.distributions import Categorical

from jaxenv.interop import to_gymnasium_vector

RESULTS = pathlib.Path(__file__).parent / "results" / "cleanrl_ppo.csv"
GAMMA, LAMBDA, CLIP, EPOCHS, NUM_MINIBATCHES, LEARNING_RATE = 0.99, 0.95, 0.2, 4, 8, 1e-3


class Agent(nn.Module):
    def __init__(self, num_inputs: int, num_actions: int):
        super().__init__()
        self.actor, self.critic = (
            nn.Sequential(nn.Linear(num_inputs, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, size))
            for size in (num_actions, 1)
        )

    def policy(self, obs: torch.Tensor) -> Categorical:
        return Categorical(logits=self.actor(obs))

    def value(self, obs: torch.Tensor) -> torch.Tensor:
        return self.critic(obs).squeeze(-1)


def train(num_steps: int = 300_000, num_envs: int = 32, length: int = 64, seed: int = 0) -> list[tuple[int, float]]:
    torch.manual_seed(seed)
    torch.set_num_threads(1)  # more cost time with networks as small as these
    envs = JaxToTorch(to_gymnasium_vector("CartPole-v1", num_envs=num_envs, autoreset="same_step", arrays="jax"))
    agent = Agent(envs.single_observation_space.shape[0], int(envs.single_action_space.n))
    optimizer = torch.optim.Adam(agent.parameters(), LEARNING_RATE, eps=1e-5)
    obs = torch.zeros(length, num_envs, *envs.single_observation_space.shape)
    actions = torch.zeros(length, num_envs, dtype=torch.int32)
    logprobs, rewards, ended, values, advantages = torch.zeros(5, length, num_envs)
    episode_returns, curve, iterations = torch.zeros(num_envs), [], num_steps // (num_envs * length)
    next_obs, _ = envs.reset(seed=seed)
    for iteration in range(iterations):
        optimizer.param_groups[0]["lr"] = (1 - iteration / iterations) * LEARNING_RATE
        finished = []
        for t in range(length):
            with torch.no_grad():
                policy = agent.policy(next_obs)
                obs[t], actions[t], values[t] = next_obs, policy.sample(), agent.value(next_obs)
                logprobs[t] = policy.log_prob(actions[t])
                next_obs, reward, terminated, truncated, infos = envs.step(actions[t])
                episode_returns += reward
                rewards[t], ended[t] = reward, terminated | truncated
                if truncated.any():  # the value of the observation that the next episode's first one has replaced
                    rewards[t][truncated] += GAMMA * agent.value(infos["final_obs"][truncated])
            finished += episode_returns[ended[t].bool()].tolist()
            episode_returns *= 1 - ended[t]
        with torch.no_grad():
            next_value, advantage = agent.value(next_obs), 0.0
        for t in reversed(range(length)):
            delta = rewards[t] + GAMMA * next_value * (1 - ended[t]) - values[t]
            advantages[t] = advantage = delta + GAMMA * LAMBDA * (1 - ended[t]) * advantage
            next_value = values[t]
        batch = [x.flatten(0, 1) for x in (obs, actions, logprobs, advantages, advantages + values)]
        for rows in (rows for _ in range(EPOCHS) for rows in torch.randperm(len(batch[0])).chunk(NUM_MINIBATCHES)):
            mb_obs, mb_actions, mb_logprobs, mb_advantages, mb_returns = (x[rows] for x in batch)
            policy = agent.policy(mb_obs)
            ratio = (policy.log_prob(mb_actions) - mb_logprobs).exp()
            mb_advantages = (mb_advantages - mb_advantages.mean()) / (mb_advantages.std() + 1e-8)
            clipped = torch.min(mb_advantages * ratio, mb_advantages * ratio.clamp(1 - CLIP, 1 + CLIP))
            value_loss = (agent.value(mb_obs) - mb_returns).square().mean()
            optimizer.zero_grad()
            (0.25 * value_loss - clipped.mean() - 0.01 * policy.entropy().mean()).backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimizer.step()
        if finished:
            curve.append(((iteration + 1) * length * num_envs, sum(finished) / len(finished)))
    envs.close()
    return curve


if __name__ == "__main__":
    curve = train()
    print(f"{curve[-1][0]} steps, return {curve[-1][1]:.1f}")
    np.savetxt(RESULTS, curve, "%d,%.2f", header="steps,return", comments="")
