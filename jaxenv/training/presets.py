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
        "Catch-bsuite": {
            "total_steps": 20_000,
            "num_evaluations": 5,
            "num_gradient_steps": 16,
            "learning_rate": 1e-3,
            "hidden": (64, 64),
        },
        # A table: the state is one integer.
        "FrozenLake-v1": {
            "hidden": (),
            "total_steps": 60_000,
            "num_evaluations": 5,
            "buffer_size": 60_000,
            "n_step": 1,
            "num_gradient_steps": 16,
            "learning_rate": 1e-2,
            "exploration_fraction": 0.5,
            "epsilon_end": 0.1,
            "max_eval_steps": 100,
        },
    },
    "sac": {},
}
