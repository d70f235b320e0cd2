"""PPO of stable-baselines3 on CartPole-v1."""

import pathlib

import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecMonitor

from jaxenv.interop import to_stable_baselines3


class Curve(BaseCallback):
    """Collects the steps so far and the mean return of the episodes that ended, one point per rollout."""

    def __init__(self):
        super().__init__()
        self.points: list[tuple[int, float]] = []
        self.returns: list[float] = []

    def _on_step(self) -> bool:
        self.returns += [info["episode"]["r"] for info in self.locals["infos"] if "episode" in info]
        return True

    def _on_rollout_end(self) -> None:
        if self.returns:
            self.points.append((self.num_timesteps, float(np.mean(self.returns))))
        self.returns = []


def train(num_steps: int = 300_000, num_envs: int = 32, length: int = 64, seed: int = 0) -> list[tuple[int, float]]:
    """Returns the points of the curve."""
    torch.set_num_threads(1)  # more cost time with networks as small as these
    envs = VecMonitor(to_stable_baselines3("CartPole-v1", num_envs=num_envs))
    curve = Curve()
    model = PPO(
        "MlpPolicy",
        envs,
        learning_rate=lambda remaining: 1e-3 * remaining,
        n_steps=length,
        batch_size=256,
        n_epochs=4,
        seed=seed,
        device="cpu",
    )
    model.learn(num_steps, callback=curve)
    envs.close()
    return curve.points


if __name__ == "__main__":
    curve = train()
    path = pathlib.Path(__file__).parent / "results" / "stable_baselines3_ppo.csv"
    np.savetxt(path, curve, "%d,%.2f", header="steps,return", comments="")
    print(f"{curve[-1][0]} steps, return {curve[-1][1]:.1f}")
