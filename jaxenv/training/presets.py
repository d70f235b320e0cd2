"""Settings that were tuned for an environment, by learner and id. Results: docs/evidence/training-results.md."""

from typing import Any

from jaxenv._util.checks import check_choice, check_text
from jaxenv._util.names import did_you_mean
from jaxenv.training import _algorithms

# Ten million steps of MinAtar with dense layers take three minutes on one core, convolutions six times as long.
_MINATAR = {
    "torso": "mlp",
    "activation": "relu",
    "total_steps": 10_000_000,
    "num_envs": 64,
    "num_steps": 32,
    "num_epochs": 4,
    "num_minibatches": 8,
    "gamma": 0.99,
    "lambda_": 0.95,
    "entropy_cost": 0.01,
}

# For the two games in which rewards are dense.
_LONG_UNROLLS = {"activation": "tanh", "num_steps": 128, "learning_rate": 5e-3}

# Advantages over few steps and a policy that keeps exploring.
_LOW_LAMBDA = {"learning_rate": 2e-3, "lambda_": 0.75, "entropy_cost": 0.03, "clip_value": True}

# The cells of a view are names, not numbers: objects, colours and states.
_MINIGRID = {
    "wrappers": (("OneHotObservation", {"num_values": (11, 6, 3), "fields": "image"}),),
    "num_envs": 64,
    "num_steps": 128,
    "num_epochs": 4,
    "num_minibatches": 16,
    "learning_rate": 1e-3,
    "gamma": 0.99,
    "lambda_": 0.95,
    "entropy_cost": 0.01,
}

# Independent PPO with the settings of JaxMARL's ippo_ff_mpe and ippo_ff_overcooked: 16 games, whose agents are lanes.
_JAXMARL = {
    "num_steps": 128,
    "num_epochs": 4,
    "num_minibatches": 4,
    "learning_rate": 2.5e-4,
    "gamma": 0.99,
    "lambda_": 0.95,
    "entropy_cost": 0.01,
    "clip_value": True,
    "eval_explore": True,
}
_MPE = _JAXMARL | {"wrappers": ("AgentsAsLanes",), "num_evaluations": 20}
_OVERCOOKED = _JAXMARL | {
    # The shaped reward fades in the first half of the run.
    "wrappers": ("AgentsAsLanes", ("ShapedReward", {"steps": 156_250})),
    "total_steps": 10_000_000,
    "num_envs": 32,
    "num_evaluations": 20,
}

