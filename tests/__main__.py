"""Run all tests: ``python -m tests -n 2``; arguments are passed to pytest.

Tests that are not marked ``numeric`` run with the older code generators of XLA:CPU, which compile small programs in
two thirds of the time. XLA reads its flags once per process, so this takes two runs of pytest. Plain ``pytest`` runs
the same tests in one, with the default flags.
"""

import os
import subprocess
import sys

import pytest

_RUNS = {"not numeric": "--xla_cpu_use_fusion_emitters=false", "numeric": ""}


def main(arguments: list[str]) -> int:
    """Runs the tests and returns the exit code: 0 if all passed."""
    codes = []
    for marker, flags in _RUNS.items():
        environment = {**os.environ, "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {flags}".strip()}
        command = [sys.executable, "-m", "pytest", "-m", f"{marker} and not thorough", *arguments]
        codes.append(subprocess.run(command, env=environment).returncode)
    ran = [code for code in codes if code != pytest.ExitCode.NO_TESTS_COLLECTED]
    return max(ran, default=int(pytest.ExitCode.NO_TESTS_COLLECTED))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
