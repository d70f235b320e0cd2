"""Settings that were tuned for an environment, by learner and id; docs/guides/training.md has their results."""

from typing import Any

PRESETS: dict[str, dict[str, dict[str, Any]]] = {
    "ppo": {},
    "dqn": {
        "CartPole-v1": {"total_steps": 50_000},
        # Single random actions never reach the goal. Each row takes up to 4 steps of the environment.
        "MountainCar-v0": {
            "wrappers": (("ActionRepeat", {"num": 4}),),
            "normalize_observation": True,
            "total_steps": 70_000,
            "buffer_size": 50_000,
            "n_step": 2,
            "learning_rate": 3e-3,
            "gamma": 0.98,
            "exploration_fraction": 0.3,
            "max_eval_steps": 200,
        },
    },
    "sac": {},
}