# Where several learners have a preset for an id, the first is the default.
PRESETS: dict[str, dict[str, dict[str, Any]]] = {
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
    "ppo": {
        "CartPole-v1": {"total_steps": 100_000, "num_envs": 8, "num_steps": 64, "num_epochs": 10},
        "Acrobot-v1": {
            "wrappers": ("NormalizeReward",),
            "normalize_observation": True,
            "total_steps": 500_000,
            "num_steps": 128,
            "num_minibatches": 8,
            "learning_rate": 3e-3,
            "gamma": 0.996,
            "lambda_": 0.96,
            "entropy_cost": 7e-4,
        },
        "Pendulum-v1": {
            "wrappers": ("NormalizeReward",),
            "normalize_observation": True,
            "total_steps": 100_000,
            "num_envs": 4,
            "num_steps": 256,
            "num_epochs": 10,
            "num_minibatches": 8,
            "learning_rate": 1e-3,
            "gamma": 0.96,
            "lambda_": 0.95,
            "activation": "relu",
            "num_evaluations": 8,
        },
        "LunarLander-v3": {
            "total_steps": 1_000_000,
            "num_steps": 512,
            "num_epochs": 8,
            "num_minibatches": 64,
            "learning_rate": 1e-3,
            "gamma": 0.999,  # an episode of several hundred steps pays only at its last step
            "lambda_": 0.98,
            "entropy_cost": 0.01,
        },
        "BipedalWalker-v3": {
            "wrappers": ("NormalizeReward",),
            "normalize_observation": True,
            "total_steps": 8_000_000,
            "num_envs": 256,
            "num_steps": 256,
            "num_minibatches": 32,
            "learning_rate": 1e-3,
            "gamma": 0.99,
            "lambda_": 0.95,
        },
        "MiniGrid-Empty-Random-5x5-v0": {
            "total_steps": 100_000,
            "num_minibatches": 8,
            "gamma": 0.99,
            "lambda_": 0.95,
            "entropy_cost": 0.01,
        },
        "MiniGrid-DoorKey-5x5-v0": {
            "total_steps": 80_000,
            "num_minibatches": 8,
            "learning_rate": 2e-3,
            "gamma": 0.99,
            "lambda_": 0.95,
            "entropy_cost": 0.003,
            "normalize_advantage": False,
            "num_evaluations": 6,
        },
        # The policy keeps trying actions until it finds the key, the door and the goal in one episode.
        "MiniGrid-DoorKey-8x8-v0": _MINIGRID | {"total_steps": 1_500_000, "entropy_cost": 0.04},
        "MiniGrid-FourRooms-v0": _MINIGRID | {"recurrent": 64, "total_steps": 5_000_000},
        "UmbrellaChain-bsuite": {
            "env_options": {"chain_length": 20, "n_distractor": 20},
            "total_steps": 1_000_000,
            "num_envs": 128,  # the intermediate rewards are noise, which many episodes average out
            "num_epochs": 4,
            "num_minibatches": 8,
            "gamma": 1.0,
            "num_eval_episodes": 1000,
        },
        # A GRU carries one bit over 40 steps.
        "MemoryChain-bsuite": {
            "env_options": {"memory_length": 40},
            "recurrent": 64,
            "total_steps": 300_000,
            "num_envs": 64,
            "num_epochs": 4,
            "num_minibatches": 8,
            "gamma": 0.99,
            "lambda_": 0.95,
            "entropy_cost": 0.01,
        },
        # Hitting the last brick of a wall for the first time takes exploration, then a policy that loses no ball on the
        # way to it.
        "Breakout-MinAtar": _MINATAR
        | _LONG_UNROLLS
        | {"total_steps": 20_000_000, "learning_rate": 3e-3, "entropy_cost": 0.06, "anneal_entropy": True},
        "Asterix-MinAtar": _MINATAR
        | _LOW_LAMBDA
        | {"total_steps": 20_000_000, "learning_rate": 1.2e-3, "entropy_cost": 0.028},
        "Freeway-MinAtar": _MINATAR | _LOW_LAMBDA,
        "SpaceInvaders-MinAtar": _MINATAR | _LONG_UNROLLS,
        # Air lasts 200 steps; with a discount of 0.99, 0.13 of the loss at its end remains.
        "Seaquest-MinAtar": _MINATAR | _LOW_LAMBDA | {"gamma": 0.995},
        "SimpleReference-mpe": _MPE | {"total_steps": 20_000_000, "num_envs": 32, "num_eval_episodes": 200},
        "SimpleSpread-mpe": _MPE | {"total_steps": 30_000_000, "num_envs": 48, "num_eval_episodes": 300},
        "SimpleTag-mpe": _MPE | {"total_steps": 40_000_000, "num_envs": 64, "num_eval_episodes": 400},
        "Overcooked-CrampedRoom-v1": _OVERCOOKED,
        "Overcooked-CoordRing-v1": _OVERCOOKED,
    },
    "alphazero": {
        "2048-v0": {
            "wrappers": (("OneHotObservation", {"num_values": 18}),),
            "torso": "mlp",
            "hidden": (256, 256),
            "total_steps": 409_600,
            "num_evaluations": 5,
            "num_eval_episodes": 64,
            "learning_rate": 1e-3,
            "max_considered_actions": 4,
            "gamma": 0.997,
            "lambda_": 0.9,
            "value_scale": 1000.0,  # a merge pays up to thousands
        },
    },
    "dqn": {
        "CartPole-v1": {"total_steps": 50_000, "gamma": 0.995, "target_rate": 0.005},
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
        # A table with optimistic values: random actions reach the reward once in 2**20 episodes.
        "DeepSea-bsuite": {
            "env_options": {"size": 20},
            "torso": "mlp",
            "hidden": (),
            "initial_value": 1.0,
            "epsilon_start": 0.0,
            "epsilon_end": 0.0,
            "total_steps": 20_000,
            "num_envs": 1,  # without exploration all lanes would play the same episode
            "num_steps": 20,
            "warmup_steps": 20,
            "buffer_size": 2_000,
            "n_step": 1,
            "learning_rate": 1e-2,
            "num_eval_episodes": 10,
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
}


def preset(env_id: str, algorithm: str | None = None) -> Any:
    """Returns the settings of a learner that were tuned for an environment.

    Args:
        env_id: the id of the environment.
        algorithm: the name of a learner, ``"sac"``, ``"ppo"``, ``"alphazero"`` or ``"dqn"``. By default the first that
            has a preset for this id.

    Returns:
        The ``Config`` of that learner. ``dataclasses.replace`` changes some of its settings.

    Raises:
        ValueError: for an unknown algorithm, or if there is no preset for this id; the message lists the ids with a
            preset.
        ImportError: if the libraries of the learner are not installed.

    >>> import dataclasses, jaxenv
    >>> config = jaxenv.training.preset("CartPole-v1")  # doctest: +SKIP
    >>> short = dataclasses.replace(config, total_steps=50_000)  # doctest: +SKIP
    """
    check_text("preset", "env_id", env_id)
    if algorithm is not None:
        check_choice("preset", "algorithm", algorithm, tuple(PRESETS))
    among = PRESETS if algorithm is None else {algorithm: PRESETS[algorithm]}
    for name, by_id in among.items():
        if env_id in by_id:
            return _algorithms.module("preset", name).Config(env_id=env_id, **by_id[env_id])
    ids = sorted({known for by_id in among.values() for known in by_id})
    hint = did_you_mean(env_id, ids)
    listed = f"there are presets for {', '.join(ids)}" if ids else "there are no presets"
    owner = "there is" if algorithm is None else f"{algorithm} has"
    raise ValueError(f"preset: {owner} none for {env_id!r}{f', {hint}' if hint else ';'} {listed}")
