"""One of several processes that train together.

``python -m tests.training.process FOLDER FORMAT COUNT NUMBER PORT DIES`` prints the evaluations so far after each. The
process kills itself after ``DIES`` of them, 0 for never.
"""

import os
import signal
import sys

import jax

DEVICES = 4  # of all processes


def main(folder: str, checkpoint_format: str, count: int, number: int, port: int, dies: int) -> None:
    """Trains PPO in ``folder``, or resumes it."""
    jax.config.update("jax_num_cpu_devices", DEVICES // count)
    jax.config.update("jax_disable_most_optimizations", True)
    if count > 1:
        jax.distributed.initialize(
            f"localhost:{port}", count, number, heartbeat_timeout_seconds=10, shutdown_timeout_seconds=10
        )
    from jaxenv.training import ppo, seeds

    config = ppo.Config(
        total_steps=512,
        num_envs=8,
        num_steps=16,
        num_minibatches=2,
        num_epochs=2,
        hidden=(8,),
        num_evaluations=4,
        num_eval_episodes=8,
        max_eval_steps=20,
    )
    options = {"resume": True, "devices": DEVICES, "checkpoint_format": checkpoint_format}
    for run in seeds.train(config, num_seeds=1, folder=folder, **options):
        print(int(run.iterations), flush=True)
        if int(run.iterations) == dies:
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(*sys.argv[1:3], *map(int, sys.argv[3:]))
