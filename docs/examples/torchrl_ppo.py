"""PPO of TorchRL on CartPole-v1: its GymWrapper, collector, advantages and loss."""

import pathlib

import numpy as np
import torch
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.collectors import Collector
from torchrl.envs import GymWrapper, RewardSum, TransformedEnv
from torchrl.modules import MLP, ProbabilisticActor, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

from jaxenv.interop import to_gymnasium_vector

LEARNING_RATE, EPOCHS, NUM_MINIBATCHES = 1e-3, 4, 8


def train(num_steps: int = 300_000, num_envs: int = 32, length: int = 64, seed: int = 0) -> list[tuple[int, float]]:
    """Returns the steps so far and the mean return of the episodes that ended, one pair per iteration."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)  # more cost time with networks as small as these
    lanes = to_gymnasium_vector("CartPole-v1", num_envs=num_envs, autoreset=None)  # TorchRL restarts episodes itself
    env = TransformedEnv(GymWrapper(lanes, categorical_action_encoding=True), RewardSum())
    env.set_seed(seed)

    def network(num_outputs: int) -> nn.Module:
        return MLP(in_features=4, out_features=num_outputs, num_cells=[64, 64], activation_class=nn.Tanh)

    actor = ProbabilisticActor(
        TensorDictModule(network(2), in_keys=["observation"], out_keys=["logits"]),
        spec=env.action_spec,
        in_keys=["logits"],
        distribution_class=torch.distributions.Categorical,
        return_log_prob=True,
    )
    critic = ValueOperator(network(1), in_keys=["observation"])
    advantages = GAE(gamma=0.99, lmbda=0.95, value_network=critic)
    coefficients = {"entropy_coeff": 0.01, "critic_coeff": 0.25}
    loss = ClipPPOLoss(actor, critic, loss_critic_type="l2", normalize_advantage=True, **coefficients)
    optimizer = torch.optim.Adam(loss.parameters(), LEARNING_RATE, eps=1e-5)
    frames = num_envs * length
    iterations = num_steps // frames
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1, 0, iterations)
    collector = Collector(env, actor, frames_per_batch=frames, total_frames=iterations * frames)
    curve = []
    for iteration, batch in enumerate(collector):
        with torch.no_grad():
            advantages(batch)
        for _ in range(EPOCHS):
            for minibatch in batch.reshape(-1)[torch.randperm(frames)].chunk(NUM_MINIBATCHES):
                losses = loss(minibatch)
                optimizer.zero_grad()
                sum(losses[name] for name in ("loss_objective", "loss_entropy", "loss_critic")).backward()
                nn.utils.clip_grad_norm_(loss.parameters(), 0.5)
                optimizer.step()
        schedule.step()
        finished = batch["next", "episode_reward"][batch["next", "done"]]
        if len(finished):
            curve.append(((iteration + 1) * frames, finished.mean().item()))
    collector.shutdown()
    return curve


if __name__ == "__main__":
    curve = train()
    print(f"{curve[-1][0]} steps, return {curve[-1][1]:.1f}")
    path = pathlib.Path(__file__).parent / "results" / "torchrl_ppo.csv"
    np.savetxt(path, curve, "%d,%.2f", header="steps,return", comments="")
