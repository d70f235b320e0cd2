"""Settings that were tuned for an environment, by learner and id; docs/guides/training.md has their results."""

from typing import Any

PRESETS: dict[str, dict[str, dict[str, Any]]] = {
    "ppo": {},
    "dqn": {
        "CartPole-v1": {"total_steps": 50_000},
    },
    "sac": {},
}
