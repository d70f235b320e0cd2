"""Settings that were tuned for an environment, by learner and id; docs/guides/training.md has their results."""

from typing import Any

PRESETS: dict[str, dict[str, dict[str, Any]]] = {
    "ppo": {},
    "dqn": {},
    "sac": {
        "Pendulum-v1": {"total_steps": 20_000},  # the defaults of `sac.Config`
        "MountainCarContinuous-v0": {
            "total_steps": 50_000,
            "num_steps": 2,
            "num_gradient_steps": 3,
            "warmup_steps": 8_000,
            "learning_rate": 1e-3,
            "gamma": 0.9999,
            "target_rate": 0.01,
            "temperature": 0.2,
            "learn_temperature": False,
            "layer_norm": True,
            "noise_correlation": 0.9,
        },
    },
}
