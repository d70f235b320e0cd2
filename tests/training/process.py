"""One of several processes that train together: ``python -m tests.training.process FOLDER COUNT NUMBER PORT [DIES]``.

Prints the evaluations so far after each. The process kills itself after ``DIES`` of them.
"""

import os
import signal
import sys

import jax

DEVICES = 4  # of all processes


def main(folder: str, count: int, number: int, port: int, dies: int = 0) -> None:
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
    for run in seeds.train(config, num_seeds=1, folder=folder, resume=True, devices=DEVICES):
        print(int(run.iterations), flush=True)
        if int(run.iterations) == dies:
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
