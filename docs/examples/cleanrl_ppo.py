"""PPO in CleanRL's style on CartPole-v1, whose tensors share their memory with the arrays of JAX."""

import pathlib

import numpy as np
import torch
from gymnasium.wrappers.vector import JaxToTorch
from torch import nn

from jaxenv.interop import to_gymnasium_vector

GAMMA, LAMBDA, CLIP, EPOCHS, NUM_MINIBATCHES, LEARNING_RATE = 0.99, 0.95, 0.2, 4, 8, 1e-3


class Agent(nn.Module):
    """Returns the policy and the value of observations ``[B, 4]``."""

    def __init__(self):
        super().__init__()
        self.actor, self.critic = (
            nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, n)) for n in (2, 1)
        )

    def forward(self, obs):
        return torch.distributions.Categorical(logits=self.actor(obs)), self.critic(obs).squeeze(-1)


def train(num_steps: int = 300_000, num_envs: int = 32, length: int = 64, seed: int = 0) -> list[tuple[int, float]]:
    """Returns the steps so far and the mean return of the episodes that ended, one pair per iteration."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)  # more cost time with networks as small as these
    envs = JaxToTorch(to_gymnasium_vector("CartPole-v1", num_envs=num_envs, autoreset="same_step", arrays="jax"))
    agent = Agent()
    optimizer = torch.optim.Adam(agent.parameters(), LEARNING_RATE, eps=1e-5)
    obs, actions = torch.zeros(length, num_envs, 4), torch.zeros(length, num_envs, dtype=torch.int32)
    logprobs, rewards, ended, values, advantages = torch.zeros(5, length, num_envs)
    next_obs, _ = envs.reset(seed=seed)
    episode_returns, curve, size = torch.zeros(num_envs), [], num_envs * length
    for start in range(0, num_steps - size + 1, size):
        optimizer.param_groups[0]["lr"], finished = (1 - start / num_steps) * LEARNING_RATE, []
        with torch.no_grad():
            for t in range(length):
                policy, values[t] = agent(next_obs)
                obs[t], actions[t] = next_obs, policy.sample()
                logprobs[t] = policy.log_prob(actions[t])
                next_obs, rewards[t], terminated, truncated, infos = envs.step(actions[t])
                ended[t] = terminated | truncated
                episode_returns += rewards[t]
                finished += episode_returns[ended[t] == 1].tolist()
                episode_returns *= 1 - ended[t]
                # Where a limit ended the episode, next_obs is already that of the next one.
                rewards[t] += GAMMA * truncated * agent(infos["final_obs"])[1]
            next_value, advantage = agent(next_obs)[1], 0
            for t in reversed(range(length)):
                delta = rewards[t] + GAMMA * next_value * (1 - ended[t]) - values[t]
                advantages[t] = advantage = delta + GAMMA * LAMBDA * (1 - ended[t]) * advantage
                next_value = values[t]
        batch = [x.flatten(0, 1) for x in (obs, actions, logprobs, advantages, advantages + values)]
        for indices in (i for _ in range(EPOCHS) for i in torch.randperm(size).chunk(NUM_MINIBATCHES)):
            mb_obs, mb_actions, mb_logprobs, mb_advantages, mb_returns = (x[indices] for x in batch)
            policy, value = agent(mb_obs)
            ratio = (policy.log_prob(mb_actions) - mb_logprobs).exp()
            mb_advantages = (mb_advantages - mb_advantages.mean()) / (mb_advantages.std() + 1e-8)
            gain = torch.min(mb_advantages * ratio, mb_advantages * ratio.clamp(1 - CLIP, 1 + CLIP)).mean()
            loss = 0.25 * (value - mb_returns).square().mean() - gain - 0.01 * policy.entropy().mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimizer.step()
        if finished:
            curve.append((start + size, sum(finished) / len(finished)))
    return curve


if __name__ == "__main__":
    curve = train()
    print(f"{curve[-1][0]} steps, return {curve[-1][1]:.1f}")
    path = pathlib.Path(__file__).parent / "results" / "cleanrl_ppo.csv"
    np.savetxt(path, curve, "%d,%.2f", header="steps,return", comments="")
