"""PPO over several processes of this machine, each with one device and a separate core.

Run as ``python -m benchmarks.processes ID NUM_ENVS REPEATS COUNT NUMBER PORT``, it is one of them.
"""

import json
import os
import socket
import subprocess
import sys
from typing import Any

_SECONDS = 600  # of a process that does not end


def sample(id: str, num_envs: int, repeats: int, count: int) -> dict[str, Any]:
    """Trains over ``count`` processes and returns the summary of the first, as `measure.summary` has it.

    Raises:
        RuntimeError: if a process fails, with its output.
    """
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    line = [sys.executable, "-m", "benchmarks.processes", *map(str, (id, num_envs, repeats, count))]
    started = [
        subprocess.Popen([*line, str(number), str(port)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for number in range(count)
    ]
    try:
        printed = [process.communicate(timeout=_SECONDS) for process in started]
    finally:
        for process in started:
            process.kill()
    for process, (_, errors) in zip(started, printed, strict=True):
        if process.returncode:
            raise RuntimeError(f"a process of the benchmark ended with {process.returncode}: {errors[-2000:]}")
    return json.loads(printed[0][0].splitlines()[-1])


def main(id: str, num_envs: int, repeats: int, count: int, number: int, port: int) -> None:
    """Trains as one of ``count`` processes and prints the summary of its runs."""
    if hasattr(os, "sched_setaffinity"):  # XLA makes one thread for each core that it may use
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[number % len(cores)]})

    import jax

    if count > 1:
        jax.distributed.initialize(f"localhost:{port}", count, number)

    from benchmarks import devices, measure

    contestant = devices.ppo_contestant(id, num_envs, count)
    samples = measure.sample_interleaved([contestant], repeats)[contestant.name]
    print(json.dumps(measure.summary(contestant, samples)))


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
